"""Robust statistics, and curves of sampled amounts over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfprobe.errors import Missing
from tfprobe.profile.tables import Int64s

Floats = npt.NDArray[np.float64]

# The third quartile of the normal distribution: with it, z is the usual one for normal values. The
# 3.5 is also from Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993).
MAD_OF_NORMAL = 0.6745
OUTLIER_Z = 3.5
# Without spread, any other value would be an outlier. With this share of a step and its gap as the
# smallest MAD, an outlier is at least 5.2 % of them above the median.
LEAST_MAD_RATIO = 0.01
# Timers, interrupts and the scheduler alone change a step by a few µs.
LEAST_MAD_NS = 2_000

# Two-sided 95 % of the normal distribution.
Z_95 = 1.959964
_MOST_ALIKE = 0.95


@dataclass(frozen=True, slots=True)
class SpreadStatistics:
    """The median of values and their median absolute deviation (MAD)."""

    median: float
    mad: float


@dataclass(frozen=True, slots=True)
class Slope:
    """A line fitted to points: its slope with a 95 % interval.

    `at_first` is the line's value at the first x; `p_value` is the
    probability of so clear a direction by chance.
    """

    slope: float
    low: float
    high: float
    at_first: float
    p_value: float


def spread(values: npt.NDArray[np.int64]) -> SpreadStatistics:
    """Return the median and the MAD of values, which must not be empty."""
    median = float(np.median(values))
    return SpreadStatistics(median, float(np.median(np.abs(values - median))))


def robust_z(
    values_ns: npt.NDArray[np.int64], around: SpreadStatistics, *, usual_ns: float
) -> Floats:
    """Return 0.6745 (x - median) / MAD of times in ns.

    The MAD is at least a share of `usual_ns`, so that differences too small to matter do not count.
    """
    mad = max(around.mad, LEAST_MAD_RATIO * usual_ns, LEAST_MAD_NS)
    z: Floats = MAD_OF_NORMAL / mad * (values_ns.astype(np.float64) - around.median)
    return z


def slope(x: Floats, y: Floats) -> Slope:
    """Return the Theil-Sen slope (Sen 1968) with the Mann-Kendall test for a trend.

    The variance of the test's S is corrected for autocorrelation (Yue and Wang 2004), and never
    reduced. Takes time and memory quadratic in the number of points, which must be at least five
    with ascending x.
    """
    first, second = np.triu_indices(len(x), k=1)
    slopes = np.sort((y[second] - y[first]) / (x[second] - x[first]))
    median = float(np.median(slopes))
    intercept = float(np.median(y - median * x))
    deviation = math.sqrt(_variance_of_s(y) * _correction(x, y, median))
    low, high = _interval(slopes, deviation)
    s = float(np.sign(y[second] - y[first]).sum())
    z = (abs(s) - 1) / deviation if s and deviation else 0.0
    return Slope(
        slope=median,
        low=low,
        high=high,
        at_first=intercept + median * float(x[0]),
        p_value=math.erfc(max(z, 0.0) / math.sqrt(2)),
    )


def _variance_of_s(y: Floats) -> float:
    """Return the variance of the Mann-Kendall S for independent values with ties."""
    n = len(y)
    ties = np.unique(y, return_counts=True)[1].astype(np.float64)
    of_ties = float((ties * (ties - 1) * (2 * ties + 5)).sum())
    return (n * (n - 1) * (2 * n + 5) - of_ties) / 18


def _correction(x: Floats, y: Floats, slope: float) -> float:
    """Return the factor by which autocorrelation widens the variance of S, at least 1.

    Values are modelled as a first-order autoregressive process around the line, with the sum of
    correlations of Yue and Wang (2004). At the 1 % level and a correlation of 0.6, the lag-by-lag
    correction of Hamed and Rao finds a trend in 9 of 100 series without one; this one in 2.
    """
    n = len(y)
    ranks = np.argsort(np.argsort(y - slope * x, kind="stable"), kind="stable").astype(np.float64)
    ranks -= ranks.mean()
    of_neighbours = float(ranks[:-1] @ ranks[1:]) / float(ranks @ ranks)
    # Estimates from short series are too small, and one near 1 would leave nothing to test.
    rho = min(max((n * of_neighbours + 2) / (n - 4), 0.0), _MOST_ALIKE)
    lags = np.arange(1, n)
    return 1 + 2 * float(((1 - lags / n) * rho**lags).sum())


def _interval(slopes: Floats, deviation: float) -> tuple[float, float]:
    """Return the 95 % interval of the slope, from its rank among all slopes (Sen 1968)."""
    half = Z_95 * deviation
    low = max(math.floor((len(slopes) - half) / 2), 0)
    high = min(math.ceil((len(slopes) + half) / 2), len(slopes) - 1)
    return float(slopes[low]), float(slopes[high])


Float64s = npt.NDArray[np.float64]

# Sparklines and charts show no more points, and documents stay small.
MOST_POINTS = 200
ONE_SAMPLE = Missing("one sample does not give a rate")
_P95 = 0.95
# No line is drawn between samples that are so many times farther apart than usual.
_SILENCE_RATIO = 4


class Point(NamedTuple):
    """The mean of an amount from the point before to `at_ns` (unix ns)."""

    at_ns: int
    value: float


@dataclass(frozen=True, slots=True)
class SampleCurve:
    """An amount over time. Mean and p95 weight each sample by its duration; `last` is the latest.

    `points` are at most MOST_POINTS intervals of equal length, without those that have no sample.
    """

    mean: float
    p95: float
    min: float
    max: float
    last: float
    points: tuple[Point, ...]


class Samples(NamedTuple):
    """Sampled values in order of time: of a counter, or of a level."""

    at_ns: Int64s
    values: Float64s


def known_samples(at_ns: Sequence[int], values: Sequence[float | Missing]) -> Samples | Missing:
    """Return the samples whose value is known, or why there are none."""
    pairs = [(t, v) for t, v in zip(at_ns, values, strict=True) if not isinstance(v, Missing)]
    if not pairs:
        reasons = (value for value in values if isinstance(value, Missing))
        return next(reasons, Missing("no sample was taken"))
    at, amounts = zip(*pairs, strict=True)
    return Samples(np.array(at, dtype=np.int64), np.array(amounts, dtype=np.float64))


def level(samples: Samples | Missing) -> SampleCurve | Missing:
    """Return the curve of a level, such as memory in use."""
    if isinstance(samples, Missing):
        return samples
    # Each value counts for the time since the sample before; the first, for as long as the second.
    lasted_ns = np.diff(samples.at_ns)
    first_ns = lasted_ns[:1] if len(lasted_ns) else np.ones(1, dtype=np.int64)
    return _curve(samples.at_ns, samples.values, np.maximum(np.append(first_ns, lasted_ns), 1))


def rate(samples: Samples | Missing, *, unit_ns: float = 1e9) -> SampleCurve | Missing:
    """Return the curve of a counter's growth per `unit_ns`, a second by default.

    Where a counter fell, it was reset; that interval is left out.
    """
    if isinstance(samples, Missing):
        return samples
    passed_ns, grown = np.diff(samples.at_ns), np.diff(samples.values)
    valid = (passed_ns > 0) & (grown >= 0)
    if not valid.any():
        return ONE_SAMPLE
    passed_ns = passed_ns[valid]
    return _curve(samples.at_ns[1:][valid], grown[valid] * unit_ns / passed_ns, passed_ns)


def sampling_gaps(at_ns: Int64s) -> tuple[Int64s, Int64s]:
    """Return the positions of samples followed by a sampling gap, and when (ns) each gap begins.

    Samples are taken while steps run: between two that are far apart, nothing is known.
    """
    apart_ns = np.diff(at_ns)
    if not len(apart_ns):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    usual_ns = max(int(np.median(apart_ns)), 1)
    last = np.flatnonzero(apart_ns > _SILENCE_RATIO * usual_ns)
    return last, at_ns[last] + usual_ns


def growth(samples: Samples | Missing) -> float | Missing:
    """Return how much a counter grew between the first and the last sample."""
    if isinstance(samples, Missing):
        return samples
    if len(samples.at_ns) < 2:
        return ONE_SAMPLE
    return float(np.maximum(np.diff(samples.values), 0).sum())


def _curve(at_ns: Int64s, values: Float64s, lasted_ns: Int64s) -> SampleCurve:
    return SampleCurve(
        mean=float(np.average(values, weights=lasted_ns)),
        p95=_quantile(values, lasted_ns, _P95),
        min=float(values.min()),
        max=float(values.max()),
        last=float(values[-1]),
        points=_points(at_ns, values, lasted_ns),
    )


def _quantile(values: Float64s, lasted_ns: Int64s, quantile: float) -> float:
    """Return the smallest value that the amount did not exceed for this share of the time."""
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(lasted_ns[order].astype(np.float64))
    index = int(np.searchsorted(passed, quantile * passed[-1]))
    return float(values[order][min(index, len(values) - 1)])


def _points(at_ns: Int64s, values: Float64s, lasted_ns: Int64s) -> tuple[Point, ...]:
    if len(at_ns) <= MOST_POINTS:
        return tuple(map(Point, at_ns.tolist(), values.tolist()))
    passed_ns = at_ns - at_ns[0]
    bucket = np.minimum(passed_ns * MOST_POINTS // max(int(passed_ns[-1]), 1), MOST_POINTS - 1)
    weight = np.bincount(bucket, lasted_ns, MOST_POINTS)
    total = np.bincount(bucket, lasted_ns * values, MOST_POINTS)
    ends = np.zeros(MOST_POINTS, dtype=np.int64)
    np.maximum.at(ends, bucket, at_ns)
    filled = np.flatnonzero(weight)
    return tuple(map(Point, ends[filled].tolist(), (total[filled] / weight[filled]).tolist()))
