"""What traced steps of a loop were spent on, one by one, and the mean of them."""

from __future__ import annotations

from tfprobe.analysis.breakdown.cycles import DOES, LoopParts, StepParts, bottleneck, parts_by_loop
from tfprobe.analysis.breakdown.gap_breakdown import GapCause
from tfprobe.analysis.breakdown.step_parts import GROUPS, LABELS, Part
from tfprobe.errors import NoAnswer
from tfprobe.report.documents.breakdown_document import cause_document, step_document
from tfprobe.report.documents.document import Document, known
from tfprobe.web.opened import OpenRun
from tfprobe.web.params import Params

# More traced steps than a page lists; any other is answered by its number.
MOST_STEPS = 300
_STEP_CAUSES = 3
_LOOP_CAUSES = 10
_NAME_CHARACTERS = 300


def document(run: OpenRun, question: Params) -> Document:
    """Return the traced steps of the loop `work=`, or the one that `step=` names.

    Raises NoAnswer where that step was not recorded.
    """
    if not run.profile.loops:
        return {"work": None, "missing": "no step has been recorded", "steps": []}
    loop = run.loop(question)
    place = run.place(loop)
    cycles = run.made("cycles", lambda: parts_by_loop(run.profile))
    cycle_of_loop = next((cycle for cycle in cycles if cycle.loop is loop), None)
    if cycle_of_loop is None:
        return {"work": place, "missing": "no step of this loop was traced", "steps": []}
    wanted = question.whole("step", default=-1, least=0)
    if wanted >= 0:
        return {"work": place, "step": _wanted(cycle_of_loop, wanted)}
    return {
        "work": place,
        "labels": {part.value: label for part, label in LABELS.items()},
        "mean": _mean(cycle_of_loop),
        "recorded": len(cycle_of_loop.steps),
        "steps": [_step(step) for step in cycle_of_loop.steps[:MOST_STEPS]],
    }


def groups_document(shares: dict[Part, float], whole_ns: float) -> list[Document]:
    """Return before, on, after and other, with their parts, each part of a whole time."""
    return [
        {
            "group": name,
            "share_ratio": sum(shares.get(part, 0.0) for part in parts),
            "time_ns": sum(shares.get(part, 0.0) for part in parts) * whole_ns,
            "parts": [
                {
                    "part": part.value,
                    "label": LABELS[part],
                    "share_ratio": shares[part],
                    "time_ns": shares[part] * whole_ns,
                }
                for part in sorted(parts, key=lambda each: -shares.get(each, 0.0))
                if shares.get(part, 0.0) > 0
            ],
        }
        for name, parts in GROUPS.items()
    ]


def answer_document(shares: dict[Part, float]) -> list[Document]:
    """Return what most of the time is spent on, in words, largest first."""
    return [
        {"bound": bound.value, "does": DOES[bound], "share_ratio": share}
        for bound, share in bottleneck(shares).shares
    ]


def labelled_cause(cause: GapCause) -> Document:
    """Return the document of a cause with the label of its part, and short names."""
    return {
        **cause_document(cause),
        "label": LABELS[cause.part],
        "what": cause.what[:_NAME_CHARACTERS],
        "file": cause.file[:_NAME_CHARACTERS] or None,
    }


def _mean(found: LoopParts) -> Document:
    shares = dict(found.shares)
    return {
        "cycle_ns": found.cycle_ns,
        "step_ns": found.step_ns,
        "between_ns": known(found.between_ns),
        "answer": answer_document(shares),
        "groups": groups_document(shares, found.cycle_ns),
        "causes": [labelled_cause(cause) for cause in found.causes[:_LOOP_CAUSES]],
    }


def _step(found: StepParts) -> Document:
    causes = sorted(found.causes, key=lambda cause: -cause.duration_ns)
    return {
        **step_document(found),
        "capture": found.capture.index,
        "parts_ns": {part.value: ns for part, ns in found.parts.items() if ns},
        "causes": [labelled_cause(cause) for cause in causes[:_STEP_CAUSES]],
    }


def _wanted(found: LoopParts, number: int) -> Document:
    step = next(
        (step_parts for step_parts in found.steps if step_parts.capture.step == number), None
    )
    if step is None:
        raise NoAnswer(f"Step {number:,} was not recorded: what it was spent on is not known.")
    return _step(step)
