"""Render what a step moves: over the bus, in collectives, and between tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from tfprobe.analysis.core.copies import CopyMemory, CopyWaits, Move
from tfprobe.analysis.core.source_lines import By, shown
from tfprobe.analysis.distributed.collectives import Collective, Collectives, Rank
from tfprobe.analysis.distributed.transfer_report import TransferReport
from tfprobe.analysis.transfers.bus_transfers import (
    TINY_BYTES,
    Amount,
    TransferCause,
    TransferFlow,
    Transfers,
)
from tfprobe.analysis.transfers.sends import Sends
from tfprobe.errors import Missing
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import TextColumn

TITLES = {
    Move.HOST_TO_DEVICE: "host to device",
    Move.DEVICE_TO_HOST: "device to host",
    Move.DEVICE_TO_DEVICE: "device to device",
    Move.MEMSET: "memset",
}
# More rows would not be read; --json has all of them.
MOST_ROWS = 12
_FLOW = (
    TextColumn("direction", is_number=False),
    TextColumn("copies"),
    TextColumn("size"),
    TextColumn("rate"),
    TextColumn("time"),
    TextColumn("hidden"),
    TextColumn("exposed"),
    TextColumn("pageable", may_go=True),
    TextColumn("synchronous", may_go=True),
)
_CAUSE = (
    TextColumn("", is_number=False, may_be_cut=True),
    TextColumn("direction", is_number=False),
    TextColumn("copies"),
    TextColumn("size"),
    TextColumn("rate", may_go=True),
    TextColumn("time"),
    TextColumn("exposed"),
)
_COLLECTIVE = (
    TextColumn("collective", is_number=False, may_be_cut=True),
    TextColumn("runs"),
    TextColumn("size"),
    TextColumn("time"),
    TextColumn("queued", may_go=True),
    TextColumn("moving"),
    TextColumn("waiting"),
    TextColumn("rate"),
)
_RANK = (
    TextColumn("rank"),
    TextColumn("host", is_number=False, may_be_cut=True),
    TextColumn("collectives"),
    TextColumn("moving"),
    TextColumn("waiting"),
    TextColumn("came last"),
)
_SENDS = (
    TextColumn("op", is_number=False),
    TextColumn("from", is_number=False, may_be_cut=True),
    TextColumn("to", is_number=False, may_be_cut=True),
    TextColumn("runs"),
    TextColumn("size"),
    TextColumn("time"),
)


def render_transfers(moves: TransferReport, by: By, *, width: int, colour: bool) -> str:
    """Return what moves as text; times and counts are means per step."""
    return page.render(_parts(moves, by, width), width=width, colour=colour)


def _parts(moves: TransferReport, by: By, width: int) -> Iterator[RenderableType]:
    yield page.heading("Data moved per step")
    yield page.paragraph(_summary(moves))
    yield page.blank()
    if isinstance(moves.transfers, Missing):
        yield page.paragraph(f"Copies: {moves.transfers.reason}.")
    else:
        yield from _transfers(moves.transfers, by, width)
    if not isinstance(moves.collectives, Missing):
        yield page.blank()
        yield from _collectives(moves.collectives, width)
    if not isinstance(moves.sends, Missing):
        yield page.blank()
        yield page.heading("Between devices and tasks")
        yield page.table(_SENDS, [_send(send, moves.steps) for send in moves.sends], width=width)


def _summary(moves: TransferReport) -> str:
    loop = moves.loop
    steps = "one traced step" if moves.steps == 1 else f"{moves.steps} traced steps"
    ranks = f" in {moves.processes} processes" if moves.processes > 1 else ""
    of = f" of {numbers.count(loop.count)}" if loop.count >= moves.steps else ""
    return f"{loop.kind} {loop.name}: mean of {steps}{of}{ranks}"


def _transfers(found: Transfers, by: By, width: int) -> Iterator[RenderableType]:
    yield page.heading(f"Copies ({', '.join(found.accelerators)})")
    yield page.table(_FLOW, [_flow(flow, found.steps) for flow in found.flows], width=width)
    yield page.paragraph(_exposed(found))
    tiny = _tiny(found)
    if tiny:
        yield page.paragraph(tiny)
    yield page.blank()
    yield page.heading(f"Copies by {by}")
    causes = found.causes[:MOST_ROWS]
    yield page.table(_CAUSE, [_cause(cause, found.steps, by) for cause in causes], width=width)
    rest = len(found.causes) - len(causes)
    if rest > 0:
        yield page.paragraph(f"and {numbers.count(rest)} more; --json has all.")


def _exposed(found: Transfers) -> str:
    exposed = numbers.duration(found.exposed_ns_per_step)
    hidden = numbers.percent(found.copying.hidden_ratio)
    each = " on each accelerator" if len(found.accelerators) > 1 else ""
    return f"Kernels hide {hidden} of the copy time; {exposed} per step{each} are exposed."


def _tiny(found: Transfers) -> str:
    """Return a sentence if most copies are tiny."""
    sized = sum(size.amount.count for size in found.sizes)
    tiny = [size.amount for size in found.sizes if size.least_bytes < TINY_BYTES]
    count = sum(each.count for each in tiny)
    if not count:
        return ""
    time_ns = sum(each.time_ns for each in tiny)
    whole_ns = sum(size.amount.time_ns for size in found.sizes)
    return (
        f"{numbers.percent(count / sized)} of the copies are smaller than "
        f"{numbers.size(TINY_BYTES)} and take {_share(time_ns, whole_ns)} of their time."
    )


def _flow(flow: TransferFlow, steps: int) -> Sequence[str]:
    pageable = sum(
        amount.count for memory, amount in flow.by_memory if memory is CopyMemory.PAGEABLE
    )
    known = sum(
        amount.count for memory, amount in flow.by_memory if memory is not CopyMemory.UNKNOWN
    )
    waits = dict(flow.by_waits)
    synchronous = waits.get(CopyWaits.SYNCHRONOUS, 0)
    known_waits = synchronous + waits.get(CopyWaits.ASYNCHRONOUS, 0)
    return (
        TITLES[flow.move],
        _per(flow.amount.count, steps),
        _size(flow.amount, steps),
        _rate(flow.amount.bytes_per_s),
        numbers.duration(flow.busy.busy_ns / steps),
        numbers.percent(flow.busy.hidden_ratio),
        numbers.duration(flow.busy.exposed_ns / steps),
        _share(pageable, known),
        _share(synchronous, known_waits),
    )


def _cause(cause: TransferCause, steps: int, by: By) -> Sequence[str]:
    return (
        shown(cause.label, by),
        TITLES[cause.move],
        _per(cause.amount.count, steps),
        _size(cause.amount, steps),
        _rate(cause.amount.bytes_per_s),
        numbers.duration(cause.amount.time_ns / steps),
        numbers.duration(cause.exposed_ns / steps),
    )


def _collectives(found: Collectives, width: int) -> Iterator[RenderableType]:
    yield page.heading("Collectives")
    kinds = found.kinds[:MOST_ROWS]
    yield page.table(_COLLECTIVE, [_collective(kind, found.steps) for kind in kinds], width=width)
    rest = len(found.kinds) - len(kinds)
    if rest > 0:
        yield page.paragraph(f"and {numbers.count(rest)} more; --json has all.")
    exposed = numbers.duration(found.busy.exposed_ns / found.steps)
    hidden = numbers.percent(found.busy.hidden_ratio)
    yield page.paragraph(
        f"Computation hides {hidden} of their time; {exposed} per step are exposed."
    )
    if isinstance(found.ranks, Missing):
        yield page.paragraph(f"Moving and waiting cannot be separated: {found.ranks.reason}.")
        return
    yield page.blank()
    yield page.heading("Who waits for whom")
    yield page.table(_RANK, [_rank(rank) for rank in found.ranks], width=width)
    if found.clock_error_ns is not None:
        error = numbers.duration(found.clock_error_ns)
        yield page.paragraph(
            "The clocks of these machines were aligned by synchronization between ranks, to "
            f"within {error}."
        )


def _collective(found: Collective, steps: int) -> Sequence[str]:
    return (
        found.op if found.op_type in found.op else f"{found.op} ({found.op_type})",
        _per(found.count, steps),
        numbers.size(found.bytes // found.sized) if found.sized else numbers.NOTHING,
        _mean(found.time_ns, found.count),
        _mean(found.queued_ns, found.queued),
        _mean(found.moving_ns, found.matched),
        _mean(found.waiting_ns, found.matched),
        _rate(found.bytes_per_s),
    )


def _rank(rank: Rank) -> Sequence[str]:
    return (
        numbers.NOTHING if rank.rank is None else str(rank.rank),
        rank.host,
        numbers.count(rank.matched),
        _mean(rank.moving_ns, rank.matched),
        _mean(rank.waiting_ns, rank.matched),
        numbers.percent(rank.last / rank.matched),
    )


def _send(found: Sends, steps: int) -> Sequence[str]:
    return (
        found.op_type,
        found.source or numbers.NOTHING,
        found.target or numbers.NOTHING,
        _per(found.count, steps),
        numbers.size(found.bytes // found.sized) if found.sized else numbers.NOTHING,
        _mean(found.time_ns, found.count),
    )


def _per(count: int, steps: int) -> str:
    """Format a count of all steps as the mean per step."""
    return numbers.plain(count / steps)


def _size(amount: Amount, steps: int) -> str:
    return numbers.size(amount.bytes // steps) if amount.sized else numbers.NOTHING


def _mean(total_ns: int, count: int) -> str:
    return numbers.duration(total_ns / count) if count else numbers.NOTHING


def _rate(bytes_per_s: float | Missing) -> str:
    if isinstance(bytes_per_s, Missing):
        return numbers.NOTHING
    return numbers.rate(bytes_per_s)


def _share(part: int, whole: int) -> str:
    return numbers.percent(part / whole) if whole else numbers.NOTHING
