"""Measurements of several processes stand on one axis of time."""

from __future__ import annotations

import numpy as np

from tfprobe.web.pages.axis import Measured, on_one_axis


def measured(at_ns: list[int], values: list[float]) -> Measured:
    return Measured(np.array(at_ns, dtype=np.int64), np.array(values, dtype=np.float64))


def test_of_one_alone_nothing_is_joined() -> None:
    """Its own moments are the axis."""
    assert on_one_axis([measured([3, 7, 9], [1, 5, 2])]) == ([3, 7, 9], [[1, 5, 2]])


def test_what_was_measured_at_other_moments_goes_on_until_the_next() -> None:
    """A line is not in pieces because another process was measured in between."""
    at_ns, values = on_one_axis([measured([0, 10, 20], [1, 2, 3]), measured([5, 15], [7, 8])])

    assert len(at_ns) == 3
    assert values == [[1, 2, 3], [7, 7, 8]]


def test_the_most_of_a_part_of_the_time_is_kept() -> None:
    """A peak is there however narrow."""
    values = [0.0] * 10_000
    values[1234] = 5

    at_ns, (line,) = on_one_axis([measured(list(range(10_000)), values)], most=100)

    assert (len(at_ns), at_ns[-1]) == (100, 9_999)
    assert max(each for each in line if each is not None) == 5
    assert None not in line


def test_nothing_is_known_before_the_first_and_after_the_last() -> None:
    """A process that ended has no memory any more."""
    _, values = on_one_axis([measured([0, 50, 100], [1, 1, 1]), measured([0, 30, 40], [2, 2, 2])])

    assert values == [[1, 1, 1], [2, 2, None]]


def test_where_nothing_was_measured_there_is_no_axis() -> None:
    """Nor is there any line on it."""
    assert on_one_axis([]) == ([], [])
    assert on_one_axis([measured([], [])]) == ([], [[]])
