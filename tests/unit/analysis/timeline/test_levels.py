"""What is too small to be seen becomes blocks, which lose no time and cover nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from tfprobe.analysis.timeline.lanes import Window, drawn
from tfprobe.profile.tables import Int64s


def _slices(count: int, rows: int) -> tuple[Int64s, Int64s, Int64s]:
    """Slices of some rows, most of them short, none over another of its row."""
    random = np.random.default_rng(count)
    row = np.sort(random.integers(0, rows, count))
    length = np.where(random.random(count) < 0.01, 5_000, random.integers(0, 50, count))
    end = np.cumsum(length + random.integers(0, 20, count))
    return row, end - length, end


def test_few_slices_are_drawn_as_they_are() -> None:
    """Each is a block of one."""
    row, start, end = _slices(100, 3)

    found = drawn(row, start, end, Window(0, int(end.max())), most=100)

    assert found.longest.tolist() == list(range(100))
    assert found.count.tolist() == [1] * 100
    assert found.busy_ns.tolist() == (end - start).tolist()


@pytest.mark.parametrize("most", [10, 100, 5_000])
def test_blocks_keep_all_time(most: int) -> None:
    """How many there are and how long they took does not depend on the detail."""
    row, start, end = _slices(20_000, 7)

    found = drawn(row, start, end, Window(0, int(end.max())), most=most)

    assert int(found.count.sum()) == 20_000
    assert int(found.busy_ns.sum()) == int((end - start).sum())
    assert (found.busy_ns <= found.end_ns - found.start_ns).all()
    assert len(found.count) <= max(most, 4 * 7)


def test_blocks_do_not_overlap_within_a_row() -> None:
    """Nor do they hold slices of two rows, or one that is long enough to be seen."""
    row, start, end = _slices(20_000, 7)

    found = drawn(row, start, end, Window(0, int(end.max())), most=500)

    rows = row[found.longest]
    assert (np.diff(rows) >= 0).all()
    apart = (found.start_ns[1:] >= found.end_ns[:-1]) | (rows[1:] != rows[:-1])
    assert apart.all()


def test_a_window_has_what_touches_it_alone() -> None:
    """Where little lies in it, in full detail."""
    row, start, end = _slices(20_000, 1)
    window = Window(int(start[500]), int(end[600]))

    found = drawn(row, start, end, window, most=500)

    assert found.longest[0] <= 500
    assert found.longest[-1] >= 600
    assert found.count.max() == 1
    assert ((found.end_ns >= window.from_ns) & (found.start_ns <= window.to_ns)).all()


def test_nothing_is_drawn_of_nothing() -> None:
    """Nor in a window in which nothing lies."""
    nothing = np.empty(0, dtype=np.int64)
    row, start, end = _slices(10, 1)

    assert len(drawn(nothing, nothing, nothing, Window(0, 10), most=5).count) == 0
    assert len(drawn(row, start, end, Window(10**9, 10**9 + 5), most=5).count) == 0
