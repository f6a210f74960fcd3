"""Say how fast the latest steps of loops come and how long they take, at one moment.

Rates are of completed steps. Times of steps are of those that neither raised nor were traced, while
there are such, and whose clock went forward.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop, Process, RecentSteps
from tfprobe.profile.tables import Int64s

NANOSECONDS = 1_000_000_000
# Long enough for a steady number, short enough to see a job come to a halt.
WINDOW_NS = 10 * NANOSECONDS
# Of steps slower than that: one interval between two could be a chance.
LEAST_INTERVALS = 2
# As many as a sparkline in a column of a table has room for.
TREND_POINTS = 24

NO_STEP = Missing("no step was completed")
NO_TIME = Missing("no step has a time that can be read")
NO_CLOCK = Missing("the clock of the steps stands still")


@dataclass(frozen=True, slots=True)
class RecentStepTimes:
    """Median, p95 and course of step times, in ns.

    `trend_ns` are medians of at most TREND_POINTS stretches of equally many steps, newest last; the
    oldest steps, which fill none, are left out.
    """

    p50_ns: float
    p95_ns: float
    trend_ns: tuple[float, ...]


def steps_per_s(loop: Loop, now_ns: int) -> float | Missing:
    """Return the rate of the completed steps of a loop, by the moments at which they ended.

    Counted are the last 10 s: the steps that ended in them, the first by the part of its interval
    that lies in them. Where fewer than two ended in them it is the last two intervals. An interval
    is the time since the step before ended, or, of the first known, since it began. The time
    since the last step counts once it is longer than all of these intervals; where it is longer
    than 10 s and than two of them, no steps come any more: 0.
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
    """Return the times of the recent steps of these works together."""
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
    """Return the longest time between the ends of two recent steps, of whatever work.

    What lay between the first two is left out: there TensorFlow traces and compiles.
    """
    ends_ns = [loop.recent.end_ns for loop in loops if len(loop.recent.end_ns)]
    if not ends_ns:
        return NO_STEP
    ordered = np.sort(np.concatenate(ends_ns))[1:]
    if len(ordered) < LEAST_INTERVALS + 1:
        return Missing("too few steps to know what is usual")
    return int(np.diff(ordered).max())


def busiest(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """Return the kind of steps that a process spends most of its time in of late, in all threads.

    That is the kind and name of which the steps that ended lately took the most time: in the 10 s
    before the last step of all, or, where steps take long, in twice the longest of each loop's
    latest. So a loop that lies inside another is not counted beside it, and a process that has
    gone over to evaluate is shown by that.
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
    # The first of equals: works are in the order in which the process began them.
    most = max(time_of, key=lambda name: time_of[name])
    return tuple(loop for loop in loops if (loop.kind, loop.name) == most and loop.executed)


def _marks_ns(recent: RecentSteps) -> Int64s:
    """Return the moments at which completed steps ended, after the start of the first of them."""
    ends_ns = recent.end_ns[~recent.raised]
    begin_ns = np.clip(recent.start_ns[~recent.raised][:1], 0, ends_ns[:1])
    # A clock that went back makes no step come before the one before it.
    marks_ns: Int64s = np.maximum.accumulate(np.concatenate([begin_ns, ends_ns]))
    return marks_ns


def _times(recent: RecentSteps) -> tuple[Int64s, Int64s]:
    """Return ends and times of the steps that speak for the loop."""
    good = ~recent.raised & (recent.start_ns >= 0) & (recent.end_ns >= recent.start_ns)
    plain = good & ~recent.sampled
    chosen = plain if plain.any() else good
    return recent.end_ns[chosen], (recent.end_ns - recent.start_ns)[chosen]


# numpy's own quantiles and medians take a hundred times as long on so few values.
def _quantile(ordered: Int64s, quantile: float) -> float:
    """Return a quantile of sorted values, between two of them by a straight line."""
    at = (len(ordered) - 1) * quantile
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (at - low))


def _trend(times_ns: Int64s) -> tuple[float, ...]:
    count = min(TREND_POINTS, len(times_ns))
    length = len(times_ns) // count
    # What does not fill a stretch is left out where it is oldest.
    ordered = np.sort(times_ns[len(times_ns) - count * length :].reshape(count, length), axis=1)
    middle = ordered[:, (length - 1) // 2] + ordered[:, length // 2]
    return tuple((middle / 2).tolist())


def _step_ns(recent: RecentSteps) -> Int64s:
    step_ns: Int64s = np.maximum(recent.end_ns - recent.start_ns, 0)
    return step_ns


@dataclass(frozen=True, slots=True)
class Overhead:
    """Time recording took of a process.

    `traced_ns`: traced steps beyond the usual step, with export and write.
    `hook_ns`: the mean measured hook call times all steps, plus folds, plus what is done once.
    `unmeasured_calls`: hook calls not in `hook_ns`, because the agent had not measured any yet.
    `fraction_ratio`: both over the process's wall time, from agent start to last activity or exit.
    """

    fraction_ratio: float
    traced_ns: int
    hook_ns: int
    wall_ns: int
    unmeasured_calls: int


def recording_overhead(process: Process, loops: Iterable[Loop]) -> Overhead | Missing:
    """Return the overhead of one process, from its own works."""
    hooks = process.hooks
    if isinstance(hooks, Missing):
        return hooks
    executed = sum(loop.executed for loop in loops if loop.process == process.index)
    if hooks.wall_ns == 0 or (executed == 0 and process.state not in ("finished", "failed")):
        # Without steps and without an exit hook, nobody noted how long the process lived.
        return Missing("the process recorded no activity to measure against")
    mean_ns = hooks.measured_ns / hooks.calls_measured if hooks.calls_measured else 0.0
    hook_ns = round(mean_ns * executed) + hooks.fold_ns + hooks.once_ns
    fraction = min((hooks.traced_ns + hook_ns) / hooks.wall_ns, 1.0)
    unmeasured = 0 if hooks.calls_measured else executed
    return Overhead(fraction, hooks.traced_ns, hook_ns, hooks.wall_ns, unmeasured)
