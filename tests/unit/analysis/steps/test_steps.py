"""Step times are exact while every step is remembered, and honest about their error after."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.support.profiles import loop
from tfprobe.analysis.steps.step_times import StepTimeSummary, recent_steps, step_time_summary
from tfprobe.errors import Missing

VALUES_NS = [random.Random(9).randrange(1_000, 50_000_000) for _ in range(5_000)]


def times(*args, **kwargs) -> StepTimeSummary:
    found = step_time_summary(loop(*args, **kwargs))
    assert isinstance(found, StepTimeSummary)
    return found


def test_remembered_steps_are_summarised_exactly():
    """Total, mean, median, 95th percentile and extremes are those of the steps."""
    found = times([10, 20, 30, 40, 100])

    assert (found.total_ns, found.mean_ns, found.p50_ns, found.max_ns) == (200, 40, 30, 100)
    assert found.p95_ns == pytest.approx(88)
    assert found.error_ratio == 0


def test_steps_that_raised_are_left_out_while_remembered():
    """A step that failed after a minute is no slow step."""
    assert times([10, 10**9, 10], raised=[1]).max_ns == 10


def test_quantiles_of_the_histogram_are_within_the_error_they_state():
    """With most steps forgotten p50 and p95 are off by a sixteenth at most."""
    found = times(VALUES_NS, remembered=100)

    expected = np.percentile(VALUES_NS, [50, 95])
    assert found.error_ratio == 1 / 16
    assert [found.p50_ns, found.p95_ns] == pytest.approx(expected, rel=found.error_ratio)
    assert (found.total_ns, found.max_ns) == (sum(VALUES_NS), max(VALUES_NS))


def test_quantiles_never_leave_the_extremes():
    """Steps of one length have that length as every quantile."""
    found = times([1_000_003] * 500, remembered=10)

    assert (found.p50_ns, found.p95_ns) == (1_000_003, 1_000_003)


def test_no_completed_step_has_a_reason():
    """A loop whose steps all raised has no step time."""
    assert step_time_summary(loop([5, 5], raised=[0, 1])) == Missing("all 2 steps raised")
    assert step_time_summary(loop([])) == Missing("no step was completed")


def test_recent_steps_are_numbered_from_the_start_of_the_work():
    """The last steps have their true numbers, times and gaps."""
    last = recent_steps(loop([7] * 50, remembered=10, raised=[48]), last=2)

    assert [(s.step, s.duration_ns, s.gap_ns, s.raised) for s in last] == [
        (48, 7, 1000, True),
        (49, 7, 1000, False),
    ]
