"""Gather what the cycles of all steps were spent on, from the breakdown of the sampled ones.

What lies inside steps is scaled to what all steps took, and what lies between them to what that
took: a step that is traced is longer than others, and so weighs too much in a sampled cycle.
"""

from __future__ import annotations

from collections.abc import Mapping

from tfprobe.advice.signals import Loop, Parts, Waste
from tfprobe.errors import Missing
from tfprobe.model.activities import Gap
from tfprobe.views.breakdown import between
from tfprobe.views.breakdown.between import Cause
from tfprobe.views.breakdown.parts import ON_DEVICE, Part
from tfprobe.views.breakdown.whole import StepParts, WorkParts

_Sums = dict[str, float]


def parts(item: WorkParts, gaps: Mapping[int, Gap], loop: Loop) -> Parts:
    """Return the parts of all cycles; `gaps` are those of the work by the step before.

    Where no time between steps was watched, the cycle is the step alone.
    """
    whole, behind = _summed(item, gaps)
    # What recording added goes with the recording: nobody wins it by changing the job.
    whole.pop(Part.RECORDING.value, None)
    inside = {name: ns - behind.get(name, 0.0) for name, ns in whole.items()}
    total = _scaled(inside, loop.regular_step_ns)
    for name, ns in _scaled(behind, loop.regular_gap_ns).items():
        total[name] = total.get(name, 0.0) + ns
    total_ns = sum(total.values())
    return Parts(
        shares={name: ns / total_ns for name, ns in total.items()} if total_ns else {},
        cycle_ns=item.cycle_ns,
        total_ns=min(total_ns, loop.thread_ns),
        causes=tuple(_waste(each) for each in item.causes),
    )


def _summed(item: WorkParts, gaps: Mapping[int, Gap]) -> tuple[_Sums, _Sums]:
    """Return the ns of each part in the sampled cycles, and how much of that lay between steps."""
    whole: _Sums = {}
    behind: _Sums = {}
    for step in item.steps:
        # What recording added goes with the recording: nobody wins it by changing the job.
        _add(whole, step.parts, 1.0)
        gap = gaps.get(step.capture.step)
        if gap is not None and not isinstance(step.between_ns, Missing):
            after = between.divide(gap, has_accelerator=_has_accelerator(step))
            _add(behind, after.parts, step.between_ns / (after.duration_ns or 1))
    return whole, {name: min(ns, whole.get(name, 0.0)) for name, ns in behind.items()}


def _has_accelerator(step: StepParts) -> bool:
    return bool(set(ON_DEVICE) & set(step.parts))


def _add(sums: _Sums, more: Mapping[Part, int], scale: float) -> None:
    for part, ns in more.items():
        sums[part.value] = sums.get(part.value, 0.0) + ns * scale


def _scaled(sums: _Sums, whole_ns: float) -> _Sums:
    total = sum(sums.values())
    return {name: ns / total * whole_ns for name, ns in sums.items()} if total > 0 else {}


def _waste(cause: Cause) -> Waste:
    source = f"{cause.file}:{cause.line}" if cause.file else ""
    return Waste(cause.part.value, cause.what, source, float(cause.duration_ns))
