"""Summarize the times of steps, and of the gaps between them.

While every step is remembered, distributions are exact and leave out what tfprobe disturbed; after
that they come from the histogram of all steps, with an error of at most 1/16.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.core.main_loop import unknown_times
from tfprobe.analysis.steps.step_window import StepWindow
from tfprobe.errors import Missing
from tfprobe.profile.profile import (
    BUCKET_WIDTH_RATIO,
    Durations,
    Loop,
    RecentSteps,
    bucket_bounds_ns,
    bucket_of,
)
from tfprobe.profile.tables import Flags, Int64s

QUANTILES: tuple[float, ...] = (0.05, 0.25, 0.50, 0.75, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class HistogramBar:
    """The number of durations in one bucket of the log-linear histogram."""

    low_ns: float
    high_ns: float
    count: int


@dataclass(frozen=True, slots=True)
class Distribution:
    """Durations in ns. Count, total, min and max are exact.

    `quantiles_ns` are those of QUANTILES, with a relative error of at most `error_ratio`. The
    `left_out` durations of steps that tfprobe traced or that raised are not counted. It is 0 where
    only the histogram is left, which counts them.
    """

    count: int
    left_out: int
    total_ns: int
    mean_ns: float
    min_ns: int
    max_ns: int
    quantiles_ns: tuple[float, ...]
    error_ratio: float
    bars: tuple[HistogramBar, ...]

    @property
    def median_ns(self) -> float:
        return self.quantiles_ns[QUANTILES.index(0.50)]


def step_distribution(loop: Loop, window: StepWindow) -> Distribution | Missing:
    """Return the distribution of step times, or why there is none."""
    if window.is_whole and window.counts.any():
        return _exact(window.step_ns, window.counts)
    if loop.count == 0 or loop.times.count == 0:
        return unknown_times(loop) or Missing("no step was completed")
    return _from_histogram(loop.times)


def gap_distribution(loop: Loop, window: StepWindow) -> Distribution | Missing:
    """Return the distribution of gaps between steps, or why there is none."""
    if window.is_whole and window.gap_counts.any():
        # Steps without a gap leave none out.
        has_gap = window.has_gap
        return _exact(window.gap_ns[has_gap], window.gap_counts[has_gap])
    if loop.gaps.count == 0:
        return Missing("there is no gap: fewer than two steps")
    return _from_histogram(loop.gaps)


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


def _exact(durations_ns: Int64s, counts: Flags) -> Distribution:
    kept = durations_ns[counts]
    total_ns = int(kept.sum())
    return Distribution(
        count=len(kept),
        left_out=len(durations_ns) - len(kept),
        total_ns=total_ns,
        mean_ns=total_ns / len(kept),
        min_ns=int(kept.min()),
        max_ns=int(kept.max()),
        quantiles_ns=tuple(np.quantile(kept, QUANTILES).tolist()),
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
        quantiles_ns=tuple(quantile_ns(times, quantile) for quantile in QUANTILES),
        error_ratio=BUCKET_WIDTH_RATIO,
        bars=_bars(times.buckets),
    )


def _bars(buckets: Int64s) -> tuple[HistogramBar, ...]:
    return tuple(
        HistogramBar(*bucket_bounds_ns(bucket), int(buckets[bucket]))
        for bucket in np.flatnonzero(buckets).tolist()
    )


@dataclass(frozen=True, slots=True)
class StepTimeSummary:
    """Step times in ns. Total, mean, min and max are exact.

    `error_ratio` is the largest relative error of p50 and p95: 0 where every step is remembered,
    1/16 where they come from the histogram, which includes steps that raised.
    """

    total_ns: int
    mean_ns: float
    p50_ns: float
    p95_ns: float
    min_ns: int
    max_ns: int
    error_ratio: float


@dataclass(frozen=True, slots=True)
class RecentStep:
    """One remembered step; `start_ns` is monotonic, `gap_ns` the time since the step before.

    The gap is None for the first step, and for one that follows a step of another thread.
    """

    step: int
    start_ns: int
    duration_ns: int
    gap_ns: int | None
    sampled: bool
    raised: bool


def step_time_summary(loop: Loop) -> StepTimeSummary | Missing:
    """Return the step times of a loop, or why there are none."""
    if loop.count == 0:
        raised = f"all {loop.raised} steps raised" if loop.raised else "no step was completed"
        return Missing(raised)
    if loop.is_remembered:
        durations_ns = _durations_ns(loop.recent)[~loop.recent.raised]
        if len(durations_ns):
            return _step_summary_exact(durations_ns)
    if loop.times.count:
        return _step_summary_from_histogram(loop.times)
    return unknown_times(loop) or Missing("no step time is readable")


def recent_steps(loop: Loop, *, last: int | None = None) -> tuple[RecentStep, ...]:
    """Return the remembered steps, oldest first; `last` limits their number."""
    recent = loop.recent
    durations_ns, has_gap = _durations_ns(recent), recent.has_gap
    first = 0 if last is None else max(len(durations_ns) - last, 0)
    return tuple(
        RecentStep(
            step=recent.first_step + i,
            start_ns=int(recent.start_ns[i]),
            duration_ns=int(durations_ns[i]),
            gap_ns=int(recent.start_ns[i] - recent.end_ns[i - 1]) if has_gap[i] else None,
            sampled=bool(recent.sampled[i]),
            raised=bool(recent.raised[i]),
        )
        for i in range(first, len(durations_ns))
    )


def _durations_ns(recent: RecentSteps) -> Int64s:
    durations: Int64s = np.maximum(recent.end_ns - recent.start_ns, 0)
    return durations


def _step_summary_exact(durations_ns: Int64s) -> StepTimeSummary:
    p50, p95 = np.percentile(durations_ns, [50, 95])
    total = int(durations_ns.sum())
    return StepTimeSummary(
        total_ns=total,
        mean_ns=total / len(durations_ns),
        p50_ns=float(p50),
        p95_ns=float(p95),
        min_ns=int(durations_ns.min()),
        max_ns=int(durations_ns.max()),
        error_ratio=0.0,
    )


def _step_summary_from_histogram(times: Durations) -> StepTimeSummary:
    return StepTimeSummary(
        total_ns=times.sum_ns,
        mean_ns=times.sum_ns / times.count,
        p50_ns=quantile_ns(times, 0.50),
        p95_ns=quantile_ns(times, 0.95),
        min_ns=times.min_ns,
        max_ns=times.max_ns,
        error_ratio=BUCKET_WIDTH_RATIO,
    )
