"""A trend is told where there is one, with how sure that is."""

from __future__ import annotations

import numpy as np

from tests.support.profiles import timed_loop
from tfprobe.analysis.steps.step_series import Trend, trend
from tfprobe.analysis.steps.step_window import recent_window, warm_up_steps
from tfprobe.errors import Missing


def noisy(count: int, *, seed: int = 3) -> np.ndarray:
    """Return step times of 10 ms with 10 % of noise and a slow one here and there."""
    random = np.random.default_rng(seed)
    times = 10_000_000 * (1 + 0.1 * random.standard_normal(count))
    times[random.integers(0, count, count // 50)] *= 10
    return times


def of(times) -> Trend | Missing:
    loop = timed_loop(times.astype(np.int64))
    remembered = recent_window(loop, [loop])
    return trend(remembered.numbers, remembered.step_ns, remembered.counts)


def test_a_planted_slowdown_is_measured():
    """Steps that get 12 % slower over the run are said to, within the interval."""
    found = of(noisy(2_000) * np.linspace(1, 1.12, 2_000))

    assert isinstance(found, Trend)
    assert found.is_significant
    assert found.low_ratio <= 0.12 <= found.high_ratio
    assert 0.10 < found.change_ratio < 0.14


def test_steps_without_a_trend_have_none():
    """Noise, and slow steps here and there, are no trend."""
    found = [of(noisy(1_000, seed=seed)) for seed in range(50)]

    assert sum(each.is_significant for each in found if isinstance(each, Trend)) <= 1


def test_a_trend_that_matters_to_nobody_is_none():
    """One percent is not worth a word, however sure it is."""
    found = of(np.linspace(1, 1.01, 2_000) * 10_000_000)

    assert isinstance(found, Trend)
    assert found.p_value < 0.001
    assert not found.is_significant


def test_few_steps_have_no_trend():
    """Of ten steps no trend is told, and the reason is."""
    assert of(noisy(10)) == Missing("a trend takes 30 steps")


def test_the_warm_up_is_where_steps_have_come_down():
    """Five slow steps at the start are the warm-up, one slow step later is none."""
    times = np.full(200, 10_000_000)
    times[:5] = [900_000_000, 40_000_000, 30_000_000, 20_000_000, 15_000_000]
    times[50] = 80_000_000
    loop = timed_loop(times)

    assert warm_up_steps(recent_window(loop, [loop])) == 5


def test_steps_that_are_always_the_same_need_no_warm_up():
    """Where the first step is as fast as the last there is no warm-up."""
    loop = timed_loop([10_000_000] * 100)

    assert warm_up_steps(recent_window(loop, [loop])) == 0


def test_a_run_that_only_gets_slower_has_no_warm_up():
    """A slowdown is a trend and no warm-up."""
    loop = timed_loop(np.linspace(10_000_000, 20_000_000, 300).astype(np.int64))

    assert warm_up_steps(recent_window(loop, [loop])) == 0
