"""Data moved per step: over the bus, in collectives, between tasks; and what waits for that."""

from __future__ import annotations

from tfprobe.analysis.breakdown.cycles import parts_by_loop
from tfprobe.analysis.breakdown.python_lines import tensor_reads
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.analysis.core.source_lines import BYS
from tfprobe.analysis.distributed import transfer_report
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop
from tfprobe.report.documents.document import Document
from tfprobe.report.documents.transfers_document import transfers_document
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages.loop_choice import alike, chosen_document
from tfprobe.web.params import Params

MOST_CAUSES = 1_000
MOST_COLLECTIVES = 500
MOST_RANKS = 1_000
MOST_SENDS = 500


def document(run: OpenRun, question: Params) -> Document:
    """Return what the loop of `work=` moves, in all of its processes: the document of `tfprobe
    transfers`, cut to what a page has room for; copies count by `by=`.
    """
    by = next(grouping for grouping in BYS if grouping == question.one_of("by", BYS, default="op"))
    loop = run.loop(question)
    found = alike(run, loop)
    head = {**chosen_document(run, loop), "by": by, "bys": list(BYS)}
    waits = {"syncs": run.made(("syncs", loop.process, loop.index), lambda: _syncs(run, loop))}
    if isinstance(found, Missing):
        parts = ("transfers", "collectives", "sends")
        return {
            **head,
            "sampled_steps": 0,
            "processes": 0,
            **dict.fromkeys(parts),
            **waits,
            "missing": dict.fromkeys(parts, found.reason),
        }
    moves = run.made(
        ("moves", loop.kind, loop.name, by),
        lambda: transfer_report.report_transfers(found.profile, found.sampled, found.origins, by),
    )
    return {**head, **_cut(transfers_document(moves)), **waits}


def _cut(whole: Document) -> Document:
    """Return the document without its smallest rows, each list with the number left out.

    The loop is that of the page, with its process.
    """
    cut = {name: part for name, part in whole.items() if name != "work"}
    if cut["transfers"] is not None:
        cut["transfers"] = _with_most(cut["transfers"], "causes", MOST_CAUSES)
    if cut["collectives"] is not None:
        first = _with_most(cut["collectives"], "ops", MOST_COLLECTIVES)
        cut["collectives"] = _with_most(first, "ranks", MOST_RANKS)
    return _with_most(cut, "sends", MOST_SENDS)


def _with_most(part: Document, name: str, most: int) -> Document:
    rows = part[name] or []
    kept = None if part[name] is None else rows[:most]
    return {**part, name: kept, f"more_{name}": max(len(rows) - most, 0)}


def _syncs(run: OpenRun, loop: Loop) -> Document:
    """Return how long steps wait for devices, and where Python asks for values between them."""
    cycles = run.made("cycles", lambda: parts_by_loop(run.profile))
    parts = next((cycle for cycle in cycles if cycle.loop == loop), None)
    reads = tensor_reads(run.profile, loop)
    return {
        "cycle_ns": None if parts is None else parts.cycle_ns,
        "sync_wait_ratio": None if parts is None else parts.shares.get(Part.SYNC_WAIT, 0.0),
        "collectives_ratio": None if parts is None else parts.shares.get(Part.COLLECTIVES, 0.0),
        "gaps": None if isinstance(reads, Missing) else reads.gaps,
        "gaps_ratio": None if isinstance(reads, Missing) else reads.ratio,
        "calls_per_gap": None if isinstance(reads, Missing) else reads.calls,
        "ns_per_gap": None if isinstance(reads, Missing) else reads.ns,
        "function": None if isinstance(reads, Missing) else reads.function or None,
        "source": None if isinstance(reads, Missing) else reads.source or None,
        "missing": {
            **({} if parts is not None else {"parts": "no step of this loop was traced"}),
            **({"python": reads.reason} if isinstance(reads, Missing) else {}),
        },
    }
