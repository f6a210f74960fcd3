"""Write breakdowns as parts of documents: shares as fractions, times in ns."""

from __future__ import annotations

from collections.abc import Mapping

from tfprobe.analysis.breakdown.cycles import Breakdown, LoopParts, StepParts, bottleneck
from tfprobe.analysis.breakdown.gap_breakdown import GapCause
from tfprobe.analysis.breakdown.step_parts import GROUPS, Part
from tfprobe.errors import Missing
from tfprobe.profile.profile import Process
from tfprobe.report.documents.document import Document


def shares_document(item: Breakdown | Missing) -> Document:
    """Return the breakdown of a run: before, on, after and `other` sum to 1."""
    if isinstance(item, Missing):
        return {"missing": item.reason}
    return {
        "unit": "fraction",
        "before": _group("before", item.shares),
        "on": _group("on", item.shares),
        "after": _group("after", item.shares),
        "other": item.group("other"),
        "other_of_which": _group("other", item.shares),
        "bound_by": {bound.value: share for bound, share in bottleneck(item.shares).shares},
    }


def loop_document(item: LoopParts, processes: tuple[Process, ...], *, steps: bool) -> Document:
    """Return the mean cycle of a loop; with `steps` also each recorded one."""
    process = processes[item.steps[0].capture.process]
    loop = item.loop
    missing = {"missing": loop.reason} if isinstance(loop, Missing) else {}
    kind, name = (None, None) if isinstance(loop, Missing) else (loop.kind, loop.name)
    head: Document = {
        "host": process.host,
        "pid": process.pid or None,
        "rank": process.rank,
        "kind": kind,
        "name": name,
        **missing,
        "steps": len(item.steps),
        "cycle_ns": item.cycle_ns,
        "shares": {part.value: share for part, share in item.shares.items()},
        "causes": [cause_document(cause) for cause in item.causes],
    }
    if steps:
        head["recorded"] = [step_document(step) for step in item.steps]
    return head


def step_document(step: StepParts) -> Document:
    """Return one traced step; its parts sum to its cycle."""
    between = step.between_ns
    return {
        "step": step.capture.step,
        "capture": step.capture.file,
        "cycle_ns": step.cycle_ns,
        "step_ns": step.step_ns,
        "between_ns": None if isinstance(between, Missing) else between,
        "parts_ns": {part.value: ns for part, ns in step.parts.items()},
        "causes": [cause_document(cause) for cause in step.causes],
    }


def _group(name: str, shares: Mapping[Part, float]) -> Document:
    return {part.value: shares[part] for part in GROUPS[name]}


def cause_document(cause: GapCause) -> Document:
    """Return what idle time, waiting or the time between steps went to."""
    return {
        "part": cause.part.value,
        "what": cause.what,
        "file": cause.file or None,
        "line": cause.line or None,
        "duration_ns": cause.duration_ns,
    }
