"""Say which of the remembered steps and gaps of a loop represent the job.

Those that tfprobe disturbed do not: steps that it traced, steps of other threads at that time, the
gaps before and after, in which a trace is started, exported and written, the step after that, which
finds caches cold, and gaps that it watched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.core.statistics import MAD_OF_NORMAL, OUTLIER_Z, spread
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop, RecentSteps
from tfprobe.profile.tables import Flags, Int64s

# Where every second step is traced, most of the others follow a traced step: they must count.
_LEAST_LEFT_RATIO = 1 / 3


@dataclass(frozen=True, slots=True)
class StepWindow:
    """The remembered steps, oldest first; row i is step `first_step + i`. Times are monotonic ns.

    `gap_ns` is the time since the step before; it is 0 where `has_gap` is false: in row 0, and
    where another thread ran the step before. `counts` are steps that neither raised nor were
    disturbed by tracing, `gap_counts` gaps that were not disturbed. `is_whole` says that no step is
    forgotten.
    """

    first_step: int
    start_ns: Int64s
    end_ns: Int64s
    step_ns: Int64s
    gap_ns: Int64s
    sampled: Flags
    raised: Flags
    counts: Flags
    gap_counts: Flags
    is_whole: bool
    has_gap: Flags

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def numbers(self) -> Int64s:
        """Return the number of each step."""
        return np.arange(self.first_step, self.first_step + len(self), dtype=np.int64)


def recent_window(loop: Loop, loops: Sequence[Loop]) -> StepWindow:
    """Return the remembered steps of a loop, which is one of the `loops` of a profile."""
    recent = loop.recent
    start_ns, end_ns = recent.start_ns, np.maximum(recent.end_ns, recent.start_ns)
    before_ns = np.concatenate([start_ns[:1], end_ns[:-1]])
    others = [other for other in loops if other.process == loop.process and other is not loop]
    traced = _traced(others)
    after_traced = np.concatenate([[False], recent.sampled[:-1]]).astype(np.bool_)
    has_gap = recent.has_gap
    counts = ~(recent.sampled | recent.raised | overlaps(start_ns, end_ns, *traced))
    return StepWindow(
        first_step=recent.first_step,
        start_ns=start_ns,
        end_ns=end_ns,
        step_ns=end_ns - start_ns,
        gap_ns=np.where(has_gap, np.maximum(start_ns - before_ns, 0), 0),
        sampled=recent.sampled,
        raised=recent.raised,
        counts=_without(counts, after_traced),
        gap_counts=_without(
            has_gap & ~(recent.sampled | after_traced | overlaps(before_ns, start_ns, *traced)),
            recent.gap_is_ours,
        ),
        is_whole=loop.is_remembered,
        has_gap=has_gap,
    )


def gaps_around_traces(loop: Loop, loops: Sequence[Loop]) -> Flags:
    """Return for each gap of a loop whether another loop of its thread had a traced step in it."""
    recent = loop.recent
    others = [
        other
        for other in loops
        if (other.process, other.thread) == (loop.process, loop.thread) and other is not loop
    ]
    end_ns = np.maximum(recent.end_ns, recent.start_ns)
    before_ns = np.concatenate([recent.start_ns[:1], end_ns[:-1]])
    return overlaps(before_ns, recent.start_ns, *_traced(others))


def lengthened_gaps(recent: RecentSteps) -> Flags:
    """Return before which steps the gap cannot be compared with those of other processes.

    That is where a trace was written in it, or where it was watched. If that would leave out more
    than half of all gaps, watched ones count: a watch adds some 0.1 ms, and gaps of several
    processes are compared only where all of them are known.
    """
    after_traced = np.concatenate([[False], recent.sampled[:-1]]).astype(np.bool_)
    loose = recent.has_gap & ~after_traced
    kept = loose & ~recent.gap_is_ours
    return recent.gap_is_ours if 2 * kept.sum() >= loose.sum() else after_traced


def _without(counts: Flags, disturbed: Flags) -> Flags:
    """Leave out what tfprobe made a little longer, unless hardly anything would be left.

    Those are steps after a traced one, and watched gaps: in a slow loop nearly all are watched.
    """
    left: Flags = counts & ~disturbed
    return left if left.sum() >= _LEAST_LEFT_RATIO * counts.sum() else counts


def overlaps(start_ns: Int64s, end_ns: Int64s, low_ns: Int64s, high_ns: Int64s) -> Flags:
    """Return for each interval whether it overlaps one of the others, which are sorted by start."""
    if not len(low_ns):
        return np.zeros(len(start_ns), dtype=np.bool_)
    reached_ns = np.maximum.accumulate(high_ns)
    begun = np.searchsorted(low_ns, end_ns, side="left")
    overlap: Flags = (begun > 0) & (reached_ns[np.maximum(begun - 1, 0)] > start_ns)
    return overlap


def _traced(loops: Sequence[Loop]) -> tuple[Int64s, Int64s]:
    """Return the start and the end of the traced steps of these loops, sorted by start."""
    none: Int64s = np.zeros(0, dtype=np.int64)
    recents = [loop.recent for loop in loops]
    starts = np.concatenate([none, *(recent.start_ns[recent.sampled] for recent in recents)])
    ends = np.concatenate([none, *(recent.end_ns[recent.sampled] for recent in recents)])
    order = np.argsort(starts, kind="stable")
    return starts[order], ends[order]


# With fewer steps, the later half does not say how fast the loop gets.
LEAST_STEPS = 10
# The median of so many steps in a row must be fast: one fast step among slow ones is not warm.
_IN_A_ROW = 5
_LEAST_ABOVE_RATIO = 0.10


def warm_up_steps(window: StepWindow) -> int | Missing:
    """Return the length of a loop's warm-up in steps, with a slow first step.

    The loop is warm once the median of five steps is no outlier among the steps of the later half,
    or no more than 10 % above their median. Where that never happens, it is a trend, not a warm-up.
    """
    if window.first_step > 0:
        return Missing("its first steps are forgotten")
    rows = np.flatnonzero(window.counts)
    if len(rows) < LEAST_STEPS:
        return Missing(f"it takes {LEAST_STEPS} steps to decide")
    times_ns = window.step_ns[rows]
    later = spread(times_ns[len(rows) // 2 :])
    above = max(OUTLIER_Z / MAD_OF_NORMAL * later.mad, _LEAST_ABOVE_RATIO * later.median)
    first_half = np.lib.stride_tricks.sliding_window_view(times_ns, _IN_A_ROW)[: len(rows) // 2]
    is_warm = np.median(first_half, axis=1) <= later.median + above
    if not is_warm.any():
        return 0
    # The window is warm in its middle; slow steps at its start still belong to the warm-up.
    first = int(is_warm.argmax())
    slow = np.flatnonzero(times_ns[first : first + _IN_A_ROW] > later.median + above)
    leading = int(np.argmax(np.append(slow != np.arange(len(slow)), True)))
    return int(rows[first + leading]) if first + leading else 0
