"""Rows become columns and back without loss."""

from __future__ import annotations

from tests.support.profiles import table
from tfprobe.profile.capture_tables import Place, Row


def row(name: str = "a", **changes: object) -> Row:
    return Row("/cpu:0", "7", name, "MatMul", Place.HOST, 10, 20)._replace(**changes)


def test_columns_hold_the_rows_in_order():
    """Each row keeps its capture, its strings and its numbers."""
    columns = table([[row("a", bytes=5)], [], [row("b"), row("a")]])

    assert columns.capture.tolist() == [0, 2, 2]
    assert [columns.strings[i] for i in columns.name] == ["a", "b", "a"]
    assert (columns.start_ns.tolist(), columns.bytes.tolist()) == ([10] * 3, [5, 0, 0])


def test_strings_are_interned():
    """A name that occurs a million times is stored once."""
    columns = table([[row()] * 50])

    assert sorted(columns.strings.values) == ["", "/cpu:0", "7", "MatMul", "a"]


def test_no_rows_make_empty_columns():
    """A run without a capture has a table of no rows."""
    assert len(table([])) == 0


def test_only_keeps_the_chosen_rows():
    """A selection is a table of the same strings."""
    columns = table([[row("a"), row("b", background=True)]])

    chosen = columns.only(columns.background)

    assert [chosen.strings[i] for i in chosen.name] == ["b"]
