"""Statistics that a few wild values do not move, and amounts over time."""

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

# The third quartile of the normal distribution: it makes z those of one, where values are normal.
# Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993), who also give the 3.5.
MAD_OF_NORMAL = 0.6745
OUTLIER_Z = 3.5
# Without spread every other value would be an outlier. With this share of a step and its gap as the
# least MAD, nothing is one that takes less than 5.2 % of them beyond the median.
LEAST_MAD_RATIO = 0.01
# And timers, interrupts and the scheduler alone move a step by a few µs.
LEAST_MAD_NS = 2_000

# Two-sided 95 % of the normal distribution.
Z_95 = 1.959964
_MOST_ALIKE = 0.95


@dataclass(frozen=True, slots=True)
class SpreadStatistics:
    """Where values lie: their median and their median absolute deviation."""

    median: float
    mad: float


@dataclass(frozen=True, slots=True)
class Slope:
    """A straight line through points: change of y for each x, with its 95 % interval.

    `at_first` and `at_last` are the line's values at the first and the last x; `p_value` is how
    likely so clear a direction is where there is none.
    """

    slope: float
    low: float
    high: float
    at_first: float
    at_last: float
    p_value: float


def spread(values: npt.NDArray[np.int64]) -> SpreadStatistics:
    """Return median and MAD of values, which are not empty."""
    median = float(np.median(values))
    return SpreadStatistics(median, float(np.median(np.abs(values - median))))


def robust_z(
    values_ns: npt.NDArray[np.int64], around: SpreadStatistics, *, usual_ns: float
) -> Floats:
    """Return 0.6745 (x - median) / MAD of times in ns.

    Below tiny MADs there is a floor, a share of the `usual_ns` that matter to the reader.
    """
    mad = max(around.mad, LEAST_MAD_RATIO * usual_ns, LEAST_MAD_NS)
    found: Floats = MAD_OF_NORMAL / mad * (values_ns.astype(np.float64) - around.median)
    return found


def slope(x: Floats, y: Floats) -> Slope:
    """Return Theil and Sen's slope (Sen 1968), and Mann and Kendall's test of whether there is one.

    The variance of the test's S is corrected for neighbours that are alike (Yue and Wang 2004), and
    never made smaller. Takes time and memory with the square of the number of points, at least
    five, whose x rise.
    """
    first, second = np.triu_indices(len(x), k=1)
    slopes = np.sort((y[second] - y[first]) / (x[second] - x[first]))
    found = float(np.median(slopes))
    middle = float(np.median(y - found * x))
    deviation = math.sqrt(_variance_of_s(y) * _correction(x, y, found))
    low, high = _interval(slopes, deviation)
    s = float(np.sign(y[second] - y[first]).sum())
    z = (abs(s) - 1) / deviation if s and deviation else 0.0
    return Slope(
        slope=found,
        low=low,
        high=high,
        at_first=middle + found * float(x[0]),
        at_last=middle + found * float(x[-1]),
        p_value=math.erfc(max(z, 0.0) / math.sqrt(2)),
    )


def _variance_of_s(y: Floats) -> float:
    """Return the variance of Mann and Kendall's S where values are independent, with ties."""
    n = len(y)
    ties = np.unique(y, return_counts=True)[1].astype(np.float64)
    of_ties = float((ties * (ties - 1) * (2 * ties + 5)).sum())
    return (n * (n - 1) * (2 * n + 5) - of_ties) / 18


def _correction(x: Floats, y: Floats, found: float) -> float:
    """Return by how much neighbours that are alike widen the variance of S, at least 1.

    They are taken for an autoregressive process of first order around the line: its sum of
    correlations is that of Yue and Wang (2004). Hamed and Rao's, lag by lag, finds a trend at 1 %
    in 9 of 100 such series whose correlation is 0.6; this one in 2.
    """
    n = len(y)
    ranks = np.argsort(np.argsort(y - found * x, kind="stable"), kind="stable").astype(np.float64)
    ranks -= ranks.mean()
    of_neighbours = float(ranks[:-1] @ ranks[1:]) / float(ranks @ ranks)
    # The estimate from a short series is too small; one near 1 would leave nothing to test.
    rho = min(max((n * of_neighbours + 2) / (n - 4), 0.0), _MOST_ALIKE)
    lags = np.arange(1, n)
    return 1 + 2 * float(((1 - lags / n) * rho**lags).sum())


def _interval(slopes: Floats, deviation: float) -> tuple[float, float]:
    """Return the 95 % interval of the slope, from its place among all slopes (Sen 1968)."""
    half = Z_95 * deviation
    low = max(math.floor((len(slopes) - half) / 2), 0)
    high = min(math.ceil((len(slopes) + half) / 2), len(slopes) - 1)
    return float(slopes[low]), float(slopes[high])


Float64s = npt.NDArray[np.float64]

# A sparkline and a chart of a page have no more points to show; documents stay small.
MOST_POINTS = 200
ONE_SAMPLE = Missing("one sample does not give a rate")
_P95 = 0.95
# No line is drawn between samples that are so many times as far apart as they usually are.
_SILENCE_RATIO = 4


class Point(NamedTuple):
    """The mean of an amount from the point before to `at_ns` (unix ns)."""

    at_ns: int
    value: float


@dataclass(frozen=True, slots=True)
class SampleCurve:
    """An amount over time. Mean and p95 weigh a sample by how long it held; `last` is the latest.

    `points` are at most MOST_POINTS, of equal time, without those in which nothing was sampled.
    """

    mean: float
    p95: float
    min: float
    max: float
    last: float
    points: tuple[Point, ...]


class Samples(NamedTuple):
    """What was told at some moments, in order: `values` of a counter, or of a level."""

    at_ns: Int64s
    values: Float64s


def known_samples(at_ns: Sequence[int], values: Sequence[float | Missing]) -> Samples | Missing:
    """Return those samples that tell something, or why none does."""
    pairs = [(t, v) for t, v in zip(at_ns, values, strict=True) if not isinstance(v, Missing)]
    if not pairs:
        reasons = (value for value in values if isinstance(value, Missing))
        return next(reasons, Missing("no sample was taken"))
    at, amounts = zip(*pairs, strict=True)
    return Samples(np.array(at, dtype=np.int64), np.array(amounts, dtype=np.float64))


def level(samples: Samples | Missing) -> SampleCurve | Missing:
    """Return the curve of what a sample tells as it is, such as memory in use."""
    if isinstance(samples, Missing):
        return samples
    # Each holds since the one before; the first, of which that is not known, as long as the next.
    held_ns = np.diff(samples.at_ns)
    first_ns = held_ns[:1] if len(held_ns) else np.ones(1, dtype=np.int64)
    return _curve(samples.at_ns, samples.values, np.maximum(np.append(first_ns, held_ns), 1))


def rate(samples: Samples | Missing, *, unit_ns: float = 1e9) -> SampleCurve | Missing:
    """Return the curve of how fast a counter grows: by how much in `unit_ns`, a second.

    A counter that fell was begun anew; that time is left out.
    """
    if isinstance(samples, Missing):
        return samples
    passed_ns, grown = np.diff(samples.at_ns), np.diff(samples.values)
    good = (passed_ns > 0) & (grown >= 0)
    if not good.any():
        return ONE_SAMPLE
    passed_ns = passed_ns[good]
    return _curve(samples.at_ns[1:][good], grown[good] * unit_ns / passed_ns, passed_ns)


def sampling_gaps(at_ns: Int64s) -> tuple[Int64s, Int64s]:
    """Return the positions of samples that a silence follows, and when (ns) each silence begins.

    Samples are taken while steps run: between two that are far apart nobody knows what was.
    """
    apart_ns = np.diff(at_ns)
    if not len(apart_ns):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    usual_ns = max(int(np.median(apart_ns)), 1)
    last = np.flatnonzero(apart_ns > _SILENCE_RATIO * usual_ns)
    return last, at_ns[last] + usual_ns


def growth(samples: Samples | Missing) -> float | Missing:
    """Return by how much a counter grew between the first and the last sample."""
    if isinstance(samples, Missing):
        return samples
    if len(samples.at_ns) < 2:
        return ONE_SAMPLE
    return float(np.maximum(np.diff(samples.values), 0).sum())


def _curve(at_ns: Int64s, values: Float64s, held_ns: Int64s) -> SampleCurve:
    return SampleCurve(
        mean=float(np.average(values, weights=held_ns)),
        p95=_quantile(values, held_ns, _P95),
        min=float(values.min()),
        max=float(values.max()),
        last=float(values[-1]),
        points=_points(at_ns, values, held_ns),
    )


def _quantile(values: Float64s, held_ns: Int64s, quantile: float) -> float:
    """Return the least value below or at which the amount was for this part of the time."""
    order = np.argsort(values, kind="stable")
    held = np.cumsum(held_ns[order].astype(np.float64))
    at = int(np.searchsorted(held, quantile * held[-1]))
    return float(values[order][min(at, len(values) - 1)])


def _points(at_ns: Int64s, values: Float64s, held_ns: Int64s) -> tuple[Point, ...]:
    if len(at_ns) <= MOST_POINTS:
        return tuple(map(Point, at_ns.tolist(), values.tolist()))
    passed_ns = at_ns - at_ns[0]
    bucket = np.minimum(passed_ns * MOST_POINTS // max(int(passed_ns[-1]), 1), MOST_POINTS - 1)
    weight = np.bincount(bucket, held_ns, MOST_POINTS)
    total = np.bincount(bucket, held_ns * values, MOST_POINTS)
    ends = np.zeros(MOST_POINTS, dtype=np.int64)
    np.maximum.at(ends, bucket, at_ns)
    there = np.flatnonzero(weight)
    return tuple(map(Point, ends[there].tolist(), (total[there] / weight[there]).tolist()))
