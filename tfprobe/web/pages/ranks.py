"""What the ranks of a run did to each other: who is late, who waits for whom, whose clocks differ.

What is here is what `tfprobe ranks` tells, with more of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfprobe.analysis.distributed.rank_comparison import RankComparison, RankRow, StepFigures
from tfprobe.analysis.distributed.rank_waits import ServerLoad, Servers, Waits
from tfprobe.analysis.distributed.slow_ranks import Straggler
from tfprobe.errors import Missing
from tfprobe.profile.profile import Process
from tfprobe.report.documents.document import Document, known, with_reasons
from tfprobe.report.documents.rank_report import straggler_document
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages.loop_choice import process_document
from tfprobe.web.pages.timeline.ranks import process_title
from tfprobe.web.params import Params
from tfprobe.web.together import across_of

MOST_RANKS = 1_000
# More rows cannot be told apart in the map.
MOST_IN_MAP = 48
MOST_STRAGGLERS = 8
_MOST_SERVERS = 64
_MOST_FACTS = 20


def document(run: OpenRun, question: Params) -> Document:  # noqa: ARG001 - all have these
    """Return the ranks, the waits, the clocks, and what is odd about the processes."""
    return run.made("ranks page", lambda: _document(across_of(run)))


def _document(found: RankComparison) -> Document:
    # In the order of their numbers; what has none is behind.
    rows = sorted(found.rows, key=lambda row: _order(row.process))
    return {
        "processes": len(rows),
        "work": known(found.loop),
        "facts": list(found.facts[:_MOST_FACTS]),
        "facts_left_out": max(len(found.facts) - _MOST_FACTS, 0),
        "machines": found.clocks.machines,
        "clock_error_ns": known(found.clocks.error_ns),
        "ranks": [_rank(found, row) for row in rows[:MOST_RANKS]],
        "ranks_left_out": max(len(rows) - MOST_RANKS, 0),
        "stragglers": [
            _straggler(found, straggler) for straggler in found.stragglers[:MOST_STRAGGLERS]
        ],
        "stragglers_in_all": len(found.stragglers),
        "steps": _figures(found.figures),
        "waits": _waits(found, found.waits),
        "servers": _servers(found, found.servers),
    }


def _rank(found: RankComparison, row: RankRow) -> Document:
    late, turn, overlap = row.late, row.turn, row.overlap
    is_met = not isinstance(turn, Missing)
    facts: dict[str, Any] = {
        "excess_ratio": late if isinstance(late, Missing) else late.late.excess_ratio,
        "z": late if isinstance(late, Missing) else late.late.z,
        "last": turn if isinstance(turn, Missing) else turn.last,
        "waiting_ns": turn if isinstance(turn, Missing) else turn.waiting_ns,
        "caused_ns": turn if isinstance(turn, Missing) else turn.caused_ns,
        "collectives_ns": overlap if isinstance(overlap, Missing) else overlap.busy_ns,
        "hidden_ratio": overlap if isinstance(overlap, Missing) else overlap.hidden_ratio,
        "offset_ns": row.clock.offset_ns,
        "error_ns": row.clock.error_ns,
        "drift_ppm": row.clock.drift_ppm,
    }
    return {
        **process_document(row.process),
        "title": process_title(row.process),
        "state": row.process.state,
        "steps": row.steps,
        "mean_ns": row.mean_ns,
        "matched": turn.matched if is_met and not isinstance(turn, Missing) else 0,
        "is_named": row.process.index in {straggler.process for straggler in found.stragglers},
        "is_reference": row.clock.process == found.clocks.reference,
        "basis": row.clock.basis,
        **with_reasons(facts),
    }


def _straggler(found: RankComparison, each: Straggler) -> Document:
    process = found.rows[each.process].process
    return {
        **straggler_document(each),
        **process_document(process),
        "title": process_title(process),
    }


def _figures(figures: Sequence[StepFigures]) -> Document:
    """Return the latest steps as columns."""
    return {
        "step": [figure.step for figure in figures],
        "min_ns": [figure.least_ns for figure in figures],
        "median_ns": [figure.median_ns for figure in figures],
        "max_ns": [figure.most_ns for figure in figures],
        "slowest": [figure.slowest for figure in figures],
    }


def _waits(found: RankComparison, waits: Waits | Missing) -> Document:
    if isinstance(waits, Missing):
        return {"missing": waits.reason}
    processes = [row.process for row in found.rows]
    by_wait = sorted(waits.turns, key=lambda turn: -(turn.caused_ns + turn.waiting_ns))
    chosen = sorted(
        (each.process for each in by_wait[:MOST_IN_MAP]), key=lambda at: _order(processes[at])
    )
    place = {process: at for at, process in enumerate(chosen)}
    return {
        "missing": None,
        "steps": waits.steps,
        "ranks_in_all": len(waits.turns),
        "waiting_ns": sum(each.waiting_ns for each in waits.turns),
        "ranks": [process_document(processes[each]) for each in chosen],
        "left_out": len(waits.turns) - len(chosen),
        # The column is waited for, the row waits.
        "cells": [
            [place[pair.whom], place[pair.who], pair.waiting_ns, pair.count]
            for pair in waits.pairs
            if pair.who in place and pair.whom in place
        ],
    }


def _servers(found: RankComparison, servers: Servers | Missing) -> Document:
    if isinstance(servers, Missing):
        return {"missing": servers.reason, "loads": [], "left_out": 0}
    return {
        "missing": None,
        "imbalance_ratio": known(servers.imbalance_ratio),
        "loads": [_load(found, load) for load in servers.loads[:_MOST_SERVERS]],
        "left_out": max(len(servers.loads) - _MOST_SERVERS, 0),
    }


def _load(found: RankComparison, load: ServerLoad) -> Document:
    is_seen = bool(load.exchanges)
    facts = {"receiving_ns": load.receiving_ns, "busy_ns": load.busy_ns}
    most = max(load.exchanges, key=lambda exchange: exchange.receiving_ns, default=None)
    return {
        "server": load.server,
        "processes": len(load.exchanges),
        "pulled_bytes": sum(of.pulled_bytes for of in load.exchanges) if is_seen else None,
        "pushed_bytes": sum(of.pushed_bytes for of in load.exchanges) if is_seen else None,
        **{name: known(value) for name, value in facts.items()},
        "waits_most": None if most is None else process_title(found.rows[most.process].process),
        "missing": {
            name: value.reason for name, value in facts.items() if isinstance(value, Missing)
        },
    }


def _order(process: Process) -> tuple[bool, int, int]:
    return process.rank is None, process.rank or 0, process.index
