"""Gather how long the steps of a work took, the time between them, and the thread around both."""

from __future__ import annotations

import numpy as np

from tfprobe.analysis.core.robust_statistics import spread
from tfprobe.findings.gather.threads import Apart, ThreadKey, apart, thread_times_ns
from tfprobe.findings.signals import Loop
from tfprobe.profile.profile import Durations, Profile, Work, bucket_bounds_ns
from tfprobe.profile.tables import Int64s

# Slow steps named as evidence.
_NAMED = 5
# With fewer steps that were not traced there is no telling what a step takes without.
LEAST_UNTRACED = 3


def loops(profile: Profile) -> dict[tuple[int, int], Loop]:
    """Return the loop of each work, by its process and number; works without steps have none."""
    works = profile.works
    aparts = [apart(work, works) for work in works]
    whole_ns = thread_times_ns(works, aparts)
    busy_ns: dict[ThreadKey, int] = {}
    for work, part in zip(works, aparts, strict=True):
        key = (work.process, work.thread)
        own_ns = work.times.sum_ns - part.recorded_step_ns - part.first_ns
        busy_ns[key] = busy_ns.get(key, 0) + max(own_ns, 0)
    traces = _traces(profile)
    of_captures = _of_captures(profile)
    return of_captures | {
        (work.process, work.index): _loop(
            work,
            part,
            max(work.retraces, traces.get((work.process, work.name), 0) - 1),
            whole_ns[work.process, work.thread],
            busy_ns[work.process, work.thread],
        )
        for work, part in zip(works, aparts, strict=True)
        if work.times.count
    }


def _of_captures(profile: Profile) -> dict[tuple[int, int], Loop]:
    """Return a loop of the sampled steps alone, for works of which only those are known: files."""
    found: dict[tuple[int, int], Loop] = {}
    for work in profile.works:
        key = (work.process, work.index)
        took_ns = [
            each.duration_ns for each in profile.captures if (each.process, each.work) == key
        ]
        if took_ns and not work.times.count:
            found[key] = _loop_of(work, took_ns)
    return found


def _loop_of(work: Work, took_ns: list[int]) -> Loop:
    whole_ns = sum(took_ns)
    return Loop(
        kind=work.kind,
        name=work.name,
        steps=len(took_ns),
        per_execution=work.steps_per_execution,
        retraces=work.retraces,
        step_ns=whole_ns,
        gap_ns=0,
        regular_step_ns=whole_ns,
        regular_gap_ns=0,
        usual_step_ns=float(np.median(took_ns)),
        usual_gap_ns=0.0,
        retrace_ns=0,
        untraced=len(took_ns),
        slowest_steps=(),
        thread_ns=whole_ns,
    )


def _traces(profile: Profile) -> dict[tuple[int, str], int]:
    """Return how often functions were traced, by process and name.

    The agent counts retraces now and then; activities are told at once, but know only a name.
    """
    counts: dict[tuple[int, str], int] = {}
    for each in profile.activities:
        if each.kind == "trace":
            key = (each.process, each.name)
            counts[key] = max(counts.get(key, 0), each.count)
    return counts


def _loop(work: Work, part: Apart, retraces: int, thread_ns: int, busy_ns: int) -> Loop:
    durations_ns, gaps_ns = _durations_ns(work), _gaps_ns(work)
    retraces = min(retraces, max(work.executed - 1, 0))
    retraced = slowest_ns(work, durations_ns, retraces)
    step_ns = max(work.times.sum_ns - part.recorded_step_ns, 0)
    # What other works did between two steps of this one is not time between steps.
    gap_ns = max(min(work.gaps.sum_ns - part.recorded_gap_ns, thread_ns - busy_ns), 0)
    return Loop(
        kind=work.kind,
        name=work.name,
        steps=work.count,
        per_execution=work.steps_per_execution,
        retraces=retraces,
        step_ns=step_ns,
        gap_ns=gap_ns,
        regular_step_ns=max(step_ns - part.first_ns, 0),
        regular_gap_ns=gap_ns,
        usual_step_ns=_median_ns(work.times, durations_ns),
        usual_gap_ns=_median_ns(work.gaps, gaps_ns),
        retrace_ns=retraced,
        untraced=max(work.times.count - retraces - 1, 0),
        slowest_steps=_slowest(work, durations_ns),
        thread_ns=thread_ns,
        gap_spread_ns=spread(gaps_ns).mad if len(gaps_ns) else 0.0,
        first_seen_ns=work.first_seen_ns,
    )


def slowest_ns(work: Work, durations_ns: Int64s, count: int) -> int:
    """Return what the slowest `count` steps took beyond the median of the others.

    The very first one is slow in any case and left out. Where not all steps are remembered they
    come from the histogram, by the upper bounds of its buckets, and the first may be among them.
    Where too few others are left, nothing is taken off.
    """
    if count <= 0:
        return 0
    if work.recent.first_step == 0 and len(durations_ns) == work.executed:
        later = np.sort(durations_ns[1:])[::-1]
        others = later[count:]
        usual_ns = float(np.median(others)) if len(others) >= LEAST_UNTRACED else 0.0
        return int(np.maximum(later[:count] - usual_ns, 0).sum())
    return _slowest_of_histogram(work.times, count)


def _slowest_of_histogram(times: Durations, count: int) -> int:
    usual_ns = _quantile_ns(times, max(times.count - count, 0) / 2)
    if times.count - count < LEAST_UNTRACED:
        usual_ns = 0.0
    total_ns, left = 0.0, count
    for bucket in np.flatnonzero(times.buckets)[::-1].tolist():
        taken = min(int(times.buckets[bucket]), left)
        upper_ns = min(bucket_bounds_ns(bucket)[1], times.max_ns)
        total_ns += taken * max(upper_ns - usual_ns, 0.0)
        left -= taken
        if not left:
            break
    return round(total_ns)


def _slowest(work: Work, durations_ns: Int64s) -> tuple[int, ...]:
    order = np.argsort(durations_ns, kind="stable")[::-1]
    steps = (int(at) + work.recent.first_step for at in order[: _NAMED + 1])
    return tuple(step for step in steps if step)[:_NAMED]


def _median_ns(all_of_them: Durations, remembered_ns: Int64s) -> float:
    """Return the median of those remembered, all or the latest; else that of the histogram."""
    if len(remembered_ns):
        return float(np.median(remembered_ns))
    if not all_of_them.count:
        return 0.0
    return _quantile_ns(all_of_them, all_of_them.count / 2)


def _quantile_ns(times: Durations, rank: float) -> float:
    """Return the lower bound of the bucket in which the duration of this rank is."""
    bucket = int(np.searchsorted(np.cumsum(times.buckets), rank))
    return bucket_bounds_ns(min(bucket, len(times.buckets) - 1))[0]


def _durations_ns(work: Work) -> Int64s:
    durations: Int64s = np.maximum(work.recent.end_ns - work.recent.start_ns, 0)
    return durations


def _gaps_ns(work: Work) -> Int64s:
    recent = work.recent
    gaps: Int64s = np.maximum(recent.start_ns[1:] - recent.end_ns[:-1], 0)[recent.has_gap[1:]]
    return gaps
