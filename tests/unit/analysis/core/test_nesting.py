"""Of calls within calls each has the time in which it was the innermost."""

from __future__ import annotations

import numpy as np

from tfprobe.analysis.core.intervals import innermost


def _stretches(*rows: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    lane, start, end = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    columns = (column.tolist() for column in innermost(lane, start, end))
    return sorted(zip(*columns, strict=True), key=lambda each: (each[1], each[0]))


def test_what_is_inside_is_taken_out_of_what_is_around() -> None:
    """Before, between and after what it calls, a call is the innermost."""
    found = _stretches((0, 0, 100), (0, 10, 30), (0, 20, 25), (0, 40, 50))

    assert found == [
        (0, 0, 10), (1, 10, 20), (2, 20, 25), (1, 25, 30), (0, 30, 40), (3, 40, 50), (0, 50, 100)
    ]  # fmt: skip


def test_lanes_have_nothing_to_do_with_each_other() -> None:
    """Nor have calls one after the other."""
    found = _stretches((0, 0, 100), (0, 200, 300), (1, 50, 60))

    assert found == [(0, 0, 100), (2, 50, 60), (1, 200, 300)]


def test_what_ends_after_what_is_around_it_is_cut() -> None:
    """No moment counts twice, whatever was written."""
    assert _stretches((0, 0, 100), (0, 90, 120)) == [(0, 0, 90), (1, 90, 100)]
    assert _stretches() == []
