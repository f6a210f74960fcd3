"""Write what a loop moved as a document: times in ns, of all traced steps together."""

from __future__ import annotations

from typing import Any

from tfprobe.analysis.distributed.collectives import Collective, Collectives, Rank
from tfprobe.analysis.distributed.transfer_report import TransferReport
from tfprobe.analysis.transfers.bus_transfers import (
    Amount,
    BusyTime,
    TransferCause,
    TransferFlow,
    Transfers,
)
from tfprobe.analysis.transfers.sends import Sends
from tfprobe.errors import Missing
from tfprobe.report.documents.document import Document


def transfers_document(moves: TransferReport) -> Document:
    """Return what moved; what is not known is null, and `missing` says why."""
    return {
        "work": {"kind": moves.loop.kind, "name": moves.loop.name, "count": moves.loop.count},
        "sampled_steps": moves.steps,
        "processes": moves.processes,
        "transfers": _or_missing(moves.transfers, _transfers),
        "collectives": _or_missing(moves.collectives, _collectives),
        "sends": _or_missing(moves.sends, lambda every: [_sends(each) for each in every]),
        "missing": {
            name: part.reason
            for name, part in (
                ("transfers", moves.transfers),
                ("collectives", moves.collectives),
                ("sends", moves.sends),
            )
            if isinstance(part, Missing)
        },
    }


def _or_missing(part: Any, write: Any) -> Any:
    # Any: whichever part of a document, and the function that writes it.
    return None if isinstance(part, Missing) else write(part)


def _transfers(found: Transfers) -> Document:
    return {
        "accelerators": list(found.accelerators),
        "copying": _busy(found.copying),
        "exposed_ns_per_step": found.exposed_ns_per_step,
        "directions": [_flow(flow) for flow in found.flows],
        "sizes": [
            {"least_bytes": size.least_bytes, **_amount(size.amount)} for size in found.sizes
        ],
        "causes": [_cause(cause) for cause in found.causes],
    }


def _flow(flow: TransferFlow) -> Document:
    return {
        "direction": flow.move.name.lower(),
        **_amount(flow.amount),
        **_busy(flow.busy),
        "host_memory": {memory.name.lower(): _amount(amount) for memory, amount in flow.by_memory},
        "calls": {waits.name.lower(): count for waits, count in flow.by_waits},
    }


def _cause(cause: TransferCause) -> Document:
    return {
        "name": cause.label,
        "direction": cause.move.name.lower(),
        **_amount(cause.amount),
        "exposed_ns": cause.exposed_ns,
    }


def _amount(amount: Amount) -> Document:
    rate = amount.bytes_per_s
    return {
        "count": amount.count,
        "sized": amount.sized,
        "bytes": amount.bytes if amount.sized or not amount.count else None,
        "time_ns": amount.time_ns,
        "bytes_per_s": None if isinstance(rate, Missing) else rate,
    }


def _busy(busy: BusyTime) -> Document:
    return {
        "busy_ns": busy.busy_ns,
        "hidden_ns": busy.hidden_ns,
        "exposed_ns": busy.exposed_ns,
        "hidden_ratio": busy.hidden_ratio,
    }


def _collectives(found: Collectives) -> Document:
    return {
        **_busy(found.busy),
        "ops": [_collective(kind) for kind in found.kinds],
        "ranks": _or_missing(found.ranks, lambda every: [_rank(each) for each in every]),
        "ranks_missing": found.ranks.reason if isinstance(found.ranks, Missing) else None,
        "clock_error_ns": found.clock_error_ns,
    }


def _collective(found: Collective) -> Document:
    rate = found.bytes_per_s
    return {
        "name": found.op,
        "op": found.op_type,
        "layer": found.layer,
        "count": found.count,
        "sized": found.sized,
        "bytes": found.bytes if found.sized else None,
        "time_ns": found.time_ns,
        "queued": found.queued,
        "queued_ns": found.queued_ns if found.queued else None,
        "matched": found.matched,
        "moving_ns": found.moving_ns if found.matched else None,
        "waiting_ns": found.waiting_ns if found.matched else None,
        "bytes_per_s": None if isinstance(rate, Missing) else rate,
    }


def _rank(rank: Rank) -> Document:
    return {
        "process": rank.process,
        "rank": rank.rank,
        "host": rank.host,
        "matched": rank.matched,
        "moving_ns": rank.moving_ns,
        "waiting_ns": rank.waiting_ns,
        "came_last": rank.last,
    }


def _sends(found: Sends) -> Document:
    return {
        "op": found.op_type,
        "from": found.source or None,
        "to": found.target or None,
        "count": found.count,
        "sized": found.sized,
        "bytes": found.bytes if found.sized else None,
        "time_ns": found.time_ns,
    }
