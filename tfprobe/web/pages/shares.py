"""Where a step goes: the answer of the overview, which takes the captures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tfprobe.analysis.account import account, collectives
from tfprobe.analysis.account.categories import LABELS, WENT_TO, Category
from tfprobe.analysis.breakdown.cycles import (
    Breakdown,
    LoopParts,
    mean_cycle,
    merge_cycles,
    parts_by_loop,
)
from tfprobe.analysis.ops.op_stats import op_table
from tfprobe.analysis.system import runtime
from tfprobe.errors import Missing
from tfprobe.profile.profile import Profile
from tfprobe.report.documents import account_document
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages.parts import answer_document, groups_document, labelled_cause
from tfprobe.web.params import Params
from tfprobe.web.values import Document

TOP_OPS = 5
TOP_CALLS = 3
TOP_CAUSES = 5
TOP_ITEMS = 5
# A broken disk may have a problem for each file.
_MOST_PROBLEMS = 100
_TEXT_CHARACTERS = 500


def document(run: OpenRun, question: Params) -> Document:  # noqa: ARG001 - all have these
    """Return where the time went, what steps are spent on, the dearest ops, and problems."""
    return run.made("shares", lambda: _document(run))


def _document(run: OpenRun) -> Document:
    profile = run.profile
    problems = profile.problems
    cycles = run.made("cycles", lambda: parts_by_loop(profile))
    divided = merge_cycles(map(mean_cycle, cycles), len(profile.captures))
    return {
        "account": _account(profile, cycles),
        "captures": len(profile.captures),
        "executions": len(profile.executions),
        "breakdown": _breakdown(divided) | _unread(profile),
        "framework": _ops(run),
        "runtime": _runtime(run),
        "problems": [
            {"where": problem.where[:_TEXT_CHARACTERS], "what": problem.what[:_TEXT_CHARACTERS]}
            for problem in problems[:_MOST_PROBLEMS]
        ],
        "problems_in_all": len(problems),
    }


def _account(profile: Profile, cycles: Sequence[LoopParts]) -> Document:
    document = account_document.document(
        account.merge_accounts(collectives.run_accounts(profile, cycles))
    )
    if document["parts"] is None:
        return document
    return {
        **document,
        "productive": Category.PRODUCTIVE.value,
        "parts": [_part(part) for part in document["parts"] if part["ns"]],
        "strip": None if document["strip"] is None else _strip(document["strip"]["slices"]),
    }


def _part(part: Document) -> Document:
    category = Category(part["part"])
    return {
        **part,
        "label": LABELS[category],
        "went_to": WENT_TO.get(category, ""),
        "of": [
            {
                **item,
                "what": item["what"][:_TEXT_CHARACTERS],
                "source": item["source"][:_TEXT_CHARACTERS],
                "part_ratio": item["ns"] / part["ns"],
            }
            for item in part["of"][:TOP_ITEMS]
        ],
    }


def _strip(slices: Sequence[str]) -> Document:
    """Return the slices as runs of one part each."""
    runs = [{"part": part, "slices": len(list(run))} for part, run in groupby(slices)]
    return {"slices": len(slices), "runs": runs}


def _unread(profile: Profile) -> Document:
    """Say so where steps were traced and none of them can be read."""
    sampled = sum(loop.sampled for loop in profile.loops)
    if profile.captures or not sampled:
        return {}
    return {"missing": f"of {sampled:,} traced steps none can be read; see the problems below"}


def _breakdown(found: Breakdown | Missing) -> Document:
    if isinstance(found, Missing):
        return {"missing": found.reason}
    shares = dict(found.shares)
    # Of one kind of step the time a step is known; of several only that of all together.
    one = found.loops[0] if len(found.loops) == 1 else None
    return {
        "captures": found.captures,
        "works": len(found.loops),
        "has_accelerator": found.has_accelerator,
        "cycle_ns": None if one is None else one.cycle_ns,
        "total_ns": found.total_ns,
        "answer": answer_document(shares),
        "groups": groups_document(shares, found.total_ns),
        "causes": [
            labelled_cause(cause) | {"share_ratio": share}
            for cause, share in found.causes[:TOP_CAUSES]
        ],
    }


def _ops(run: OpenRun) -> Document:
    table = op_table(run.profile)
    if isinstance(table, Missing):
        return {"missing": table.reason}
    whole_ns = table.time_ns or 1
    return {
        "steps": table.captures,
        "types": [
            {
                "type": each.type[:_TEXT_CHARACTERS],
                "count": each.runs,
                "total_ns": each.time_ns,
                "accelerator_ns": each.accelerator_ns,
                "cpu_ns": each.cpu_ns,
                "share_ratio": each.time_ns / whole_ns,
            }
            for each in table.types[:TOP_OPS]
        ],
        "types_in_all": len(table.types),
    }


def _runtime(run: OpenRun) -> Document:
    found = runtime.runtime(run.profile)
    if isinstance(found, Missing):
        return {"missing": found.reason}
    return {
        "steps": found.steps,
        "calls": [
            {
                "name": call.name[:_TEXT_CHARACTERS],
                "count": call.count,
                "total_ns": call.total_ns,
                "mean_ns": call.mean_ns,
            }
            for call in found.calls[:TOP_CALLS]
        ],
        "calls_in_all": len(found.calls),
    }
