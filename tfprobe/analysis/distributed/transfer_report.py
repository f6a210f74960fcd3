"""Put together all that moves in the traced steps of a loop, and say it as a document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tfprobe.analysis.distributed.collectives import Collective, Collectives, Rank
from tfprobe.analysis.transfers.bus_transfers import (
    Amount,
    BusyTime,
    TransferCause,
    TransferFlow,
    Transfers,
)
from tfprobe.analysis.transfers.sends import Sends
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop

NS_PER_US = 1000


@dataclass(frozen=True, slots=True)
class Moves:
    """What `steps` traced steps of a loop moved, in `processes` processes."""

    loop: Loop
    steps: int
    processes: int
    transfers: Transfers | Missing
    collectives: Collectives | Missing
    sends: tuple[Sends, ...] | Missing

    @property
    def has_nothing(self) -> bool:
        """Return whether nothing at all is known to have moved."""
        parts = (self.transfers, self.collectives, self.sends)
        return all(isinstance(part, Missing) for part in parts)


def document(moves: Moves) -> dict[str, Any]:
    """Return what moved. Any: a JSON document; what is missing is null, with a reason beside it."""
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


def _transfers(found: Transfers) -> dict[str, Any]:
    return {
        "accelerators": list(found.accelerators),
        "copying": _busy(found.copying),
        "exposed_us_per_step": found.exposed_ns_per_step / NS_PER_US,
        "directions": [_flow(flow) for flow in found.flows],
        "sizes": [
            {"least_bytes": size.least_bytes, **_amount(size.amount)} for size in found.sizes
        ],
        "causes": [_cause(cause) for cause in found.causes],
    }


def _flow(flow: TransferFlow) -> dict[str, Any]:
    return {
        "direction": flow.move.name.lower(),
        **_amount(flow.amount),
        **_busy(flow.busy),
        "host_memory": {memory.name.lower(): _amount(amount) for memory, amount in flow.by_memory},
        "calls": {waits.name.lower(): count for waits, count in flow.by_waits},
    }


def _cause(cause: TransferCause) -> dict[str, Any]:
    return {
        "name": cause.label,
        "direction": cause.move.name.lower(),
        **_amount(cause.amount),
        "exposed_us": cause.exposed_ns / NS_PER_US,
    }


def _amount(amount: Amount) -> dict[str, Any]:
    rate = amount.bytes_per_s
    return {
        "count": amount.count,
        "sized": amount.sized,
        "bytes": amount.bytes if amount.sized or not amount.count else None,
        "time_us": amount.time_ns / NS_PER_US,
        "bytes_per_s": None if isinstance(rate, Missing) else rate,
    }


def _busy(busy: BusyTime) -> dict[str, Any]:
    return {
        "busy_us": busy.busy_ns / NS_PER_US,
        "hidden_us": busy.hidden_ns / NS_PER_US,
        "exposed_us": busy.exposed_ns / NS_PER_US,
        "hidden_ratio": busy.hidden_ratio,
    }


def _collectives(found: Collectives) -> dict[str, Any]:
    error_ns = found.clock_error_ns
    return {
        **_busy(found.busy),
        "ops": [_collective(kind) for kind in found.kinds],
        "ranks": _or_missing(found.ranks, lambda every: [_rank(each) for each in every]),
        "ranks_missing": found.ranks.reason if isinstance(found.ranks, Missing) else None,
        "clock_error_us": None if error_ns is None else error_ns / NS_PER_US,
    }


def _collective(found: Collective) -> dict[str, Any]:
    rate = found.bytes_per_s
    return {
        "name": found.op,
        "op": found.op_type,
        "layer": found.layer,
        "count": found.count,
        "sized": found.sized,
        "bytes": found.bytes if found.sized else None,
        "time_us": found.time_ns / NS_PER_US,
        "queued": found.queued,
        "queued_us": found.queued_ns / NS_PER_US if found.queued else None,
        "matched": found.matched,
        "moving_us": found.moving_ns / NS_PER_US if found.matched else None,
        "waiting_us": found.waiting_ns / NS_PER_US if found.matched else None,
        "bytes_per_s": None if isinstance(rate, Missing) else rate,
    }


def _rank(rank: Rank) -> dict[str, Any]:
    return {
        "process": rank.process,
        "rank": rank.rank,
        "host": rank.host,
        "matched": rank.matched,
        "moving_us": rank.moving_ns / NS_PER_US,
        "waiting_us": rank.waiting_ns / NS_PER_US,
        "came_last": rank.last,
    }


def _sends(found: Sends) -> dict[str, Any]:
    return {
        "op": found.op_type,
        "from": found.source or None,
        "to": found.target or None,
        "count": found.count,
        "sized": found.sized,
        "bytes": found.bytes if found.sized else None,
        "time_us": found.time_ns / NS_PER_US,
    }
