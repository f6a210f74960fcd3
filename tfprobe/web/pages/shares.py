"""Where a step goes: the answer of the overview, which takes the captures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tfprobe.analysis.account import account, collectives
from tfprobe.analysis.account.categories import LABELS, WENT_TO, Category
from tfprobe.analysis.breakdown.cycles import (
    Breakdown,
    LoopParts,
    parts_by_loop,
    run_breakdown,
)
from tfprobe.analysis.ops.op_stats import op_table
from tfprobe.analysis.system import runtime
from tfprobe.errors import Missing
from tfprobe.profile.profile import Profile
from tfprobe.report.documents.account_document import account_document
from tfprobe.report.documents.document import Document
from tfprobe.report.documents.tiers import calls_document, framework_document
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages.parts import answer_document, groups_document, labelled_cause
from tfprobe.web.params import Params

TOP_OPS = 5
TOP_CALLS = 3
TOP_CAUSES = 5
TOP_ITEMS = 5
# A broken disk may have a problem for each file.
_MOST_PROBLEMS = 100
_TEXT_CHARACTERS = 500


def document(run: OpenRun, question: Params) -> Document:  # noqa: ARG001 - all have these
    """Return where the time went, what steps are spent on, the costliest ops, and problems."""
    return run.made("shares", lambda: _document(run))


def _document(run: OpenRun) -> Document:
    profile = run.profile
    problems = profile.problems
    cycles = run.made("cycles", lambda: parts_by_loop(profile))
    divided = run_breakdown(profile, cycles)
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
    document = account_document(account.merge_accounts(collectives.run_accounts(profile, cycles)))
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
    document = framework_document(op_table(run.profile))
    types = document.get("types", [])
    shown = [{**op_type, "type": op_type["type"][:_TEXT_CHARACTERS]} for op_type in types[:TOP_OPS]]
    return {**document, "types": shown, "types_in_all": len(types)}


def _runtime(run: OpenRun) -> Document:
    result = runtime.runtime(run.profile)
    if isinstance(result, Missing):
        return {"missing": result.reason}
    calls = [calls_document(calls) for calls in result.calls[:TOP_CALLS]]
    return {
        "steps": result.steps,
        "calls": [{**call, "name": call["name"][:_TEXT_CHARACTERS]} for call in calls],
        "calls_in_all": len(result.calls),
    }
