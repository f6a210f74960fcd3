"""Write the processes of a job beside each other as the tfprobe.ranks/1 document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfprobe.analysis.distributed.clocks import Clock
from tfprobe.analysis.distributed.rank_comparison import RankComparison, RankRow, StepFigures
from tfprobe.analysis.distributed.rank_facts import name
from tfprobe.analysis.distributed.rank_waits import ServerLoad, Servers, Waits
from tfprobe.analysis.distributed.slow_ranks import Straggler
from tfprobe.errors import Missing
from tfprobe.profile.profile import Problem

SCHEMA = "tfprobe.ranks/1"
_NS_PER_US = 1000
# Any: a JSON document, whose values are whatever the schema says.
Document = dict[str, Any]


def document(found: RankComparison, run: str, problems: Sequence[Problem] = ()) -> Document:
    """Return the document: times in µs, bytes, ratios of 1; None where something is not known."""
    return {
        "schema": SCHEMA,
        "run": run,
        "world": found.world,
        "processes": len(found.rows),
        "machines": found.clocks.machines,
        "work": _or_none(found.loop),
        "work_missing": _reason(found.loop),
        "ranks": [_row(row) for row in found.rows],
        "reference": found.clocks.reference,
        "first_step": found.first_step,
        "last_step": found.last_step,
        "steps": [_figures(figure) for figure in found.figures],
        "stragglers": [_straggler(straggler) for straggler in found.stragglers],
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
        "team": row.seat.team,
        "start": row.seat.generation,
        "state": process.state,
        "tensorflow": _or_none(process.tensorflow),
        "clock": _clock(row.clock),
        "steps": row.steps,
        "mean_us": None if row.mean_ns is None else row.mean_ns / _NS_PER_US,
        "late": None if isinstance(late, Missing) else _straggler(late),
        "last_ratio": None if isinstance(turn, Missing) else turn.last_ratio,
        "matched": None if isinstance(turn, Missing) else turn.matched,
        "waiting_us": None if isinstance(turn, Missing) else turn.waiting_ns / _NS_PER_US,
        "caused_us": None if isinstance(turn, Missing) else turn.caused_ns / _NS_PER_US,
        "overlap_ratio": None if isinstance(overlap, Missing) else overlap.hidden_ratio,
        "cells": list(row.cells),
    }


def _clock(clock: Clock) -> Document:
    offset, error = clock.offset_ns, clock.error_ns
    return {
        "offset_us": None if isinstance(offset, Missing) else offset / _NS_PER_US,
        "error_us": None if isinstance(error, Missing) else error / _NS_PER_US,
        "drift_ppm": _or_none(clock.drift_ppm),
        "drift_error_ppm": _or_none(clock.drift_error_ppm),
        "at_unix_ns": clock.at_ns,
        "basis": clock.basis,
    }


def _figures(each: StepFigures) -> Document:
    return {
        "step": each.step,
        "known": each.known,
        "min_us": each.least_ns / _NS_PER_US,
        "median_us": each.median_ns / _NS_PER_US,
        "max_us": each.most_ns / _NS_PER_US,
        "quickest": each.quickest,
        "slowest": each.slowest,
    }


def _straggler(each: Straggler) -> Document:
    return {
        "process": each.process,
        "measure": each.measure,
        "is_named": each.late.is_named,
        "excess_ratio": each.late.excess_ratio,
        "excess_us": each.excess_ns / _NS_PER_US,
        "z": each.late.z,
        "own_z": each.late.own_z,
        "steps": each.late.steps,
        "last_ratio": _or_none(each.last_ratio),
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
                "waiting_us": pair.waiting_ns / _NS_PER_US,
            }
            for pair in found.pairs
        ],
    }


def _servers(found: Servers) -> Document:
    return {
        "imbalance_ratio": _or_none(found.imbalance_ratio),
        "servers": [_server(load) for load in found.loads],
    }


def _server(each: ServerLoad) -> Document:
    return {
        "server": each.server,
        "bytes": _or_none(each.bytes),
        "receiving_us": _us(each.receiving_ns),
        "busy_us": _us(each.busy_ns),
        "by_process": [
            {
                "process": of.process,
                "pulled_bytes": of.pulled_bytes,
                "pushed_bytes": of.pushed_bytes,
                "receives": of.receives,
                "receiving_us": of.receiving_ns / _NS_PER_US,
            }
            for of in each.exchanges
        ],
    }


def _us(ns: int | Missing) -> float | None:
    return None if isinstance(ns, Missing) else ns / _NS_PER_US


def _or_none(value: object) -> object:
    return None if isinstance(value, Missing) else value


def _reason(value: object) -> str | None:
    return value.reason if isinstance(value, Missing) else None
