"""Say how long the steps of a loop took, the gaps between them, and the thread that runs both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tfprobe.analysis.core.main_loop import unknown_times
from tfprobe.analysis.core.statistics import spread
from tfprobe.analysis.steps.step_window import gaps_around_traces, recent_window
from tfprobe.errors import Missing
from tfprobe.profile.profile import JAX_KINDS, Durations, Loop, Profile, StepQueue, bucket_bounds_ns
from tfprobe.profile.tables import Flags, Int64s

# How many slow steps are named.
_NAMED = 5
# Fewer steps without a trace do not say what is usual.
LEAST_UNTRACED = 3


@dataclass(frozen=True, slots=True)
class LoopTiming:
    """The steps of a loop, from the first to the last, with the time between them.

    `thread_ns` is the time of the thread with all its loops. `retrace_ns` is how much longer than
    the usual step the slowest steps took, as many as there were retraces; `untraced` counts the
    other steps, and if these are too few to say what is usual, `retrace_ns` is all of the time of
    the slow steps. `mean_cycle_ns` is the mean from the start of a step to the next start,
    from the second step on: it is the same for loops that alternate, which what is usual is not.
    `gap_spread_ns` is the median absolute deviation of gaps. `regular_step_ns` and
    `regular_gap_ns` leave out what took longer for a known reason other than the step itself: a
    first step, a trace, a checkpoint, an evaluation. `first_seen_ns` is the unix time of the first
    step, 0 if the recording has none. `undivided` says why the time of the loop cannot be divided
    into steps and gaps, None if it can. `queue` is that of the Loop.
    """

    kind: str
    name: str
    steps: int
    per_execution: int
    retraces: int
    step_ns: int
    gap_ns: int
    regular_step_ns: int
    regular_gap_ns: int
    usual_step_ns: float
    usual_gap_ns: float
    mean_cycle_ns: float
    retrace_ns: int
    untraced: int
    slowest_steps: tuple[int, ...]
    thread_ns: int
    gap_spread_ns: float = 0.0
    first_seen_ns: int = 0
    undivided: Missing | None = None
    queue: StepQueue | None = None

    @property
    def loop_ns(self) -> int:
        return self.step_ns + self.gap_ns

    def without(self, step_ns: int, gap_ns: int) -> LoopTiming:
        """Return the timing with so much less time in regular steps and gaps."""
        return replace(
            self,
            regular_step_ns=max(self.regular_step_ns - step_ns, 0),
            regular_gap_ns=max(self.regular_gap_ns - gap_ns, 0),
        )


def loop_timings(profile: Profile) -> dict[tuple[int, int], LoopTiming]:
    """Return the timing of each loop with steps, by its process and number."""
    loops = profile.loops
    excesses = [excess_times(loop, loops) for loop in loops]
    whole_ns = thread_times_ns(loops, excesses)
    busy_ns: dict[ThreadKey, int] = {}
    for loop, excess in zip(loops, excesses, strict=True):
        key = (loop.process, loop.thread)
        own_ns = loop.times.sum_ns - excess.recorded_step_ns - excess.first_ns
        busy_ns[key] = busy_ns.get(key, 0) + max(own_ns, 0)
    traces = _traces(profile)
    of_captures = _of_captures(profile)
    return of_captures | {
        (loop.process, loop.index): _loop(
            loop,
            excess,
            max(loop.retraces, _traces_of(loop, traces) - 1),
            whole_ns[loop.process, loop.thread],
            busy_ns[loop.process, loop.thread],
        )
        for loop, excess in zip(loops, excesses, strict=True)
        if loop.times.count
    }


def _of_captures(profile: Profile) -> dict[tuple[int, int], LoopTiming]:
    """Return the timing of loops of which only traced steps are known: those of single files."""
    timings: dict[tuple[int, int], LoopTiming] = {}
    for loop in profile.loops:
        key = (loop.process, loop.index)
        took_ns = [
            capture.duration_ns
            for capture in profile.captures
            if (capture.process, capture.loop) == key
        ]
        if took_ns and not loop.times.count:
            timings[key] = _loop_of(loop, took_ns)
    return timings


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
        mean_cycle_ns=float(np.mean(took_ns)),
        retrace_ns=0,
        untraced=len(took_ns),
        slowest_steps=(),
        thread_ns=whole_ns,
    )


def _traces(profile: Profile) -> dict[tuple[int, str], int]:
    """Return how often functions were traced, by process and name.

    The agent counts retraces now and then. Activities are recorded at once, but have only a name.
    """
    counts: dict[tuple[int, str], int] = {}
    for activity in profile.activities:
        if activity.kind == "trace":
            key = (activity.process, activity.name)
            counts[key] = max(counts.get(key, 0), activity.count)
    return counts


def _traces_of(loop: Loop, traces: Mapping[tuple[int, str], int]) -> int:
    """Return the traces of a loop's function; JAX also traces one that it differentiates."""
    return 0 if loop.kind in JAX_KINDS else traces.get((loop.process, loop.name), 0)


def _loop(
    loop: Loop, excess: ExcessTimes, retraces: int, thread_ns: int, busy_ns: int
) -> LoopTiming:
    durations_ns, gaps_ns = _durations_ns(loop), _gaps_ns(loop)
    retraces = min(retraces, max(loop.executed - 1, 0))
    retraced = slowest_ns(loop, durations_ns, retraces)
    usual_step_ns = _median_ns(loop.times, durations_ns)
    usual_gap_ns = _median_ns(loop.gaps, gaps_ns)
    step_ns = max(loop.times.sum_ns - excess.recorded_step_ns, 0)
    # Other loops that run between two steps are not part of the gap.
    gap_ns = max(min(loop.gaps.sum_ns - excess.recorded_gap_ns, thread_ns - busy_ns), 0)
    return LoopTiming(
        kind=loop.kind,
        name=loop.name,
        steps=loop.count,
        per_execution=loop.steps_per_execution,
        retraces=retraces,
        step_ns=step_ns,
        gap_ns=gap_ns,
        regular_step_ns=max(step_ns - excess.first_ns, 0),
        regular_gap_ns=gap_ns,
        usual_step_ns=usual_step_ns,
        usual_gap_ns=usual_gap_ns,
        mean_cycle_ns=_mean_cycle_ns(loop) or usual_step_ns + usual_gap_ns,
        retrace_ns=retraced,
        untraced=max(loop.times.count - retraces - 1, 0),
        slowest_steps=_slowest(loop, durations_ns),
        thread_ns=thread_ns,
        gap_spread_ns=spread(gaps_ns).mad if len(gaps_ns) else 0.0,
        first_seen_ns=loop.first_seen_ns,
        undivided=unknown_times(loop),
        queue=loop.queue,
    )


def slowest_ns(loop: Loop, durations_ns: Int64s, count: int) -> int:
    """Return what the slowest `count` steps took beyond the median of the others.

    The first step is slow in any case and is left out. If not all steps are on record, the times
    come from the histogram, as upper bounds of its buckets, and the first step may be among them.
    If too few others are left, nothing is subtracted.
    """
    if count <= 0:
        return 0
    if loop.is_remembered:
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


def _median_ns(times: Durations, durations_ns: Int64s) -> float:
    """Return the median of the durations on record, all or the latest; else of the histogram."""
    if len(durations_ns):
        return float(np.median(durations_ns))
    if not times.count:
        return 0.0
    return _quantile_ns(times, times.count / 2)


def _quantile_ns(times: Durations, rank: float) -> float:
    """Return the lower bound of the bucket with the duration of this rank."""
    bucket = int(np.searchsorted(np.cumsum(times.buckets), rank))
    return bucket_bounds_ns(min(bucket, len(times.buckets) - 1))[0]


def _durations_ns(loop: Loop) -> Int64s:
    durations: Int64s = np.maximum(loop.recent.end_ns - loop.recent.start_ns, 0)
    return durations


def _gaps_ns(loop: Loop) -> Int64s:
    recent = loop.recent
    gaps: Int64s = np.maximum(recent.start_ns[1:] - recent.end_ns[:-1], 0)[recent.has_gap[1:]]
    return gaps


def _mean_cycle_ns(loop: Loop) -> float:
    """Return the mean from start to start of the steps on record, 0 if they are too few.

    The first step is left out: it compiles, and loops that alternate do so behind each other.
    """
    recent = loop.recent.since(1)
    cycles: Int64s = np.diff(recent.start_ns)[recent.has_gap[1:]]
    return max(float(np.mean(cycles)), 0.0) if len(cycles) else 0.0


ThreadKey = tuple[int, str]


@dataclass(frozen=True, slots=True)
class ExcessTimes:
    """How much longer than usual steps and gaps took because of recording, or as the first step.

    `elsewhere_ns` is the part of it that belongs to another loop: its traced steps on this thread,
    and the gaps after them.
    """

    recorded_step_ns: int
    recorded_gap_ns: int
    first_ns: int
    elsewhere_ns: int = 0

    @property
    def total_ns(self) -> int:
        return self.recorded_step_ns + self.recorded_gap_ns - self.elsewhere_ns + self.first_ns


def excess_times(loop: Loop, loops: tuple[Loop, ...]) -> ExcessTimes:
    """Return the excess times of a loop, as far as its steps are on record."""
    remembered = recent_window(loop, loops)
    steps, gaps = remembered.step_ns, remembered.gap_ns
    disturbed = ~remembered.gap_counts
    disturbed[:1] = False
    first = remembered.numbers == 0
    elsewhere = disturbed & gaps_around_traces(loop, loops)
    return ExcessTimes(
        recorded_step_ns=_excess_ns(steps, remembered.counts, remembered.sampled),
        recorded_gap_ns=_excess_ns(gaps, remembered.gap_counts, disturbed),
        first_ns=_excess_ns(steps, remembered.counts, first & ~remembered.sampled),
        elsewhere_ns=_excess_ns(gaps, remembered.gap_counts, elsewhere),
    )


def thread_times_ns(loops: Iterable[Loop], excesses: Iterable[ExcessTimes]) -> dict[ThreadKey, int]:
    """Return the time of the steps and gaps of each thread."""
    bounds: dict[ThreadKey, tuple[int, int]] = {}
    excess_ns: dict[ThreadKey, int] = {}
    for loop, excess in zip(loops, excesses, strict=True):
        length_ns = loop.times.sum_ns + loop.gaps.sum_ns
        end_ns = int(loop.recent.end_ns[-1]) if len(loop.recent.end_ns) else length_ns
        key = (loop.process, loop.thread)
        known = bounds.get(key, (end_ns - length_ns, end_ns))
        bounds[key] = (min(known[0], end_ns - length_ns), max(known[1], end_ns))
        excess_ns[key] = excess_ns.get(key, 0) + excess.total_ns
    return {key: max(end - start - excess_ns[key], 0) for key, (start, end) in bounds.items()}


def _excess_ns(times_ns: Int64s, usual: Flags, chosen: Flags) -> int:
    if not usual.any() or not chosen.any():
        return 0
    return int(np.maximum(times_ns[chosen] - _median_of(times_ns[usual]), 0).sum())


def _median_of(times_ns: Int64s) -> float:
    return float(np.median(times_ns)) if len(times_ns) else 0.0
