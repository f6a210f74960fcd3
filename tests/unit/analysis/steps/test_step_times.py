"""Distributions of steps and gaps: exact while all are remembered, else from the histogram."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.support.profiles import durations, loop, timed_loop
from tfprobe.analysis.steps import step_times
from tfprobe.analysis.steps.step_times import QUANTILES, Distribution
from tfprobe.analysis.steps.step_window import recent_window
from tfprobe.errors import Missing

VALUES_NS = [random.Random(9).randrange(1_000, 50_000_000) for _ in range(5_000)]


def steps_of(one) -> Distribution:
    found = step_times.step_distribution(one, recent_window(one, [one]))
    assert isinstance(found, Distribution)
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

    assert found.quantiles_ns == pytest.approx(np.quantile(VALUES_NS, QUANTILES), rel=1 / 16)
    assert (found.count, found.error_ratio) == (5_000, 1 / 16)


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
