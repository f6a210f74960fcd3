"""How the times of steps, or of the gaps between them, are distributed.

From the very values while every step is remembered, without what tfprobe disturbed; after that
from the histogram of all steps, which is off by 1/16 at most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.steps.step_window import Remembered
from tfprobe.errors import Missing
from tfprobe.profile.profile import BUCKET_WIDTH_RATIO, Durations, Work, bucket_bounds_ns, bucket_of

Int64s = npt.NDArray[np.int64]

QUANTILES: tuple[float, ...] = (0.05, 0.25, 0.50, 0.75, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Bar:
    """How many durations lie in one bucket of the log-linear histogram, from `low_ns` on."""

    low_ns: float
    high_ns: float
    count: int


@dataclass(frozen=True, slots=True)
class Distribution:
    """Durations in ns. Count, total, min and max are exact.

    `quantiles_ns` are those of QUANTILES, off by `error_ratio` at most. `left_out` durations are
    not in it: of steps that tfprobe traced or that raised. It is 0 where the histogram is all there
    is: there they are in it.
    """

    count: int
    left_out: int
    total_ns: int
    mean_ns: float
    min_ns: int
    max_ns: int
    quantiles_ns: tuple[float, ...]
    error_ratio: float
    bars: tuple[Bar, ...]

    @property
    def median_ns(self) -> float:
        return self.quantiles_ns[QUANTILES.index(0.50)]


def of_steps(work: Work, remembered: Remembered) -> Distribution | Missing:
    """Return the distribution of step times, or why there is none."""
    if remembered.is_whole and remembered.counts.any():
        return _exact(remembered.step_ns, remembered.counts)
    if work.count == 0 or work.times.count == 0:
        return Missing("no step was completed")
    return _from_histogram(work.times)


def of_gaps(work: Work, remembered: Remembered) -> Distribution | Missing:
    """Return the distribution of gaps between steps, or why there is none."""
    if remembered.is_whole and remembered.gap_counts.any():
        # Steps without a gap leave none out.
        has_gap = remembered.has_gap
        return _exact(remembered.gap_ns[has_gap], remembered.gap_counts[has_gap])
    if work.gaps.count == 0:
        return Missing("there is no gap: fewer than two steps")
    return _from_histogram(work.gaps)


def quantile_ns(times: Durations, quantile: float) -> float:
    """Return a quantile, interpolated inside its bucket and kept within the extremes."""
    cumulated = np.cumsum(times.buckets)
    rank = quantile * float(cumulated[-1])
    bucket = min(int(np.searchsorted(cumulated, rank)), len(cumulated) - 1)
    inside = int(times.buckets[bucket]) or 1
    share = (rank - float(cumulated[bucket] - times.buckets[bucket])) / inside
    lower_ns, upper_ns = bucket_bounds_ns(bucket)
    value_ns = lower_ns + (upper_ns - lower_ns) * share
    return float(min(max(value_ns, times.min_ns), times.max_ns))


def _exact(durations_ns: Int64s, counts: npt.NDArray[np.bool_]) -> Distribution:
    kept = durations_ns[counts]
    total_ns = int(kept.sum())
    return Distribution(
        count=len(kept),
        left_out=len(durations_ns) - len(kept),
        total_ns=total_ns,
        mean_ns=total_ns / len(kept),
        min_ns=int(kept.min()),
        max_ns=int(kept.max()),
        quantiles_ns=tuple(float(each) for each in np.quantile(kept, QUANTILES)),
        error_ratio=0.0,
        bars=_bars(np.bincount(bucket_of(kept))),
    )


def _from_histogram(times: Durations) -> Distribution:
    return Distribution(
        count=times.count,
        left_out=0,
        total_ns=times.sum_ns,
        mean_ns=times.sum_ns / times.count,
        min_ns=times.min_ns,
        max_ns=times.max_ns,
        quantiles_ns=tuple(quantile_ns(times, each) for each in QUANTILES),
        error_ratio=BUCKET_WIDTH_RATIO,
        bars=_bars(times.buckets),
    )


def _bars(buckets: Int64s) -> tuple[Bar, ...]:
    return tuple(
        Bar(*bucket_bounds_ns(int(each)), int(buckets[each])) for each in np.flatnonzero(buckets)
    )
