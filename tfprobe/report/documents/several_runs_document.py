"""Write what changed between two sides of several runs: times in µs, ratios of 1."""

from __future__ import annotations

from collections.abc import Sequence

from tfprobe.analysis.compare.gate import Verdict
from tfprobe.analysis.compare.several_runs import RunsChange
from tfprobe.analysis.compare.sides import Costs, Sides, SidesWork
from tfprobe.errors import Missing
from tfprobe.report.documents.run_report import Document, run_document

SCHEMA = "tfprobe.diff-runs/1"


def document(found: Sides, verdicts: Sequence[tuple[str, Verdict]]) -> Document:
    """Return the document; `verdicts` are those of the gate, each with what it watches."""
    return {
        "schema": SCHEMA,
        "a": [run_document(run) for run in found.before],
        "b": [run_document(run) for run in found.after],
        "verdict": found.answer.value,
        "differences": [
            {"of": each.of, "a": each.before, "b": each.after} for each in found.differences
        ],
        "load": found.load or None,
        "in_turns": found.is_in_turns,
        "works": [_work(work) for work in found.works],
        "gate": [
            {"on": on, "fails": verdict.fails, "verdict": verdict.word, "why": verdict.why}
            for on, verdict in verdicts
        ],
    }


def _work(work: SidesWork) -> Document:
    return {
        "kind": work.work.kind,
        "name": work.work.name,
        "rank": work.rank,
        "verdict": work.answer.value if work.judged else None,
        "judged": list(work.judged),
        "measures": {name: _change(change) for name, change in work.measures},
        "breakdown": _costs(work.parts),
        "ops": _costs(work.ops),
    }


def _change(found: RunsChange | Missing) -> Document:
    if isinstance(found, Missing):
        return {"missing": found.reason}
    return {
        "a_us": found.before / 1000,
        "b_us": found.after / 1000,
        "runs_a_us": [level / 1000 for level in found.before_runs],
        "runs_b_us": [level / 1000 for level in found.after_runs],
        "change": found.ratio,
        "low": found.low_ratio,
        "high": found.high_ratio,
        "least_change": found.least_ratio,
        "confidence": found.confidence,
        "degrees_of_freedom": found.degrees,
        "significant": found.is_significant,
    }


def _costs(found: Costs) -> list[Document]:
    return [{"name": name, **_change(change)} for name, change in found.changes]
