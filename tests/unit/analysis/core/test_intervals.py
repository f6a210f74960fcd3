"""Sets of moments are joined, cut and subtracted as sets of single ns are."""

from __future__ import annotations

import random

import numpy as np

from tfprobe.analysis.core.intervals import Intervals, difference, intersection, joined, one, union


def moments(intervals: Intervals) -> set[int]:
    pairs = zip(intervals.start_ns.tolist(), intervals.end_ns.tolist(), strict=True)
    return {each for start, end in pairs for each in range(start, end)}


def some(rng: random.Random) -> Intervals:
    starts = [rng.randrange(40) for _ in range(rng.randrange(8))]
    ends = [start + rng.randrange(9) for start in starts]
    return union(np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64))


def test_sets_behave_as_sets_of_moments():
    """For any sets, lengths and members are those of plain Python sets."""
    rng = random.Random(7)
    for _ in range(300):
        a, b = some(rng), some(rng)

        assert moments(intersection(a, b)) == moments(a) & moments(b)
        assert moments(difference(a, b)) == moments(a) - moments(b)
        assert moments(joined(a, b)) == moments(a) | moments(b)
        assert a.length_ns == len(moments(a))


def test_results_are_disjoint_and_sorted():
    """Every set can go on into the next operation."""
    rng = random.Random(8)
    for _ in range(100):
        found = difference(joined(some(rng), some(rng)), some(rng))

        assert (found.end_ns > found.start_ns).all()
        assert (found.start_ns[1:] > found.end_ns[:-1]).all()


def test_an_empty_interval_is_no_interval():
    """What ends when it starts holds no moment."""
    assert one(5, 5).length_ns == 0
    assert one(5, 8).length_ns == 3
