"""Measure the rate and the times of the latest steps of loops, and the overhead of recording.

Rates count completed steps. Times are those of steps that neither raised nor were traced, if there
are any, and whose clock did not go back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop, Process, RecentSteps
from tfprobe.profile.tables import Int64s

NANOSECONDS = 1_000_000_000
# Long enough for a steady rate, short enough to see a job stall.
WINDOW_NS = 10 * NANOSECONDS
# Where steps are slower than that, a single interval could be an exception.
LEAST_INTERVALS = 2
# As many as fit into a sparkline in a table column.
TREND_POINTS = 24

NO_STEP = Missing("no step was completed")
NO_TIME = Missing("no step has a time that can be read")
NO_CLOCK = Missing("the clock of the steps stands still")


@dataclass(frozen=True, slots=True)
class RecentStepTimes:
    """Median, p95 and trend of step times, in ns.

    `trend_ns` are medians of at most TREND_POINTS equally large groups of steps, newest last; the
    oldest steps, which fill no group, are left out.
    """

    p50_ns: float
    p95_ns: float
    trend_ns: tuple[float, ...]


def steps_per_s(loop: Loop, now_ns: int) -> float | Missing:
    """Return the rate of the completed steps of a loop, from the times at which they ended.

    The window is the last 10 s; the first step in it counts by the part of its interval that lies
    inside. Where fewer than two steps ended in the window, it is the last two intervals. An
    interval is the time since the end of the step before, or since the start of the first known
    step. The time since the last step counts once it is longer than any of these intervals; once it
    is longer than 10 s and than twice the longest interval, the rate is 0.
    """
    marks_ns = _marks_ns(loop.recent)
    if len(marks_ns) < 2:
        return NO_STEP
    since_ns = now_ns - WINDOW_NS
    ended = int((marks_ns[1:] > since_ns).sum())
    counted = ended if ended >= LEAST_INTERVALS else min(LEAST_INTERVALS, len(marks_ns) - 1)
    intervals_ns = np.diff(marks_ns[-counted - 1 :])
    longest_ns, waited_ns = int(intervals_ns.max()), now_ns - int(marks_ns[-1])
    if waited_ns > max(WINDOW_NS, 2 * longest_ns):
        return 0.0
    begin_ns = int(marks_ns[-counted - 1])
    if ended >= LEAST_INTERVALS:
        begin_ns = max(begin_ns, since_ns)
    end_ns = now_ns if waited_ns > longest_ns else int(marks_ns[-1])
    if end_ns <= begin_ns:
        return NO_CLOCK
    first_ns = max(int(intervals_ns[0]), 1)
    first = min((int(marks_ns[-counted]) - begin_ns) / first_ns, 1.0)
    return (counted - 1 + first) * NANOSECONDS / (end_ns - begin_ns)


def step_times(loops: Sequence[Loop]) -> RecentStepTimes | Missing:
    """Return the times of the recent steps of these loops together."""
    ends_ns, times_ns = zip(*(_times(loop.recent) for loop in loops), strict=True)
    all_ns = np.concatenate(times_ns)
    if not len(all_ns):
        return NO_TIME if any(loop.count for loop in loops) else NO_STEP
    in_order = all_ns if len(loops) == 1 else all_ns[np.argsort(np.concatenate(ends_ns))]
    ordered = np.sort(all_ns)
    return RecentStepTimes(_quantile(ordered, 0.50), _quantile(ordered, 0.95), _trend(in_order))


def last_end_ns(loops: Sequence[Loop]) -> int | None:
    """Return when the last step of any of these loops ended; None before the first."""
    ends_ns = [int(loop.recent.end_ns[-1]) for loop in loops if len(loop.recent.end_ns)]
    return max(ends_ns, default=None)


def longest_interval_ns(loops: Sequence[Loop]) -> int | Missing:
    """Return the longest time between the ends of two recent steps of any loop.

    The time between the first two is ignored: there TensorFlow traces and compiles.
    """
    ends_ns = [loop.recent.end_ns for loop in loops if len(loop.recent.end_ns)]
    if not ends_ns:
        return NO_STEP
    ordered = np.sort(np.concatenate(ends_ns))[1:]
    if len(ordered) < LEAST_INTERVALS + 1:
        return Missing("too few steps to know what is usual")
    return int(np.diff(ordered).max())


def busiest(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """Return the loops, of one kind and name, that a process recently spent most of its time in.

    Recent is the 10 s before the last step of all loops, or, where steps are long, twice the
    longest of the latest steps. So a loop inside another is not counted with it, and a process that
    has turned to evaluating is shown by its evaluation.
    """
    last_ns = last_end_ns(loops)
    if last_ns is None:
        return ()
    longest_ns = max(int(_step_ns(loop.recent)[-3:].max(initial=0)) for loop in loops)
    since_ns = last_ns - max(WINDOW_NS, 2 * longest_ns)
    time_of: dict[tuple[str, str], int] = {}
    for loop in loops:
        lately = loop.recent.end_ns > since_ns
        name = (loop.kind, loop.name)
        time_of[name] = time_of.get(name, 0) + int(_step_ns(loop.recent)[lately].sum())
    # Of equal ones the first: loops are in the order in which the process began them.
    most = max(time_of, key=time_of.__getitem__)
    return tuple(loop for loop in loops if (loop.kind, loop.name) == most and loop.executed)


def _marks_ns(recent: RecentSteps) -> Int64s:
    """Return the start of the first completed step, and the end of each."""
    ends_ns = recent.end_ns[~recent.raised]
    begin_ns = np.clip(recent.start_ns[~recent.raised][:1], 0, ends_ns[:1])
    # Where the clock went back, a step still does not end before the previous one.
    marks_ns: Int64s = np.maximum.accumulate(np.concatenate([begin_ns, ends_ns]))
    return marks_ns


def _times(recent: RecentSteps) -> tuple[Int64s, Int64s]:
    """Return the ends and the times of the steps that represent the loop."""
    good = ~recent.raised & (recent.start_ns >= 0) & (recent.end_ns >= recent.start_ns)
    plain = good & ~recent.sampled
    chosen = plain if plain.any() else good
    return recent.end_ns[chosen], (recent.end_ns - recent.start_ns)[chosen]


# numpy's own quantiles and medians take a hundred times longer on so few values.
def _quantile(ordered: Int64s, quantile: float) -> float:
    """Return a quantile of sorted values, interpolated linearly."""
    at = (len(ordered) - 1) * quantile
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (at - low))


def _trend(times_ns: Int64s) -> tuple[float, ...]:
    count = min(TREND_POINTS, len(times_ns))
    length = len(times_ns) // count
    # The oldest steps, which fill no group, are left out.
    ordered = np.sort(times_ns[len(times_ns) - count * length :].reshape(count, length), axis=1)
    middle = ordered[:, (length - 1) // 2] + ordered[:, length // 2]
    return tuple((middle / 2).tolist())


def _step_ns(recent: RecentSteps) -> Int64s:
    step_ns: Int64s = np.maximum(recent.end_ns - recent.start_ns, 0)
    return step_ns


@dataclass(frozen=True, slots=True)
class Overhead:
    """The time that recording took in a process.

    `traced_ns` is what traced steps took beyond the usual step, with export and write. `hook_ns` is
    the mean measured hook call times all steps, plus folds, plus one-time work. `unmeasured_calls`
    are hook calls not in `hook_ns`, because the agent had not measured any yet. `fraction_ratio` is
    the sum over the wall time of the process, from agent start to last activity or exit.
    """

    fraction_ratio: float
    traced_ns: int
    hook_ns: int
    wall_ns: int
    unmeasured_calls: int


def recording_overhead(process: Process, loops: Iterable[Loop]) -> Overhead | Missing:
    """Return the overhead of recording in one process, from its own loops."""
    hooks = process.hooks
    if isinstance(hooks, Missing):
        return hooks
    executed = sum(loop.executed for loop in loops if loop.process == process.index)
    if hooks.wall_ns == 0 or (executed == 0 and process.state not in ("finished", "failed")):
        # Without steps and without an exit hook, it is unknown how long the process lived.
        return Missing("the process recorded no activity to measure against")
    mean_ns = hooks.measured_ns / hooks.calls_measured if hooks.calls_measured else 0.0
    hook_ns = round(mean_ns * executed) + hooks.fold_ns + hooks.once_ns
    fraction = min((hooks.traced_ns + hook_ns) / hooks.wall_ns, 1.0)
    unmeasured = 0 if hooks.calls_measured else executed
    return Overhead(fraction, hooks.traced_ns, hook_ns, hooks.wall_ns, unmeasured)
