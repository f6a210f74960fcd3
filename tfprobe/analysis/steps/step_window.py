"""The steps of a loop that the recording remembers one by one, and which of them speak for the job.

What tfprobe itself did is not the job's: steps that it traced, steps of other threads during which
it traced one, the gaps before and after, in which a trace is opened, exported and written, the
step after that, which finds caches cold, and gaps that it watched among others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.core.statistics import MAD_OF_NORMAL, OUTLIER_Z, spread
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop, RecentSteps
from tfprobe.profile.tables import Flags, Int64s

# Where every second step is traced, the others are all there is.
_LEAST_LEFT_RATIO = 1 / 3


@dataclass(frozen=True, slots=True)
class StepWindow:
    """Steps one by one, oldest first; row i is step `first_step + i`. Monotonic ns.

    `gap_ns` is the time since the step before, 0 where `has_gap` is not: in row 0, which knows of
    none, and where another thread ran the step before. `counts` are steps that neither raised nor
    were disturbed by tracing, `gap_counts` gaps that tracing left alone.
    `is_whole` says that no step has been forgotten.
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
    """Return what is remembered of `work`, one of the `works` of a profile."""
    recent = loop.recent
    start_ns, end_ns = recent.start_ns, np.maximum(recent.end_ns, recent.start_ns)
    before_ns = np.concatenate([start_ns[:1], end_ns[:-1]])
    others = [each for each in loops if each.process == loop.process and each is not loop]
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
        is_whole=recent.first_step == 0 and len(start_ns) == loop.executed,
        has_gap=has_gap,
    )


def gaps_around_traces(loop: Loop, loops: Sequence[Loop]) -> Flags:
    """Say of each gap of `work` whether another loop of its thread had a step traced in it."""
    recent = loop.recent
    others = [
        each
        for each in loops
        if (each.process, each.thread) == (loop.process, loop.thread) and each is not loop
    ]
    end_ns = np.maximum(recent.end_ns, recent.start_ns)
    before_ns = np.concatenate([recent.start_ns[:1], end_ns[:-1]])
    return overlaps(before_ns, recent.start_ns, *_traced(others))


def lengthened_gaps(recent: RecentSteps) -> Flags:
    """Say before which steps the gap is no measure of another process's: a trace was written in it.

    So it is where it was watched, unless half of all would be left out: a watch adds some 0.1 ms,
    and gaps of several processes are compared only where all of them are known.
    """
    after_traced = np.concatenate([[False], recent.sampled[:-1]]).astype(np.bool_)
    loose = recent.has_gap & ~after_traced
    kept = loose & ~recent.gap_is_ours
    return recent.gap_is_ours if 2 * kept.sum() >= loose.sum() else after_traced


def _without(counts: Flags, disturbed: Flags) -> Flags:
    """Leave out what tfprobe made a little longer, unless next to nothing would be left.

    Those are steps after a traced one, and gaps that were watched: in a slow loop nearly all are.
    """
    left: Flags = counts & ~disturbed
    return left if left.sum() >= _LEAST_LEFT_RATIO * counts.sum() else counts


def overlaps(start_ns: Int64s, end_ns: Int64s, low_ns: Int64s, high_ns: Int64s) -> Flags:
    """Say of each interval whether it shares time with one of others, which are sorted by start."""
    if not len(low_ns):
        return np.zeros(len(start_ns), dtype=np.bool_)
    reached_ns = np.maximum.accumulate(high_ns)
    begun = np.searchsorted(low_ns, end_ns, side="left")
    found: Flags = (begun > 0) & (reached_ns[np.maximum(begun - 1, 0)] > start_ns)
    return found


def _traced(loops: Sequence[Loop]) -> tuple[Int64s, Int64s]:
    """Return when steps of these loops were traced, sorted by start."""
    none: Int64s = np.zeros(0, dtype=np.int64)
    parts = [_traced_steps(loop.recent) for loop in loops]
    starts = np.concatenate([none, *(start for start, _ in parts)])
    ends = np.concatenate([none, *(end for _, end in parts)])
    order = np.argsort(starts, kind="stable")
    return starts[order], ends[order]


def _traced_steps(recent: RecentSteps) -> tuple[Int64s, Int64s]:
    return recent.start_ns[recent.sampled], recent.end_ns[recent.sampled]


# Fewer have no later half to speak of.
LEAST_STEPS = 10
# So many in a row have to be fast in their middle: one fast step between slow ones is none yet.
_IN_A_ROW = 5
_LEAST_ABOVE_RATIO = 0.10


def warm_up_steps(remembered: StepWindow) -> int | Missing:
    """Return how many steps a loop took to get warm, the first one with it where it was slow.

    Warm is from where the median of five steps is no outlier among those of the later half, and
    not 10 % above their median. Where that never comes there is no warm-up but a trend.
    """
    if remembered.first_step > 0:
        return Missing("its first steps are forgotten")
    rows = np.flatnonzero(remembered.counts)
    if len(rows) < LEAST_STEPS:
        return Missing(f"it takes {LEAST_STEPS} steps to decide")
    times_ns = remembered.step_ns[rows]
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
