"""Statistics that a few wild values do not move: median, MAD, robust z, Theil-Sen, Mann-Kendall."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
class Spread:
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


def spread(values: npt.NDArray[np.int64]) -> Spread:
    """Return median and MAD of values, which are not empty."""
    median = float(np.median(values))
    return Spread(median, float(np.median(np.abs(values - median))))


def robust_z(values_ns: npt.NDArray[np.int64], around: Spread, *, usual_ns: float) -> Floats:
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
