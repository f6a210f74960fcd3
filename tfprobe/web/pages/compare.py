"""Two runs beside each other: what changed from this one to another, and whether that is chance."""

from __future__ import annotations

from collections.abc import Sequence

from tfprobe.analysis.breakdown.step_parts import LABELS, Part
from tfprobe.analysis.compare.comparison import Diff, LoopDiff, diff
from tfprobe.analysis.compare.measurements import LEAST_BLOCKS, Change
from tfprobe.analysis.compare.op_changes import CostChange, OpChanges
from tfprobe.analysis.compare.step_changes import MEASURES, MemoryChange
from tfprobe.errors import Missing, NoAnswer
from tfprobe.profile.profile import Run
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages.overview import command_line
from tfprobe.web.params import Params
from tfprobe.web.values import Document, known

# What changed most comes first; more nobody reads.
_MOST_LOOPS = 20
_MOST_COSTS = 200
_MOST_NAMES = 50
_TEXT_CHARACTERS = 500


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
    found = diff(profile, other)
    head = {"a": _run(profile.run), "b": _run(other.run), "can_open": can_open}
    if isinstance(found, Missing):
        return head | {"missing": found.reason[:_TEXT_CHARACTERS]}
    return head | _diff(found)


def _diff(found: Diff) -> Document:
    memory = found.memory
    return {
        "is_significant": bool(found.changed_steps),
        "differences": [
            {
                "of": difference.of,
                "a": str(difference.before)[:_TEXT_CHARACTERS],
                "b": str(difference.after)[:_TEXT_CHARACTERS],
            }
            for difference in found.differences[:_MOST_NAMES]
        ],
        "load": found.load or None,
        "judged": list(found.judged),
        "works": [_loop(loop) for loop in found.loops[:_MOST_LOOPS]],
        "works_in_all": len(found.loops),
        "only_a": [_named(f"{each.kind} {each.name}") for each in found.only_before[:_MOST_NAMES]],
        "only_b": [_named(f"{each.kind} {each.name}") for each in found.only_after[:_MOST_NAMES]],
        "memory": [] if isinstance(memory, Missing) else [_memory(each) for each in memory],
        "memory_missing": memory.reason if isinstance(memory, Missing) else None,
    }


def _run(run: Run) -> Document:
    return {
        "id": run.id,
        "state": run.state,
        "command": command_line(run),
        "started": known(run.started),
    }


def _loop(each: LoopDiff) -> Document:
    before, after = each.pair.before, each.pair.after
    return {
        "kind": before.kind,
        "name_a": _named(before.name),
        "name_b": _named(after.name),
        "rank": each.pair.rank,
        "count_a": before.count,
        "count_b": after.count,
        "measures": [
            {"measure": name, "label": MEASURES[name], **_change(change)}
            for name, change in each.steps.measures
        ],
        "cause": None if isinstance(each.cause, Missing) else each.cause.sentence,
        "parts": _costs(each.parts, is_part=True),
        "parts_missing": each.parts.reason if isinstance(each.parts, Missing) else None,
        **_ops(each.ops),
    }


def _ops(found: OpChanges | Missing) -> Document:
    if isinstance(found, Missing):
        return {"ops": None, "ops_missing": found.reason}
    return {
        "ops": {
            "steps_a": found.before_steps,
            "steps_b": found.after_steps,
            "a_ns": found.before_ns,
            "b_ns": found.after_ns,
            "is_enough": min(found.before_steps, found.after_steps) >= LEAST_BLOCKS,
            "types": _costs(found.types),
            "scopes": _costs(found.scopes),
            "only_a": [_named(each) for each in found.gone[:_MOST_NAMES]],
            "only_b": [_named(each) for each in found.new[:_MOST_NAMES]],
        },
        "ops_missing": None,
    }


def _costs(found: Sequence[CostChange] | Missing, *, is_part: bool = False) -> list[Document]:
    if isinstance(found, Missing):
        return []
    return [
        {
            "name": _named(each.name),
            "label": LABELS[Part(each.name)] if is_part else None,
            "a_ns": each.before_ns,
            "b_ns": each.after_ns,
            "delta_ns": each.delta_ns,
            **_change(each.change),
        }
        for each in found[:_MOST_COSTS]
    ]


def _change(found: Change | Missing) -> Document:
    if isinstance(found, Missing):
        return {"missing": found.reason}
    return {
        "before_ns": found.before,
        "after_ns": found.after,
        "change_ratio": found.ratio,
        "low_ratio": found.low_ratio,
        "high_ratio": found.high_ratio,
        "confidence_ratio": found.confidence,
        "is_significant": found.is_significant,
    }


def _memory(each: MemoryChange) -> Document:
    return {
        "of": _named(each.of),
        "a_bytes": each.before_bytes,
        "b_bytes": each.after_bytes,
        "change_ratio": each.ratio,
    }


def _named(text: str) -> str:
    return text[:_TEXT_CHARACTERS]
