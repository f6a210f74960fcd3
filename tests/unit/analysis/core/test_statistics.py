"""Robust statistics: right where there is nothing, and where there is something."""

from __future__ import annotations

import numpy as np
import pytest

from tfprobe.analysis.core.statistics import OUTLIER_Z, robust_z, slope, spread


def test_z_of_normal_values_is_that_of_the_normal_distribution():
    """Of normal noise a robust z of 2 is as rare as a z of 2."""
    values = (1e9 + 1e8 * np.random.default_rng(1).standard_normal(20_000)).astype(np.int64)

    z = robust_z(values, spread(values), usual_ns=1e9)

    assert np.mean(np.abs(z) > 2) == pytest.approx(0.0455, abs=0.005)


def test_times_without_spread_have_no_outliers_a_few_percent_above():
    """Steps that take the same to the µs do not make one of 5 % more an outlier; one of 6 % is."""
    values = np.array([10_000_000] * 50 + [10_500_000, 10_600_000])

    z = robust_z(values, spread(values), usual_ns=10_000_000)

    assert [z[-2] > OUTLIER_Z, z[-1] > OUTLIER_Z] == [False, True]


def test_a_few_wild_points_do_not_tilt_the_line():
    """One in five points a hundred times too high leaves the slope where it was."""
    x = np.arange(60.0)
    y = 100 + 0.5 * x
    y[::5] *= 100

    line = slope(x, y)

    assert line.slope == pytest.approx(0.5, abs=0.3)
    assert line.low <= 0.5 <= line.high


@pytest.mark.parametrize("memory", [0.0, 0.6])
def test_noise_has_a_trend_as_rarely_as_it_says(memory):
    """Of 400 series without a trend few are called significant at 1 %, alike neighbours or not."""
    random = np.random.default_rng(7)
    x = np.arange(64.0)
    found = 0
    for _ in range(400):
        noise = random.standard_normal(64)
        for at in range(1, 64):
            noise[at] += memory * noise[at - 1]
        found += slope(x, 100 + noise).p_value < 0.01

    assert found <= 400 * 0.03


def test_constant_points_have_no_trend():
    """Where all points are the same there is no direction."""
    line = slope(np.arange(20.0), np.full(20, 5.0))

    assert (line.slope, line.p_value) == (0.0, 1.0)
