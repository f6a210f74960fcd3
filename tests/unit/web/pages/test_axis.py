"""Measurements of several processes stand on one axis of time."""

from __future__ import annotations

import numpy as np

from tfprobe.web.pages.processes_hardware import Measured, on_one_axis


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


def test_a_line_breaks_where_nothing_was_measured() -> None:
    """A job that stood still for a minute was not at the same level all the while."""
    at_ns, (line,) = on_one_axis([measured([0, 10, 20, 30, 600, 610], [1, 2, 3, 4, 5, 6])])

    assert at_ns == [0, 10, 20, 30, 40, 600, 610]
    assert line == [1, 2, 3, 4, None, 5, 6]


def test_a_silence_of_one_is_not_filled_by_the_moments_of_another() -> None:
    """What one process was measured at says nothing of another."""
    steady = measured(list(range(0, 620, 10)), [9.0] * 62)

    at_ns, (line, other) = on_one_axis(
        [measured([0, 10, 20, 30, 600, 610], [1, 2, 3, 4, 5, 6]), steady]
    )

    known = [at for at, value in zip(at_ns, line, strict=True) if value is not None]
    assert max(at for at in known if at < 500) <= 40
    assert line[-1] == 6
    assert None not in other


def test_a_sample_between_two_silences_is_kept() -> None:
    """However coarse the axis is."""
    at_ns = [*range(0, 1000, 10), 5000, *range(9000, 10_000, 10)]
    values = [1.0] * 100 + [7.0] + [1.0] * 100

    _, (line,) = on_one_axis([measured(at_ns, values)], most=50)

    assert 7.0 in line
    assert None in line
