"""Write breakdowns as parts of documents: shares as fractions, times in µs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tfprobe.analysis.breakdown.cycles import Breakdown, LoopParts, StepParts, bottleneck
from tfprobe.analysis.breakdown.gap_breakdown import GapCause
from tfprobe.analysis.breakdown.step_parts import GROUPS, Part
from tfprobe.errors import Missing
from tfprobe.profile.profile import Process

# Any: a JSON document, whose values are whatever the schema says.
Document = dict[str, Any]


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
        "cycle_us": item.cycle_ns / 1000,
        "shares": {part.value: share for part, share in item.shares.items()},
        "causes": _causes(item.causes),
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
        "cycle_us": step.cycle_ns / 1000,
        "step_us": step.step_ns / 1000,
        "between_us": None if isinstance(between, Missing) else between / 1000,
        "parts_us": {part.value: ns / 1000 for part, ns in step.parts.items()},
        "causes": _causes(step.causes),
    }


def _group(name: str, shares: Mapping[Part, float]) -> Document:
    return {part.value: shares[part] for part in GROUPS[name]}


def _causes(causes: Iterable[GapCause]) -> list[Document]:
    return [
        {
            "part": cause.part.value,
            "what": cause.what,
            "file": cause.file or None,
            "line": cause.line or None,
            "duration_us": cause.duration_ns / 1000,
        }
        for cause in causes
    ]
