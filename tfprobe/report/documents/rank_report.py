"""Write the comparison of a job's processes as a document, tfprobe.ranks/1 when published."""

from __future__ import annotations

from collections.abc import Sequence

from tfprobe.analysis.distributed.clocks import Clock
from tfprobe.analysis.distributed.rank_comparison import RankComparison, RankRow, StepFigures
from tfprobe.analysis.distributed.rank_facts import name
from tfprobe.analysis.distributed.rank_waits import ServerLoad, Servers, Waits
from tfprobe.analysis.distributed.slow_ranks import Straggler
from tfprobe.errors import Missing
from tfprobe.profile.profile import Problem
from tfprobe.report.documents.document import Document, known

SCHEMA = "tfprobe.ranks/1"


def ranks_document(found: RankComparison, run: str, problems: Sequence[Problem] = ()) -> Document:
    """Return the document: times in ns, bytes, ratios of 1; None for what is unknown."""
    return {
        "schema": SCHEMA,
        "run": run,
        "world": found.world,
        "processes": len(found.rows),
        "machines": found.clocks.machines,
        "work": known(found.loop),
        "work_missing": _reason(found.loop),
        "ranks": [_row(row) for row in found.rows],
        "reference": found.clocks.reference,
        "first_step": found.first_step,
        "last_step": found.last_step,
        "steps": [_figures(figure) for figure in found.figures],
        "stragglers": [straggler_document(straggler) for straggler in found.stragglers],
        "waits": None if isinstance(found.waits, Missing) else _waits(found.waits),
        "waits_missing": _reason(found.waits),
        "servers": None if isinstance(found.servers, Missing) else _servers(found.servers),
        "servers_missing": _reason(found.servers),
        "facts": list(found.facts),
        "problems": [{"where": problem.where, "what": problem.what} for problem in problems],
    }


def _row(row: RankRow) -> Document:
    process, turn, late, overlap = row.process, row.turn, row.late, row.overlap
    return {
        "name": name(process),
        "host": process.host,
        "folder": process.folder,
        "program": process.shown_program,
        "pid": process.pid or None,
        "rank": process.rank,
        "role": process.role,
        "team": row.slot.team,
        "start": row.slot.generation,
        "state": process.state,
        "tensorflow": known(process.tensorflow),
        "clock": _clock(row.clock),
        "steps": row.steps,
        "mean_ns": row.mean_ns,
        "late": None if isinstance(late, Missing) else straggler_document(late),
        "last_ratio": None if isinstance(turn, Missing) else turn.last_ratio,
        "matched": None if isinstance(turn, Missing) else turn.matched,
        "waiting_ns": None if isinstance(turn, Missing) else turn.waiting_ns,
        "caused_ns": None if isinstance(turn, Missing) else turn.caused_ns,
        "overlap_ratio": None if isinstance(overlap, Missing) else overlap.hidden_ratio,
        "cells": list(row.cells),
    }


def _clock(clock: Clock) -> Document:
    return {
        "offset_ns": known(clock.offset_ns),
        "error_ns": known(clock.error_ns),
        "drift_ppm": known(clock.drift_ppm),
        "drift_error_ppm": known(clock.drift_error_ppm),
        "at_unix_ns": clock.at_ns,
        "basis": clock.basis,
    }


def _figures(each: StepFigures) -> Document:
    return {
        "step": each.step,
        "known": each.known,
        "min_ns": each.least_ns,
        "median_ns": each.median_ns,
        "max_ns": each.most_ns,
        "quickest": each.quickest,
        "slowest": each.slowest,
    }


def straggler_document(each: Straggler) -> Document:
    """Return a rank that is late, and by how much."""
    return {
        "process": each.process,
        "measure": each.measure,
        "is_named": each.late.is_named,
        "excess_ratio": each.late.excess_ratio,
        "excess_ns": each.excess_ns,
        "z": each.late.z,
        "own_z": each.late.own_z,
        "steps": each.late.steps,
        "last_ratio": known(each.last_ratio),
        "matched": each.matched,
    }


def _waits(found: Waits) -> Document:
    return {
        "steps": found.steps,
        "pairs": [
            {
                "who": pair.who,
                "whom": pair.whom,
                "count": pair.count,
                "waiting_ns": pair.waiting_ns,
            }
            for pair in found.pairs
        ],
    }


def _servers(found: Servers) -> Document:
    return {
        "imbalance_ratio": known(found.imbalance_ratio),
        "servers": [_server(load) for load in found.loads],
    }


def _server(each: ServerLoad) -> Document:
    return {
        "server": each.server,
        "bytes": known(each.bytes),
        "receiving_ns": known(each.receiving_ns),
        "busy_ns": known(each.busy_ns),
        "by_process": [
            {
                "process": of.process,
                "pulled_bytes": of.pulled_bytes,
                "pushed_bytes": of.pushed_bytes,
                "receives": of.receives,
                "receiving_ns": of.receiving_ns,
            }
            for of in each.exchanges
        ],
    }


def _reason(value: object) -> str | None:
    return value.reason if isinstance(value, Missing) else None
