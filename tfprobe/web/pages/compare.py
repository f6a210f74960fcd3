"""Two runs compared: what changed from this one to another, and whether that is chance."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tfprobe.analysis.breakdown.step_parts import LABELS, Part
from tfprobe.analysis.compare.comparison import Diff, LoopDiff, diff
from tfprobe.analysis.compare.measurements import LEAST_BLOCKS
from tfprobe.analysis.compare.op_changes import CostChange, OpChanges
from tfprobe.analysis.compare.step_changes import MEASURES
from tfprobe.errors import Missing, NoAnswer
from tfprobe.profile.profile import Run
from tfprobe.report.documents import comparison_document
from tfprobe.report.documents.document import Document, known
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages.overview import command_line
from tfprobe.web.params import Params
from tfprobe.web.values import shortened

# What changed most comes first; the rest is counted.
_MOST_LOOPS = 20
_MOST_COSTS = 200
_MOST_NAMES = 50


def document(run: OpenRun, question: Params) -> Document:
    """Return what changed from this run (A) to the run `with=` (B); without it which this is.

    Raises NoAnswer where no other run can be opened.
    """
    profile = run.profile
    other_id = question.text("with")
    can_open = run.sibling is not None
    if not other_id:
        return {"a": _run(profile.run), "b": None, "can_open": can_open}
    if run.sibling is None:
        raise NoAnswer("This file holds one run alone: compare runs with `tfprobe ui`.")
    other = run.sibling(other_id).profile
    comparison = diff(profile, other)
    head = {"a": _run(profile.run), "b": _run(other.run), "can_open": can_open}
    if isinstance(comparison, Missing):
        return head | {"missing": shortened(comparison.reason)}
    return _diff(comparison) | head


def _diff(found: Diff) -> Document:
    """Return the document of what changed, cut to what a page has room for."""
    document = comparison_document.comparison_document(found, ())
    shown = {name: part for name, part in document.items() if name not in ("schema", "gate")}
    works = document["works"]
    return {
        **shown,
        "differences": [
            {name: shortened(str(value)) for name, value in difference.items()}
            for difference in document["differences"][:_MOST_NAMES]
        ],
        "works": [_loop(*pair) for pair in zip(works[:_MOST_LOOPS], found.loops, strict=False)],
        "works_in_all": len(works),
        "only_a": shortened(document["only_a"][:_MOST_NAMES]),
        "only_b": shortened(document["only_b"][:_MOST_NAMES]),
    }


def _run(run: Run) -> Document:
    return {
        "id": run.id,
        "state": run.state,
        "command": command_line(run),
        "started": known(run.started),
    }


def _loop(document: Document, loop: LoopDiff) -> Document:
    measures = [
        {"measure": name, "label": MEASURES[name], **document[name]}
        for name, _ in loop.steps.measures
    ]
    cause = loop.cause
    parts, ops = document["breakdown"], document["ops"]
    return {
        **{name: part for name, part in document.items() if name not in MEASURES},
        "name": shortened(document["name"]),
        "name_b": shortened(document["name_b"]),
        "measures": measures,
        "cause": None if isinstance(cause, Missing) else cause.sentence,
        "breakdown": parts
        if isinstance(loop.parts, Missing)
        else [
            {**_cost(part, change), "label": LABELS[Part(part["name"])]}
            for part, change in zip(parts, loop.parts, strict=True)
        ],
        "ops": ops if isinstance(loop.ops, Missing) else _ops(ops, loop.ops),
    }


def _ops(document: Document, ops: OpChanges) -> Document:
    return {
        **document,
        "is_enough": min(ops.before_steps, ops.after_steps) >= LEAST_BLOCKS,
        "types": _costs(document["types"], ops.types),
        "scopes": _costs(document["scopes"], ops.scopes),
        "gone": shortened(document["gone"][:_MOST_NAMES]),
        "new": shortened(document["new"][:_MOST_NAMES]),
    }


def _costs(documents: Sequence[Document], changes: Sequence[CostChange]) -> list[Document]:
    pairs = zip(documents, changes, strict=True)
    return [_cost(*pair) for pair in itertools.islice(pairs, _MOST_COSTS)]


def _cost(document: Document, change: CostChange) -> Document:
    """Return a cost as a row of a table: the change of its median, and its means."""
    median = document["median"]
    means = {name: part for name, part in document.items() if name != "median"}
    return {**median, **means, "name": shortened(change.name), "delta_ns": change.delta_ns}
