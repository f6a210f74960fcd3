"""Distributions of steps and gaps: exact while all are remembered, else from the histogram."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.support.profiles import durations, loop, timed_loop
from tfprobe.analysis.steps import step_times
from tfprobe.analysis.steps.step_times import (
    QUANTILES,
    Distribution,
    StepTimeSummary,
    recent_steps,
    step_time_summary,
)
from tfprobe.analysis.steps.step_window import recent_window
from tfprobe.errors import Missing

VALUES_NS = [random.Random(9).randrange(1_000, 50_000_000) for _ in range(5_000)]


def steps_of(one) -> Distribution:
    found = step_times.step_distribution(one, recent_window(one, [one]))
    assert isinstance(found, Distribution)
    return found


def times(*args, **kwargs) -> StepTimeSummary:
    found = step_time_summary(loop(*args, **kwargs))
    assert isinstance(found, StepTimeSummary)
    return found


def test_quantiles_are_exact_while_every_step_is_remembered():
    """They are numpy's, of the very values."""
    found = steps_of(timed_loop(VALUES_NS))

    assert found.quantiles_ns == pytest.approx(np.quantile(VALUES_NS, QUANTILES))
    assert (found.error_ratio, found.left_out) == (0.0, 0)
    assert sum(bar.count for bar in found.bars) == 5_000


def test_traced_steps_are_left_out():
    """Steps that tfprobe traced, and those after them, do not make the job look slow."""
    found = steps_of(timed_loop([10] * 50 + [10**9, 10**8] + [10] * 48, sampled=[50]))

    assert (found.count, found.left_out, found.max_ns) == (98, 2, 10)


def test_where_every_second_step_is_traced_the_others_are_told():
    """Leaving out those after a traced step as well would leave nothing."""
    found = steps_of(timed_loop([20, 10] * 50, sampled=range(0, 100, 2)))

    assert (found.count, found.max_ns) == (50, 10)


def test_forgotten_steps_are_in_the_histogram():
    """Of a long job quantiles are off by 1/16 at most, and say so."""
    found = steps_of(loop(VALUES_NS, remembered=100))
    summary = times(VALUES_NS, remembered=100)

    assert found.quantiles_ns == pytest.approx(np.quantile(VALUES_NS, QUANTILES), rel=1 / 16)
    assert (found.count, found.error_ratio) == (5_000, 1 / 16)
    assert (summary.p50_ns, summary.error_ratio) == (found.median_ns, 1 / 16)
    assert (summary.total_ns, summary.max_ns) == (sum(VALUES_NS), max(VALUES_NS))


def test_gaps_have_a_distribution_of_their_own():
    """The time between steps is told like that of steps; the first step has none before it."""
    one = timed_loop([10] * 4, [999, 1, 2, 3])

    found = step_times.gap_distribution(one, recent_window(one, [one]))

    assert isinstance(found, Distribution)
    assert (found.count, found.left_out, found.total_ns) == (3, 0, 6)


def test_a_single_step_has_no_gap():
    """That is said, and is no gap of 0."""
    one = timed_loop([10], gaps=durations([]))

    found = step_times.gap_distribution(one, recent_window(one, [one]))

    assert found == Missing("there is no gap: fewer than two steps")


def test_remembered_steps_are_summarised_exactly():
    """Total, mean, median, 95th percentile and extremes are those of the steps."""
    found = times([10, 20, 30, 40, 100])

    assert (found.total_ns, found.mean_ns, found.p50_ns, found.max_ns) == (200, 40, 30, 100)
    assert found.p95_ns == pytest.approx(88)
    assert found.error_ratio == 0


def test_steps_that_raised_are_left_out_while_remembered():
    """A step that failed after a minute is no slow step."""
    assert times([10, 10**9, 10], raised=[1]).max_ns == 10


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
