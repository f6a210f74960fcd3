"""Gather how long the steps of a loop took, the time between them, and the thread around both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.core.statistics import spread
from tfprobe.analysis.steps import outliers as view
from tfprobe.analysis.steps.outliers import Outlier
from tfprobe.analysis.steps.slow_step_causes import BY_OTHERS, Cause, Causes, told
from tfprobe.analysis.steps.step_window import gaps_around_traces, remember
from tfprobe.errors import Missing
from tfprobe.findings.signals import LoopTiming, OutlierSignal
from tfprobe.profile.profile import Durations, Loop, Profile, bucket_bounds_ns
from tfprobe.profile.tables import Flags, Int64s

# Slow steps named as evidence.
_NAMED = 5
# With fewer steps that were not traced there is no telling what a step takes without.
LEAST_UNTRACED = 3


def loop_timings(profile: Profile) -> dict[tuple[int, int], LoopTiming]:
    """Return the loop of each loop, by its process and number; works without steps have none."""
    loops = profile.loops
    aparts = [apart(loop, loops) for loop in loops]
    whole_ns = thread_times_ns(loops, aparts)
    busy_ns: dict[ThreadKey, int] = {}
    for loop, part in zip(loops, aparts, strict=True):
        key = (loop.process, loop.thread)
        own_ns = loop.times.sum_ns - part.recorded_step_ns - part.first_ns
        busy_ns[key] = busy_ns.get(key, 0) + max(own_ns, 0)
    traces = _traces(profile)
    of_captures = _of_captures(profile)
    return of_captures | {
        (loop.process, loop.index): _loop(
            loop,
            part,
            max(loop.retraces, traces.get((loop.process, loop.name), 0) - 1),
            whole_ns[loop.process, loop.thread],
            busy_ns[loop.process, loop.thread],
        )
        for loop, part in zip(loops, aparts, strict=True)
        if loop.times.count
    }


def _of_captures(profile: Profile) -> dict[tuple[int, int], LoopTiming]:
    """Return a loop of the traced steps alone, for works of which only those are known: files."""
    found: dict[tuple[int, int], LoopTiming] = {}
    for loop in profile.loops:
        key = (loop.process, loop.index)
        took_ns = [
            capture.duration_ns
            for capture in profile.captures
            if (capture.process, capture.loop) == key
        ]
        if took_ns and not loop.times.count:
            found[key] = _loop_of(loop, took_ns)
    return found


def _loop_of(loop: Loop, took_ns: list[int]) -> LoopTiming:
    whole_ns = sum(took_ns)
    return LoopTiming(
        kind=loop.kind,
        name=loop.name,
        steps=len(took_ns),
        per_execution=loop.steps_per_execution,
        retraces=loop.retraces,
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
    for activity in profile.activities:
        if activity.kind == "trace":
            key = (activity.process, activity.name)
            counts[key] = max(counts.get(key, 0), activity.count)
    return counts


def _loop(loop: Loop, part: Apart, retraces: int, thread_ns: int, busy_ns: int) -> LoopTiming:
    durations_ns, gaps_ns = _durations_ns(loop), _gaps_ns(loop)
    retraces = min(retraces, max(loop.executed - 1, 0))
    retraced = slowest_ns(loop, durations_ns, retraces)
    step_ns = max(loop.times.sum_ns - part.recorded_step_ns, 0)
    # What other loops did between two steps of this one is not time between steps.
    gap_ns = max(min(loop.gaps.sum_ns - part.recorded_gap_ns, thread_ns - busy_ns), 0)
    return LoopTiming(
        kind=loop.kind,
        name=loop.name,
        steps=loop.count,
        per_execution=loop.steps_per_execution,
        retraces=retraces,
        step_ns=step_ns,
        gap_ns=gap_ns,
        regular_step_ns=max(step_ns - part.first_ns, 0),
        regular_gap_ns=gap_ns,
        usual_step_ns=_median_ns(loop.times, durations_ns),
        usual_gap_ns=_median_ns(loop.gaps, gaps_ns),
        retrace_ns=retraced,
        untraced=max(loop.times.count - retraces - 1, 0),
        slowest_steps=_slowest(loop, durations_ns),
        thread_ns=thread_ns,
        gap_spread_ns=spread(gaps_ns).mad if len(gaps_ns) else 0.0,
        first_seen_ns=loop.first_seen_ns,
    )


def slowest_ns(loop: Loop, durations_ns: Int64s, count: int) -> int:
    """Return what the slowest `count` steps took beyond the median of the others.

    The very first one is slow in any case and left out. Where not all steps are remembered they
    come from the histogram, by the upper bounds of its buckets, and the first may be among them.
    Where too few others are left, nothing is taken off.
    """
    if count <= 0:
        return 0
    if loop.recent.first_step == 0 and len(durations_ns) == loop.executed:
        later = np.sort(durations_ns[1:])[::-1]
        others = later[count:]
        usual_ns = float(np.median(others)) if len(others) >= LEAST_UNTRACED else 0.0
        return int(np.maximum(later[:count] - usual_ns, 0).sum())
    return _slowest_of_histogram(loop.times, count)


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


def _slowest(loop: Loop, durations_ns: Int64s) -> tuple[int, ...]:
    order = np.argsort(durations_ns, kind="stable")[::-1]
    steps = (int(at) + loop.recent.first_step for at in order[: _NAMED + 1])
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


def _durations_ns(loop: Loop) -> Int64s:
    durations: Int64s = np.maximum(loop.recent.end_ns - loop.recent.start_ns, 0)
    return durations


def _gaps_ns(loop: Loop) -> Int64s:
    recent = loop.recent
    gaps: Int64s = np.maximum(recent.start_ns[1:] - recent.end_ns[:-1], 0)[recent.has_gap[1:]]
    return gaps


ThreadKey = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Apart:
    """What steps and gaps of a loop took beyond the usual because of recording, or as the first.

    `elsewhere_ns` is what is told of these gaps and is another loop's: steps of it on this thread
    that were traced, and what follows them.
    """

    recorded_step_ns: int
    recorded_gap_ns: int
    first_ns: int
    elsewhere_ns: int = 0

    @property
    def total_ns(self) -> int:
        return self.recorded_step_ns + self.recorded_gap_ns - self.elsewhere_ns + self.first_ns


def apart(loop: Loop, loops: tuple[Loop, ...]) -> Apart:
    """Return what is to be set apart of a loop, as far as its steps are remembered."""
    remembered = remember(loop, loops)
    steps, gaps = remembered.step_ns, remembered.gap_ns
    disturbed = ~remembered.gap_counts
    disturbed[:1] = False
    first = remembered.numbers == 0
    elsewhere = disturbed & gaps_around_traces(loop, loops)
    return Apart(
        recorded_step_ns=_excess_ns(steps, remembered.counts, remembered.sampled),
        recorded_gap_ns=_excess_ns(gaps, remembered.gap_counts, disturbed),
        first_ns=_excess_ns(steps, remembered.counts, first & ~remembered.sampled),
        elsewhere_ns=_excess_ns(gaps, remembered.gap_counts, elsewhere),
    )


def thread_times_ns(loops: Iterable[Loop], aparts: Iterable[Apart]) -> dict[ThreadKey, int]:
    """Return the time of the loop of each thread."""
    bounds: dict[ThreadKey, tuple[int, int]] = {}
    apart_ns: dict[ThreadKey, int] = {}
    for loop, part in zip(loops, aparts, strict=True):
        length_ns = loop.times.sum_ns + loop.gaps.sum_ns
        end_ns = int(loop.recent.end_ns[-1]) if len(loop.recent.end_ns) else length_ns
        key = (loop.process, loop.thread)
        known = bounds.get(key, (end_ns - length_ns, end_ns))
        bounds[key] = (min(known[0], end_ns - length_ns), max(known[1], end_ns))
        apart_ns[key] = apart_ns.get(key, 0) + part.total_ns
    return {key: max(end - start - apart_ns[key], 0) for key, (start, end) in bounds.items()}


def _excess_ns(times_ns: Int64s, usual: Flags, chosen: Flags) -> int:
    if not usual.any() or not chosen.any():
        return 0
    return int(np.maximum(times_ns[chosen] - _threads_median_ns(times_ns[usual]), 0).sum())


def _threads_median_ns(times_ns: Int64s) -> float:
    return float(np.median(times_ns)) if len(times_ns) else 0.0


# What the job does beside training, and what rules of their own are about.
_EXPECTED = frozenset(
    {
        "first",
        "import",
        "callbacks",
        "summary",
        "build",
        "trace",
        "compile",
        "save",
        "evaluate",
        "predict",
        "epoch",
        "calls",
        "work",
        "recording",
    }
)
# What others on the machine do.
_BY_OTHERS = (Cause("stolen", ""), Cause("waited", BY_OTHERS), Cause("crowded", ""))


def outliers(profile: Profile, loop: Loop) -> OutlierSignal | Missing:
    """Return the steps that took too long, or that came too late.

    Of a long run only the latest steps are remembered: what those took is scaled to all.
    """
    remembered = remember(loop, profile.loops)
    causes = Causes(profile, loop)
    found = [view.of_steps(remembered, causes), view.of_gaps(remembered, causes)]
    known = [each for each in found if not isinstance(each, Missing)]
    if not known:
        return Missing("there are too few steps to know what is usual")
    everything = [each for one in known for each in one.found]
    unexpected = [each for each in everything if _is_unexpected(each)]
    # What the first step took is set apart with the loop.
    expected = [each for each in everything if not _is_unexpected(each) and each.step]
    unexpected.sort(key=lambda each: -each.excess_ns)
    scale = max(loop.executed / max(len(remembered), 1), 1.0)
    cause = _main_cause(unexpected)
    return OutlierSignal(
        steps=tuple(dict.fromkeys(each.step for each in unexpected)),
        excess_ns=round(sum(each.excess_ns for each in unexpected) * scale),
        looked_at=known[0].looked_at,
        every=_every(known, unexpected),
        cause="" if isinstance(cause, Missing) else told(cause),
        is_own=not isinstance(cause, Missing) and cause not in _BY_OTHERS,
        known_step_ns=round(sum(each.excess_ns for each in expected if not each.is_gap) * scale),
        known_gap_ns=round(sum(each.excess_ns for each in expected if each.is_gap) * scale),
    )


def _every(known: Sequence[view.Outliers], outliers: Sequence[Outlier]) -> int | None:
    """Return the distance at which most outliers come, None where most come at none.

    They take most of the time, too: one long stop is none of those that come at a distance.
    """
    periods = [period for one in known for period in one.periods]
    longest = max(periods, key=lambda each: each.times, default=None)
    if longest is None or longest.times <= len(outliers) / 2:
        return None
    in_turn = (
        outlier for outlier in outliers if (outlier.step - longest.first) % longest.every == 0
    )
    turns_ns = sum(each.excess_ns for each in in_turn)
    return longest.every if 2 * turns_ns > sum(outlier.excess_ns for outlier in outliers) else None


def _is_unexpected(each: Outlier) -> bool:
    # Whatever went on during the first step, that step is none of the loop's.
    if not each.step:
        return False
    return isinstance(each.cause, Missing) or each.cause.kind not in _EXPECTED


def _main_cause(outliers: Sequence[Outlier]) -> Cause | Missing:
    """Return what more than half of the time was spent in; Missing where that is not known."""
    sums: dict[Cause | Missing, int] = {}
    for outlier in outliers:
        sums[outlier.cause] = sums.get(outlier.cause, 0) + outlier.excess_ns
    main = max(sums, key=lambda cause: sums[cause], default=Missing("nothing stands out"))
    if sums and 2 * sums[main] <= sum(sums.values()):
        return Missing("no one cause explains most of it")
    return main
