"""Write what changed as a document, tfprobe.diff/1 when published: times in ns, ratios of 1."""

from __future__ import annotations

from collections.abc import Sequence

from tfprobe.analysis.compare.change_cause import ChangeCause, Processor
from tfprobe.analysis.compare.comparison import Diff, LoopDiff
from tfprobe.analysis.compare.gate import GateVerdict
from tfprobe.analysis.compare.measurements import Change
from tfprobe.analysis.compare.op_changes import CostChange, OpChanges
from tfprobe.analysis.compare.several_runs import RunsChange
from tfprobe.analysis.compare.sides import LoopSides, SideCosts, Sides
from tfprobe.analysis.compare.step_changes import MemoryChange
from tfprobe.errors import Missing
from tfprobe.report.documents.document import Document, known
from tfprobe.report.documents.run_report import run_document

SCHEMA = "tfprobe.diff/1"


def comparison_document(found: Diff, verdicts: Sequence[tuple[str, GateVerdict]]) -> Document:
    """Return the document; `verdicts` are those of the gate, each with what it watches."""
    return {
        "schema": SCHEMA,
        "a": run_document(found.before),
        "b": run_document(found.after),
        "is_significant": bool(found.changed_steps),
        "cause": None if found.cause_kind is None else found.cause_kind.value,
        "differences": [
            {"of": difference.of, "a": difference.before, "b": difference.after}
            for difference in found.differences
        ],
        "load": found.load or None,
        "judged": list(found.judged),
        "works": [_loop(each) for each in found.loops],
        "only_a": [{"kind": loop.kind, "name": loop.name} for loop in found.only_before],
        "only_b": [{"kind": loop.kind, "name": loop.name} for loop in found.only_after],
        "memory": _memory(found.memory),
        "gate": [
            {"on": on, "fails": each.fails, "verdict": each.word, "why": each.why}
            for on, each in verdicts
        ],
    }


def _loop(each: LoopDiff) -> Document:
    before, after = each.pair.before, each.pair.after
    return {
        "kind": before.kind,
        "name": before.name,
        "name_b": after.name,
        "rank": each.pair.rank,
        "count_a": before.count,
        "count_b": after.count,
        **{name: _change(change) for name, change in each.steps.measures},
        "cause": _cause(each.cause),
        "processor_a": _processor(each.before),
        "processor_b": _processor(each.after),
        "ops": _ops(each.ops),
        "breakdown": _costs(each.parts),
    }


def _change(found: Change | Missing) -> Document:
    if isinstance(found, Missing):
        return {"missing": found.reason}
    return {
        "a_ns": found.before,
        "b_ns": found.after,
        "change_ratio": found.ratio,
        "low_ratio": found.low_ratio,
        "high_ratio": found.high_ratio,
        "confidence": found.confidence,
        "is_significant": found.is_significant,
    }


def _cause(found: ChangeCause | Missing) -> Document:
    if isinstance(found, Missing):
        return {"missing": found.reason}
    return {"whose": found.kind.value, "why": found.why}


def _processor(found: Processor | Missing) -> Document:
    """Return what the processor did for a step, in ns; null where the system does not tell."""
    if isinstance(found, Missing):
        return {"missing": found.reason}
    return {
        "wall_ns": found.wall_ns,
        "cpu_ns": known(found.cpu_ns),
        "waited_ns": known(found.waited_ns),
        "others_cpus": known(found.others_cpus),
    }


def _ops(found: OpChanges | Missing) -> Document:
    if isinstance(found, Missing):
        return {"missing": found.reason}
    return {
        "sampled_steps_a": found.before_steps,
        "sampled_steps_b": found.after_steps,
        "a_ns": found.before_ns,
        "b_ns": found.after_ns,
        "types": _costs(found.types),
        "scopes": _costs(found.scopes),
        "new": list(found.new),
        "gone": list(found.gone),
    }


def _costs(found: Sequence[CostChange] | Missing) -> list[Document] | Document:
    if isinstance(found, Missing):
        return {"missing": found.reason}
    return [
        {
            "name": each.name,
            "mean_a_ns": each.before_ns,
            "mean_b_ns": each.after_ns,
            "median": _change(each.change),
        }
        for each in found
    ]


def _memory(found: Sequence[MemoryChange] | Missing) -> list[Document] | Document:
    if isinstance(found, Missing):
        return {"missing": found.reason}
    return [
        {
            "of": change.of,
            "a_bytes": change.before_bytes,
            "b_bytes": change.after_bytes,
            "change_ratio": change.ratio,
        }
        for change in found
    ]


SEVERAL_RUNS_SCHEMA = "tfprobe.diff-runs/1"


def several_runs_document(found: Sides, verdicts: Sequence[tuple[str, GateVerdict]]) -> Document:
    """Return the document; `verdicts` are those of the gate, each with what it watches."""
    return {
        "schema": SEVERAL_RUNS_SCHEMA,
        "a": [run_document(run) for run in found.before],
        "b": [run_document(run) for run in found.after],
        "verdict": found.answer.value,
        "differences": [
            {"of": difference.of, "a": difference.before, "b": difference.after}
            for difference in found.differences
        ],
        "load": found.load or None,
        "in_turns": found.is_in_turns,
        "works": [_several_runs_document_loop(loop) for loop in found.loops],
        "gate": [
            {"on": on, "fails": verdict.fails, "verdict": verdict.word, "why": verdict.why}
            for on, verdict in verdicts
        ],
    }


def _several_runs_document_loop(loop: LoopSides) -> Document:
    return {
        "kind": loop.loop.kind,
        "name": loop.loop.name,
        "rank": loop.rank,
        "verdict": loop.answer.value if loop.judged else None,
        "judged": list(loop.judged),
        "measures": {name: _several_runs_document_change(change) for name, change in loop.measures},
        "breakdown": _several_runs_document_costs(loop.parts),
        "ops": _several_runs_document_costs(loop.ops),
    }


def _several_runs_document_change(found: RunsChange | Missing) -> Document:
    if isinstance(found, Missing):
        return {"missing": found.reason}
    return {
        "a_ns": found.before,
        "b_ns": found.after,
        "runs_a_ns": list(found.before_runs),
        "runs_b_ns": list(found.after_runs),
        "change_ratio": found.ratio,
        "low_ratio": found.low_ratio,
        "high_ratio": found.high_ratio,
        "least_ratio": found.least_ratio,
        "confidence": found.confidence,
        "degrees_of_freedom": found.degrees,
        "is_significant": found.is_significant,
    }


def _several_runs_document_costs(found: SideCosts) -> list[Document]:
    return [
        {"name": name, **_several_runs_document_change(change)} for name, change in found.changes
    ]
