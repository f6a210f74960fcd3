"""Compare the exclusive parts of a step's cycle in two recordings; see analysis/breakdown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfprobe.analysis.breakdown.cycles import StepParts, WorkParts
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.analysis.compare.matching_loops import Pair
from tfprobe.analysis.compare.measurements import compare, sample
from tfprobe.analysis.compare.op_changes import LEAST_SHARE_RATIO, CostChange, too_few
from tfprobe.errors import Missing
from tfprobe.profile.profile import Work


def part_changes(
    before: Sequence[WorkParts], after: Sequence[WorkParts], pair: Pair
) -> tuple[CostChange, ...] | Missing:
    """Return how the parts of a pair's recorded cycles changed, the largest first."""
    one, other = traced_cycles(before, pair.before), traced_cycles(after, pair.after)
    if not one or not other:
        return Missing("no step was sampled in both")
    if _is_watched(one) != _is_watched(other):
        return Missing("the time between steps was watched in one of them alone")
    wholes_ns = (_cycle_ns(one), _cycle_ns(other))
    parts = [
        part
        for part in Part
        if _mean_ns(one, part) >= LEAST_SHARE_RATIO * wholes_ns[0]
        or _mean_ns(other, part) >= LEAST_SHARE_RATIO * wholes_ns[1]
    ]
    found = [_change(one, other, part, asked=len(parts)) for part in parts]
    return tuple(sorted(found, key=lambda each: (not each.is_significant, -abs(each.delta_ns))))


def traced_cycles(all_parts: Sequence[WorkParts], work: Work) -> list[StepParts]:
    """Return the recorded cycles of a work without its first step, in order."""
    mine = [each for each in all_parts if each.work is work]
    steps = sorted((step for each in mine for step in each.steps), key=_number)
    return [step for step in steps if _number(step) > 0] or steps


def _number(step: StepParts) -> int:
    return step.capture.step


def _is_watched(steps: Sequence[StepParts]) -> bool:
    return any(not isinstance(step.between_ns, Missing) for step in steps)


def _cycle_ns(steps: Sequence[StepParts]) -> float:
    return sum(step.cycle_ns for step in steps) / len(steps)


def _mean_ns(steps: Sequence[StepParts], part: Part) -> float:
    return sum(step.parts.get(part, 0) for step in steps) / len(steps)


def _change(
    before: Sequence[StepParts], after: Sequence[StepParts], part: Part, *, asked: int
) -> CostChange:
    one, other = (
        np.array([step.parts.get(part, 0) for step in steps], dtype=np.int64)
        for steps in (before, after)
    )
    change = too_few(len(one), len(other)) or compare(
        sample(one, each_block=1), sample(other, each_block=1), asked=asked
    )
    return CostChange(part.value, float(one.mean()), float(other.mean()), change)
