"""Intervals of a thread lie below each other or beside each other, never over each other."""

from __future__ import annotations

import numpy as np
import pytest

from tfprobe.analysis.timeline.lanes import rows


def _rows(*intervals: tuple[int, int], most: int = 64) -> list[int]:
    start, end = np.array(intervals, dtype=np.int64).reshape(-1, 2).T
    return rows(start, end, most=most).tolist()


def test_what_lies_inside_has_a_row_below() -> None:
    """As calls within calls do; what comes after is at the top again."""
    assert _rows((0, 100), (0, 40), (10, 20), (40, 60), (100, 120)) == [0, 1, 2, 1, 0]


def test_what_only_overlaps_has_a_row_of_its_own() -> None:
    """As kernels of one stream do in a trace; the first row that is free serves the next."""
    assert _rows((0, 10), (5, 15), (12, 20), (14, 30)) == [0, 1, 0, 2]


def test_an_empty_interval_lies_inside_what_is_around_it() -> None:
    """It takes no room: what starts where it lies has its row."""
    assert _rows((0, 10), (5, 5), (5, 7), (10, 10), (10, 10)) == [0, 1, 1, 0, 0]
    assert _rows() == []


def test_what_lies_too_deep_has_no_row() -> None:
    """A thousand calls within each other are drawn as far as anybody looks."""
    nested = [(at, 2000 - at) for at in range(1000)]
    staggered = [(at, 5000 + at) for at in range(1000)]

    assert _rows(*nested, most=8) == [min(at, 8) for at in range(1000)]
    assert _rows(*staggered, most=8) == [min(at, 8) for at in range(1000)]


@pytest.mark.parametrize("seed", range(20))
def test_no_two_of_a_row_have_a_moment_in_common(seed: int) -> None:
    """Whatever was recorded."""
    random = np.random.default_rng(seed)
    start = random.integers(0, 300, 200)
    end = start + random.integers(0, 30, 200)
    order = np.lexsort((-end, start))
    start, end = start[order], end[order]

    found = rows(start, end, most=64)

    for row in np.unique(found):
        mine = found == row
        assert (start[mine][1:] >= end[mine][:-1]).all()
