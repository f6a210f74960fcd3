"""A leak is distinguished from a warm-up and from noise."""

from __future__ import annotations

import numpy as np
import pytest

from tfprobe.analysis.memory.host_memory import Growth, GrowthVerdict, growth
from tfprobe.errors import Missing

MIB = 2**20
STEPS = np.arange(0, 1000, 10, dtype=np.int64)
NOISE = np.random.default_rng(5).integers(-MIB // 4, MIB // 4, len(STEPS))


def found(size_bytes) -> Growth:
    told = growth(STEPS, np.asarray(size_bytes, dtype=np.int64))
    assert isinstance(told, Growth), told
    return told


def test_a_leak_is_found_with_its_slope() -> None:
    """A job that leaks 100 KiB per step grows by that."""
    told = found(500 * MIB + STEPS * 102_400 + NOISE)

    assert told.verdict is GrowthVerdict.GROWING
    assert told.bytes_per_step == pytest.approx(102_400, rel=0.02)
    assert told.low < 102_400 < told.high


def test_memory_that_fills_up_at_first_is_a_warm_up() -> None:
    """Pools, traces and plans are allocated once."""
    told = found(500 * MIB + 200 * MIB * (1 - np.exp(-STEPS / 100)) + NOISE)

    assert told.verdict is GrowthVerdict.WARMING_UP


def test_noise_is_no_growth() -> None:
    """The number of pages fluctuates."""
    assert found(500 * MIB + NOISE).verdict is GrowthVerdict.STEADY


def test_one_large_allocation_late_in_a_run_is_no_leak() -> None:
    """A checkpoint or an evaluation allocates memory once and keeps it."""
    told = found(500 * MIB + np.where(STEPS > 700, 300 * MIB, 0) + NOISE)

    assert told.verdict is not GrowthVerdict.GROWING


def test_outliers_do_not_move_the_slope() -> None:
    """Every tenth measurement is an outlier."""
    spikes = np.where(np.arange(len(STEPS)) % 10 == 3, 800 * MIB, 0)

    told = found(500 * MIB + STEPS * 102_400 + spikes)

    assert told.verdict is GrowthVerdict.GROWING
    assert told.bytes_per_step == pytest.approx(102_400, rel=0.05)


def test_a_slow_leak_below_the_noise_is_not_called_one() -> None:
    """Half a MiB over a run is not worth investigating."""
    assert found(500 * MIB + STEPS * 500).verdict is GrowthVerdict.STEADY


def test_pools_that_fill_slowly_are_no_leak() -> None:
    """Allocators take one percent more in half a run as threads change."""
    assert found(220 * MIB + STEPS * 4485).verdict is GrowthVerdict.STEADY
    assert found(220 * MIB + STEPS * 12_000).verdict is GrowthVerdict.GROWING


def test_memory_that_shrinks_does_not_grow() -> None:
    """The bounds of the slope are below 0."""
    told = found(500 * MIB - STEPS * 102_400 + NOISE)

    assert (told.verdict, told.high < 0) == (GrowthVerdict.STEADY, True)


def test_many_measurements_are_thinned() -> None:
    """An hour of measurements has millions of pairs; medians of neighbours are as good."""
    steps = np.arange(5000, dtype=np.int64)

    told = growth(steps, steps * 10_000)

    assert isinstance(told, Growth)
    assert (told.points, told.bytes_per_step) == (200, 10_000)


@pytest.mark.parametrize("steps", [[], [5], [5, 5, 5], [0, 1, 2, 3, 4]])
def test_of_too_few_measurements_nothing_is_said(steps) -> None:
    """A short run does not show whether growth is a leak or a warm-up."""
    values = np.array(steps, dtype=np.int64)

    assert isinstance(growth(values, values), Missing)


def test_a_single_late_measurement_is_told_in_good_grammar() -> None:
    """The number stands where it agrees with whatever it is."""
    told = growth(np.array([0, 9]), np.array([5, 5]))

    assert isinstance(told, Missing)
    assert told.reason.endswith("1 was taken")
