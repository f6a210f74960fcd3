"""A growing table is at each moment the rows of its captures in the order of their keys."""

from __future__ import annotations

import numpy as np
import pytest

from tfprobe.profile.capture_tables import Spans
from tfprobe.profile.tables import Columns, GrowingTable, Interner


@pytest.fixture
def table() -> GrowingTable[Spans]:
    return GrowingTable(Spans, Interner())


def rows(*starts_ns: int) -> Spans:
    columns = Columns(Spans)
    columns.add(len(starts_ns), start_ns=np.array(starts_ns, dtype=np.int64))
    return columns.rows(Interner())


def shown(table: GrowingTable[Spans]) -> list[tuple[int, int]]:
    found = table.table()
    return list(zip(found.capture.tolist(), found.start_ns.tolist(), strict=True))


def test_rows_stand_in_the_order_of_their_keys(table):
    """Whichever came first."""
    table.put(("b",), rows(3, 4))
    before = shown(table)
    table.put(("c",), rows(5))
    table.put(("a",), rows(1))

    assert before == [(0, 3), (0, 4)]
    assert shown(table) == [(0, 1), (1, 3), (1, 4), (2, 5)]


def test_a_capture_without_rows_has_a_number(table):
    """The numbers are the places of captures, rows or none."""
    for key, added in (("a", rows(1)), ("b", rows()), ("c", rows(2))):
        table.put((key,), added)
        table.table()

    assert shown(table) == [(0, 1), (2, 2)]


def test_rows_go_and_are_replaced(table):
    """A capture that was damaged and is whole now has the rows it has now."""
    for key in "abc":
        table.put((key,), rows(ord(key)))
    table.table()
    table.drop(("a",))
    table.put(("b",), rows(7, 8))
    table.drop(("never there",))

    assert shown(table) == [(0, 7), (0, 8), (1, ord("c"))]


def test_a_capture_may_come_and_go_unseen(table):
    """Nothing of it is left."""
    table.put(("a",), rows(1))
    table.drop(("a",))

    assert shown(table) == []


def test_a_table_that_was_given_stays(table):
    """Rows that are appended lie behind it, and others are put elsewhere."""
    table.put(("b",), rows(1, 2))
    first = table.table()
    for at in range(3, 30):
        table.put((f"c{at}",), rows(at))
        table.table()
    table.put(("a",), rows(9))
    table.table()

    assert (first.start_ns.tolist(), first.capture.tolist()) == ([1, 2], [0, 0])


def test_appended_rows_seldom_move_the_others(table):
    """A table that grows row by row is copied a few times, not each time."""
    moved, held = 0, None
    for at in range(200):
        table.put((f"{at:03d}",), rows(*range(10)))
        column = table.table().start_ns
        moved += held is not None and column.base is not held
        held = column.base
    assert moved < 30


def test_without_news_the_table_is_the_same(table):
    """Whoever has it need not look again."""
    table.put(("a",), rows(1))

    assert table.table() is table.table()
