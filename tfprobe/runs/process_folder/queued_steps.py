"""The times of steps that a call only queues, as in JAX: known up to a step that was waited for.

The agent marks such a step and lets it end where the wait ended; docs/run-directory.md has the
bytes. What it has folded into aggregates is spread over the steps of a run already.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tfprobe.profile.profile import RecentSteps, StepQueue
from tfprobe.profile.tables import Int64s
from tfprobe.runs.process_folder.steps_layout import (
    CALL_NS_WORD,
    QUEUES_WORD,
    WAIT_NS_WORD,
    WAITS_WORD,
    Flags,
    Words,
)

# With more of its steps unfinished, the program does not wait for the steps of this loop.
_MOST_UNFINISHED_RATIO = 0.5
# So few steps whose times are not known distort aggregates, which contain them, by less than that.
_MOST_UNDIVIDED_RATIO = 0.02
# The share of gaps that remains is a multiple of this power of 1/2: integers do not overflow.
_RATIO_BITS = 16


def finished(
    head: list[int], steps: RecentSteps, slot: Words
) -> tuple[StepQueue, RecentSteps, Words]:
    """Return the queue of such a loop, its finished steps with their times, and its aggregate.

    If nothing is known of the times, no step and an empty aggregate remain.
    """
    executed, undivided = head[1], min(max(head[QUEUES_WORD] - 1, 0), head[1])
    folded = min(max(int(slot[0]), 0), executed)
    is_undivided = undivided > _MOST_UNDIVIDED_RATIO * executed
    if not folded:
        steps = steps.since(undivided)
    last = np.flatnonzero(steps.waited)
    end = steps.first_step + int(last[-1]) + 1 if len(last) else 0
    unfinished = executed - max(end, folded if len(last) else 0)
    if (
        not len(last)
        or unfinished > _MOST_UNFINISHED_RATIO * executed
        or _only_traces_wait(steps)
        or (is_undivided and (folded or undivided == executed))
    ):
        unfinished, end, slot = executed, steps.first_step, np.zeros_like(slot)
    steps = steps.until(max(end, executed - unfinished))
    if steps.first_step != undivided:
        steps = _whole_runs(steps)
    spread, exposed = spread_out(steps, waits_for_latest=_waits_for_latest(steps, head))
    return (
        StepQueue(
            unfinished=unfinished,
            steps_per_wait=_steps_per_wait(steps),
            waits=max(head[WAITS_WORD], 0),
            wait_ns=max(head[WAIT_NS_WORD], 0),
            call_ns=max(head[CALL_NS_WORD], 0),
            exposed_ratio=exposed,
            undivided=undivided,
        ),
        spread,
        slot,
    )


def _apart_from_traces(steps: RecentSteps) -> Flags:
    """Mark the steps in which no traced step waits: such a one waits for its arguments, too."""
    before_traced = np.append(steps.sampled[1:], [False])[: len(steps.sampled)]
    apart: Flags = ~(steps.sampled | before_traced)
    return apart


def _only_traces_wait(steps: RecentSteps) -> bool:
    """Say whether nothing but traced steps waits for steps of this loop."""
    own = _apart_from_traces(steps)
    is_usual = 2 * int(own.sum()) > len(own)
    return is_usual and not (steps.waited & own).any()


def _steps_per_wait(steps: RecentSteps) -> float:
    """Return in how many steps the program waits once, leaving out the waits of traced steps."""
    own = _apart_from_traces(steps)
    if not (steps.waited & own).any():
        own = np.ones(len(own), dtype=np.bool_)
    waits = int((steps.waited & own).sum())
    return int(own.sum()) / waits if waits else 0.0


def _waits_for_latest(steps: RecentSteps, head: list[int]) -> bool:
    """Say whether the program must have waited for the latest step, however short steps are.

    It finds most values not there yet, on a device that keeps up with it, which has long run the
    steps before.
    """
    traced_ns = np.sort(np.maximum(steps.end_ns - steps.start_ns, 0)[steps.sampled])
    if not len(traced_ns):
        return False
    whole_ns = int(steps.start_ns[-1] - steps.start_ns[0])
    is_slower = 10 * whole_ns > 13 * int(traced_ns[len(traced_ns) // 2]) * (len(steps.waited) - 1)
    found = 2 * max(head[WAITS_WORD], 0) * len(steps.waited) >= head[1] * int(steps.waited.sum())
    return is_slower and found


def _whole_runs(steps: RecentSteps) -> RecentSteps:
    """Leave out the rest of a run whose first steps are forgotten."""
    if not steps.first_step or not len(steps.waited):
        return steps
    return steps.since(steps.first_step + int(steps.waited.argmax()) + 1)


def _lasting(steps: RecentSteps, last: Int64s) -> tuple[RecentSteps, int]:
    """Return steps of which those at the ends of runs last as long as a traced one, and that time.

    It is 0, and steps are as they were, unless most of these are much shorter.
    """
    step_ns = np.maximum(steps.end_ns - steps.start_ns, 0)
    traced_ns = np.sort(step_ns[steps.sampled])
    last_ns = np.sort(step_ns[last[~steps.sampled[last]]])
    if not len(traced_ns) or not len(last_ns):
        return steps, 0
    drained_ns = int(traced_ns[len(traced_ns) // 2])
    if 10 * last_ns[len(last_ns) // 2] >= 7 * drained_ns:
        return steps, 0
    extended = last[(last + 1 < len(step_ns)) & ~steps.sampled[last]]
    extended = extended[~steps.new_thread[extended + 1]]
    end_ns = steps.end_ns.copy()
    most_ns = np.minimum(steps.start_ns[extended] + drained_ns, steps.start_ns[extended + 1])
    end_ns[extended] = np.maximum(end_ns[extended], most_ns)
    return replace(steps, end_ns=end_ns), drained_ns


def spread_out(steps: RecentSteps, *, waits_for_latest: bool = False) -> tuple[RecentSteps, float]:
    """Return steps with the time of each run spread over its steps, and the share of gaps that is.

    A run ends with a step that was waited for, or before one on another thread. A step takes its
    call, and an equal part of the rest of the run's time: so a call that compiles stays what it is,
    and the sum is that of the run.

    The gaps in a run overlap with its steps, and cost the program only the time in which the device
    was idle. A device that keeps up with the program has one step left to run when the program
    waits: the call of the last step and the wait are about what it takes for each. One that does
    not keep up has many left, and was never idle. After a run, all of the gap remains. The share is
    1 if there is no gap.

    Waits may be for values of earlier steps, or for what was there already: if most are so much
    shorter than a traced step, which ran alone, a step lasts as long as that, or until the next;
    unless it `waits_for_latest`.
    """
    if not len(steps.waited):
        return steps, 1.0
    ends = steps.waited.copy()
    ends[-1] = True
    ends[:-1] |= steps.new_thread[1:]
    last = np.flatnonzero(ends)
    first = np.concatenate([[0], last[:-1] + 1])
    count = last - first + 1
    steps, drained_ns = (steps, 0) if waits_for_latest else _lasting(steps, last)
    whole_ns = np.maximum(steps.end_ns[last] - steps.start_ns[first], 0)
    last_ns = np.maximum(steps.end_ns[last] - steps.start_ns[last], 0)
    last_ns = np.where(steps.sampled[last], last_ns, np.maximum(last_ns, drained_ns))
    call_ns = np.where(ends, 0, np.maximum(steps.end_ns - steps.start_ns, 0))
    gap_ns = np.zeros(len(ends), dtype=np.int64)
    gap_ns[:-1] = np.where(ends[:-1], 0, np.maximum(steps.start_ns[1:] - steps.end_ns[:-1], 0))
    slow_ns = np.where(ends, 0, np.maximum(call_ns - np.repeat(last_ns, count), 0))
    gaps_ns = np.add.reduceat(gap_ns, first)
    idle_ns = np.maximum(whole_ns - count * last_ns - np.add.reduceat(slow_ns, first), 0)
    ratio = (np.minimum(idle_ns, gaps_ns) << _RATIO_BITS) // np.maximum(gaps_ns, 1)
    left_ns = gap_ns * np.repeat(ratio, count) >> _RATIO_BITS
    calls_ns, lefts_ns = np.add.reduceat(call_ns, first), np.add.reduceat(left_ns, first)
    rest_ns = np.maximum(whole_ns - calls_ns - lefts_ns, 0)
    step_ns: Int64s = call_ns + np.repeat(rest_ns // count, count)
    # What the division leaves belongs to the last step.
    step_ns[last] += rest_ns - rest_ns // count * count
    cycle_ns = step_ns + left_ns
    before_ns = np.cumsum(cycle_ns) - cycle_ns
    start_ns: Int64s = np.repeat(steps.start_ns[first] - before_ns[first], count) + before_ns
    # Gaps after a wait are exposed whole; the waits around a traced step are not the program's.
    free = ends[:-1] & ~steps.sampled[:-1] & ~steps.new_thread[1:] & ~steps.sampled[1:]
    free_ns = int(np.maximum(steps.start_ns[1:] - steps.end_ns[:-1], 0)[free].sum())
    whole_gaps_ns = int(gap_ns.sum()) + free_ns
    exposed = (int(left_ns.sum()) + free_ns) / whole_gaps_ns if whole_gaps_ns else 1.0
    return replace(steps, start_ns=start_ns, end_ns=start_ns + step_ns), exposed
