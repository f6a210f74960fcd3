"""Summarise the steps of a work: exact while every step is remembered, else from the histogram."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.steps.step_times import quantile_ns
from tfprobe.errors import Missing
from tfprobe.profile.profile import BUCKET_WIDTH_RATIO, Durations, RecentSteps, Work


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Step times in ns. Total, mean, min and max are exact; see `error_ratio` for the others.

    `error_ratio` is the largest relative error of p50 and p95: 0 where every step is remembered,
    1/16 where they come from the histogram. In the latter case steps that raised are included.
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

    Of the first one, and of one that follows upon another thread's, it is None.
    """

    step: int
    start_ns: int
    duration_ns: int
    gap_ns: int | None
    sampled: bool
    raised: bool


def summarise(work: Work) -> StepTimes | Missing:
    """Return the step times of a work, or why there are none."""
    if work.count == 0:
        raised = f"all {work.raised} steps raised" if work.raised else "no step was completed"
        return Missing(raised)
    if work.recent.first_step == 0 and len(work.recent.start_ns) == work.executed:
        durations_ns = _durations_ns(work.recent)[~work.recent.raised]
        if len(durations_ns):
            return _exact(durations_ns)
    return _from_histogram(work.times) if work.times.count else Missing("no step time is readable")


def recent_steps(work: Work, *, last: int | None = None) -> tuple[RecentStep, ...]:
    """Return the remembered steps, oldest first; `last` keeps only so many."""
    recent = work.recent
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


def _durations_ns(recent: RecentSteps) -> npt.NDArray[np.int64]:
    durations: npt.NDArray[np.int64] = np.maximum(recent.end_ns - recent.start_ns, 0)
    return durations


def _exact(durations_ns: npt.NDArray[np.int64]) -> StepTimes:
    p50, p95 = np.percentile(durations_ns, [50, 95])
    total = int(durations_ns.sum())
    return StepTimes(
        total_ns=total,
        mean_ns=total / len(durations_ns),
        p50_ns=float(p50),
        p95_ns=float(p95),
        min_ns=int(durations_ns.min()),
        max_ns=int(durations_ns.max()),
        error_ratio=0.0,
    )


def _from_histogram(times: Durations) -> StepTimes:
    return StepTimes(
        total_ns=times.sum_ns,
        mean_ns=times.sum_ns / times.count,
        p50_ns=quantile_ns(times, 0.50),
        p95_ns=quantile_ns(times, 0.95),
        min_ns=times.min_ns,
        max_ns=times.max_ns,
        error_ratio=BUCKET_WIDTH_RATIO,
    )
