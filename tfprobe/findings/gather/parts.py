"""Gather what the cycles of all steps were spent on, from the breakdown of the sampled ones.

What lies inside steps is scaled to what all steps took, and what lies between them to what that
took: a step that is traced is longer than others, and so weighs too much in a sampled cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tfprobe.analysis.breakdown.cycles import WorkParts
from tfprobe.analysis.breakdown.gap_breakdown import Cause
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.analysis.core.source_lines import is_of_library
from tfprobe.errors import Missing
from tfprobe.findings.signals import Loop, Parts, Waste

_Sums = dict[str, float]


def parts(item: WorkParts, loop: Loop) -> Parts:
    """Return the parts of all cycles.

    Where no time between steps was watched, the cycle is the step alone.
    """
    inside = _summed(step.inside for step in item.steps)
    behind = _summed(gap.parts for gap in item.watched)
    # What recording added goes with the recording: nobody wins it by changing the job.
    inside.pop(Part.RECORDING.value, None)
    total = _scaled(inside, loop.regular_step_ns)
    # Ends of epochs and other long gaps have parts of their own: usual gaps tell nothing of them.
    between_ns = item.between_ns
    usual_ns = 0.0 if isinstance(between_ns, Missing) else between_ns * loop.steps
    for name, ns in _scaled(behind, min(loop.regular_gap_ns, usual_ns)).items():
        total[name] = total.get(name, 0.0) + ns
    total_ns = sum(total.values())
    return Parts(
        shares={name: ns / total_ns for name, ns in total.items()} if total_ns else {},
        cycle_ns=item.cycle_ns,
        total_ns=min(total_ns, loop.thread_ns),
        causes=tuple(_waste(each) for each in item.causes),
    )


def save_source(item: WorkParts) -> str:
    """Return the dearest line of the job that saves between its steps; "" where none was seen."""
    saves = [
        cause
        for cause in item.causes
        if cause.part is Part.CHECKPOINTS and cause.file and not is_of_library(cause.file)
    ]
    dearest = max(saves, key=lambda cause: cause.duration_ns, default=None)
    return "" if dearest is None else f"{dearest.file}:{dearest.line}"


def _summed(steps: Iterable[Mapping[Part, int]]) -> _Sums:
    total: _Sums = {}
    for each in steps:
        for part, ns in each.items():
            total[part.value] = total.get(part.value, 0.0) + ns
    return total


def _scaled(sums: _Sums, whole_ns: float) -> _Sums:
    total = sum(sums.values())
    return {name: ns / total * whole_ns for name, ns in sums.items()} if total > 0 else {}


def _waste(cause: Cause) -> Waste:
    source = f"{cause.file}:{cause.line}" if cause.file else ""
    return Waste(cause.part.value, cause.what, source, float(cause.duration_ns))
