"""Sum up the copies over the bus by direction and by the op that caused them, and how much of them
kernels hide.

A copy is hidden while a kernel other than a collective runs on the same accelerator: it then costs
no time of its own. All sums are of unions of intervals, so that nothing counts twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.core.collective_ops import enclosing, is_collective, launches
from tfprobe.analysis.core.copies import (
    Copies,
    CopyMemory,
    CopyWaits,
    Move,
    accelerators,
    copies,
    device_of,
)
from tfprobe.analysis.core.intervals import NONE, Intervals, intersection, union, within_ns
from tfprobe.analysis.core.source_lines import By, Origins
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.graph import TracedLoop
from tfprobe.profile.profile import Profile
from tfprobe.profile.tables import Flags, Int32s, Int64s

KIB, MIB = 2**10, 2**20
# Smallest sizes of the classes. Up to 64 KiB, a copy takes as long to start as to run: at the
# 12 GB/s of PCIe 3, that many bytes take 5 µs.
TINY_BYTES = 64 * KIB
SIZE_CLASSES: tuple[int, ...] = (0, 4 * KIB, TINY_BYTES, MIB, 16 * MIB)
NO_OP = "(unknown op)"
_S = 1e9


@dataclass(frozen=True, slots=True)
class Amount:
    """Some copies. `bytes` and `sized_ns` are of the `sized` ones, whose size is known."""

    count: int
    sized: int
    bytes: int
    time_ns: int
    sized_ns: int

    @property
    def bytes_per_s(self) -> float | Missing:
        """Return how fast they were while they ran."""
        if not self.sized:
            return Missing("the recording has no sizes of these copies")
        if not self.sized_ns:
            return Missing("these copies were shorter than the resolution of the clock")
        return self.bytes / self.sized_ns * _S


@dataclass(frozen=True, slots=True)
class BusyTime:
    """How long something was running, and how much of that a kernel hid; unions of intervals."""

    busy_ns: int
    hidden_ns: int

    @property
    def exposed_ns(self) -> int:
        return self.busy_ns - self.hidden_ns

    @property
    def hidden_ratio(self) -> float:
        return self.hidden_ns / self.busy_ns if self.busy_ns else 0.0


@dataclass(frozen=True, slots=True)
class TransferFlow:
    """What moved in one direction, with all accelerators and their busy times added up."""

    move: Move
    amount: Amount
    busy: BusyTime
    by_memory: tuple[tuple[CopyMemory, Amount], ...]
    by_waits: tuple[tuple[CopyWaits, int], ...]


@dataclass(frozen=True, slots=True)
class TransferCause:
    """The copies in one direction of one op, layer or line; no kernel hid `exposed_ns` of them."""

    label: str
    move: Move
    amount: Amount
    exposed_ns: int


@dataclass(frozen=True, slots=True)
class SizeClass:
    """The copies, without memsets, of at least this size, up to the next class."""

    least_bytes: int
    amount: Amount


@dataclass(frozen=True, slots=True)
class Transfers:
    """What moved in `steps` traced steps of these accelerators, the most expensive causes first.

    `copying` is the time in which anything moved in any direction, without memsets.
    """

    steps: int
    accelerators: tuple[str, ...]
    flows: tuple[TransferFlow, ...]
    causes: tuple[TransferCause, ...]
    sizes: tuple[SizeClass, ...]
    copying: BusyTime

    @property
    def exposed_ns_per_step(self) -> float:
        """Return for how long of a step an accelerator did nothing but copy."""
        return self.copying.exposed_ns / max(self.steps * len(self.accelerators), 1)


def transfers(profile: Profile, origins: Origins, by: By = "op") -> Transfers | Missing:
    """Return what moved in the traced steps of a profile, or why that is unknown."""
    rows = profile.executions
    if not profile.captures:
        return Missing("no step was traced")
    if not (rows.place != Place.HOST).any():
        return Missing(_why_none(profile))
    accelerator = accelerators(rows)
    bus_copies = copies(rows, profile.spans)
    if not len(bus_copies.row):
        return Missing("the traced steps copied nothing to, from or within an accelerator")
    compute = (rows.place == Place.ACCELERATOR) & ~is_collective(rows, profile.spans)
    compute[bus_copies.row] = False
    groups = list(_groups(rows, accelerator, bus_copies, compute))
    hidden_ns = _hidden_ns(rows, bus_copies, groups)
    moves = sorted(set(bus_copies.move.tolist()))
    is_copy = bus_copies.move != Move.MEMSET
    return Transfers(
        steps=len(profile.captures),
        accelerators=_names(rows, accelerator),
        flows=tuple(_flow(rows, bus_copies, groups, Move(move)) for move in moves),
        causes=_causes(profile, bus_copies, hidden_ns, origins, by),
        sizes=tuple(_sizes(rows, bus_copies, is_copy)),
        copying=_busy(rows, groups, is_copy, bus_copies),
    )


def _why_none(profile: Profile) -> str:
    devices = [
        process.devices for process in profile.processes if not isinstance(process.devices, Missing)
    ]
    if any("GPU" in device.upper() for each in devices for device in each):
        return (
            "this run has an accelerator, but its traces hold no row of one: they were taken on "
            "the host alone"
        )
    return "no accelerator in this run, so nothing moved over the bus"


@dataclass(frozen=True, slots=True)
class _Group:
    """The copies of one accelerator in one step, as positions in Copies, and its kernels."""

    copies: Int64s
    kernels: Intervals


def _groups(
    rows: Executions, accelerator: Int32s, found: Copies, compute: Flags
) -> Iterator[_Group]:
    width = len(rows.strings.values) + 1
    key = rows.capture.astype(np.int64) * width + accelerator + 1
    kernels = np.flatnonzero(compute)
    kernels = kernels[np.argsort(key[kernels], kind="stable")]
    order = np.argsort(key[found.row], kind="stable")
    of_copies, of_kernels = key[found.row[order]], key[kernels]
    for each in np.unique(of_copies).tolist():
        mine = kernels[slice(*np.searchsorted(of_kernels, [each, each + 1]))]
        start_ns = rows.start_ns[mine]
        yield _Group(
            copies=order[slice(*np.searchsorted(of_copies, [each, each + 1]))],
            kernels=union(start_ns, start_ns + rows.duration_ns[mine]) if len(mine) else NONE,
        )


def _hidden_ns(rows: Executions, found: Copies, groups: Sequence[_Group]) -> Int64s:
    hidden_ns = np.zeros(len(found.row), dtype=np.int64)
    for group in groups:
        start_ns, end_ns = _times(rows, found, group.copies)
        hidden_ns[group.copies] = within_ns(group.kernels, start_ns, end_ns)
    return hidden_ns


def _times(rows: Executions, found: Copies, chosen: Int64s) -> tuple[Int64s, Int64s]:
    at = found.row[chosen]
    return rows.start_ns[at], rows.start_ns[at] + rows.duration_ns[at]


def _busy(rows: Executions, groups: Sequence[_Group], chosen: Flags, found: Copies) -> BusyTime:
    busy_ns = hidden_ns = 0
    for group in groups:
        moving = union(*_times(rows, found, group.copies[chosen[group.copies]]))
        busy_ns += moving.length_ns
        hidden_ns += intersection(moving, group.kernels).length_ns
    return BusyTime(busy_ns, hidden_ns)


def _flow(rows: Executions, found: Copies, groups: Sequence[_Group], move: Move) -> TransferFlow:
    chosen = found.move == move
    memories = [each for each in CopyMemory if (found.memory[chosen] == each).any()]
    waits = [(CopyWait, int((found.waits[chosen] == CopyWait).sum())) for CopyWait in CopyWaits]
    return TransferFlow(
        move=move,
        amount=_amount(rows, found, chosen),
        busy=_busy(rows, groups, chosen, found),
        by_memory=tuple(
            (memory, _amount(rows, found, chosen & (found.memory == memory))) for memory in memories
        ),
        by_waits=tuple((each, count) for each, count in waits if count),
    )


def _amount(rows: Executions, found: Copies, chosen: Flags) -> Amount:
    duration_ns = rows.duration_ns[found.row]
    sized = chosen & (found.bytes > 0)
    return Amount(
        count=int(chosen.sum()),
        sized=int(sized.sum()),
        bytes=int(found.bytes[sized].sum()),
        time_ns=int(duration_ns[chosen].sum()),
        sized_ns=int(duration_ns[sized].sum()),
    )


def _sizes(rows: Executions, found: Copies, is_copy: Flags) -> Iterator[SizeClass]:
    ends = (*SIZE_CLASSES[1:], np.iinfo(np.int64).max)
    for least, end in zip(SIZE_CLASSES, ends, strict=True):
        chosen = is_copy & (found.bytes > 0) & (found.bytes >= least) & (found.bytes < end)
        yield SizeClass(least, _amount(rows, found, chosen))


def _causes(
    profile: Profile, found: Copies, hidden_ns: Int64s, origins: Origins, by: By
) -> tuple[TransferCause, ...]:
    rows = profile.executions
    op, names = _ops(profile, found)
    labels: dict[str, int] = {}
    of_op = [labels.setdefault(_label(name, origins, by), len(labels)) for name in names]
    key = np.array(of_op, dtype=np.int64)[op] * len(Move) + found.move
    keys, group = np.unique(key, return_inverse=True)
    duration_ns, is_sized = rows.duration_ns[found.row], found.bytes > 0

    def total(amount: Int64s | Flags) -> list[int]:
        # Exact: the ns and bytes of a run are far below 2**53.
        sums: list[int] = np.bincount(group.reshape(-1), amount).astype(np.int64).tolist()
        return sums

    amounts = map(
        Amount,
        total(np.ones(len(key), dtype=np.int64)),
        total(is_sized),
        total(found.bytes),
        total(duration_ns),
        total(np.where(is_sized, duration_ns, 0)),
    )
    texts = list(labels)
    causes = [
        TransferCause(texts[at // len(Move)], Move(at % len(Move)), amount, exposed_ns)
        for at, amount, exposed_ns in zip(
            keys.tolist(), amounts, total(duration_ns - hidden_ns), strict=True
        )
    ]
    return tuple(sorted(causes, key=lambda each: (-each.amount.time_ns, each.label, each.move)))


def _label(op: str, origins: Origins, by: By) -> str:
    return origins.of(op).label(by) if op else NO_OP


def _ops(profile: Profile, found: Copies) -> tuple[Int64s, list[str]]:
    """Return the number of the op that caused each copy, and the ops by number.

    The op is "" if neither the copy nor the call that started it names one.
    """
    rows = profile.executions
    ops = {"": 0}
    op = _named(rows, found.row, ops)
    unknown = np.flatnonzero(op == 0)
    if len(unknown) and len(profile.spans):
        span = launches(rows, profile.spans)[found.row[unknown]]
        launched, span = unknown[span >= 0], span[span >= 0]
        around = enclosing(rows, profile.spans, span, np.flatnonzero(rows.place == Place.HOST))
        names = np.unique(rows.name[around[around >= 0]]).tolist()
        numbers = np.zeros(len(rows.strings.values), dtype=np.int64)
        numbers[names] = [ops.setdefault(rows.strings[name], len(ops)) for name in names]
        op[launched] = np.where(around >= 0, numbers[rows.name[around]], 0)
    return op, list(ops)


def _named(rows: Executions, row: Int64s, ops: dict[str, int]) -> Int64s:
    """Return the number of the op that each row itself names; new ops are added to `ops`."""
    strings, width = rows.strings, len(rows.strings.values)
    pair = rows.name[row].astype(np.int64) * width + rows.op_type[row]
    pairs, inverse = np.unique(pair, return_inverse=True)
    causes = [cause(strings[each // width], strings[each % width]) for each in pairs.tolist()]
    numbers = np.array([ops.setdefault(each, len(ops)) for each in causes], dtype=np.int64)
    op: Int64s = numbers[inverse]
    # A text with a size in it differs from copy to copy: it is parsed only if nothing else helps.
    silent = np.flatnonzero(op == 0)
    details, inverse = np.unique(rows.detail[row[silent]], return_inverse=True)
    causes = [cause("", "", strings[detail]) for detail in details.tolist()]
    numbers = np.array([ops.setdefault(each, len(ops)) for each in causes], dtype=np.int64)
    op[silent] = numbers[inverse]
    return op


# "edge_185_MatMul" is the copy of what MatMul made; "_arg_x_0_1" and "_recv_x_0" are of the fed x,
# "_retval_x_0_0" of the fetched one: TensorFlow's graph_partition.cc, subgraph.cc.
_EDGE = re.compile(r"\Aedge_\d+_(?=.)")
# "Conv2D:Conv2D num_bytes: 112 ..." is a copy that Conv2D asked for, and
# "x/_0:_Send::edge_10_x::async num_bytes: ..." one of an edge. "kind:device num_bytes:512" is a
# memset's own.
_LABEL = re.compile(
    r"(?!kind:)(?P<op>[^\s:]+):[^\s:]+(?:::(?P<edge>edge_\d+_[^\s:]+)(?:::\w+)?)? num_bytes:"
)
_ENDS = re.compile(r"_(?:(?:arg|retval)_(?P<passed>.+)_\d+_\d+|(?:recv|send)_(?P<sent>.+)_\d+)\Z")
_NO_OP = re.compile(r"mem(?:cpy|set)|unknown\Z|CopyHostTo|CopyDeviceTo|\Z", re.IGNORECASE)


def cause(name: str, op_type: str, detail: str = "") -> str:
    """Return the op that a copy's record names, "" if it has only the driver's name."""
    if _NO_OP.match(name) or (name == op_type and _NO_OP.match(op_type)):
        label = _LABEL.match(detail)
        name = (label["edge"] or label["op"]) if label else ""
    name = _EDGE.sub("", name, count=1)
    end = _ENDS.match(name)
    return (end["passed"] or end["sent"]) if end else name


def _names(rows: Executions, accelerator: Int32s) -> tuple[str, ...]:
    found = np.unique(accelerator[rows.place != Place.HOST]).tolist()
    names = [device_of(rows.strings[at]) if at >= 0 else "accelerator" for at in found]
    return tuple(sorted(names))


_DIRECTIONS = {
    Move.HOST_TO_DEVICE: "to the device",
    Move.DEVICE_TO_HOST: "to the host",
}


@dataclass(frozen=True, slots=True)
class StepCopies:
    """Copies of one direction in a mean traced step.

    `exposed_ns` is the time in which a copy ran and no kernel did. `node` is the op whose copies
    take longest.
    """

    direction: str
    count: float
    bytes: float
    busy_ns: float
    exposed_ns: float
    pageable_count: float
    pageable_ns: float
    node: str = ""


def step_copies(profile: Profile, found: Iterable[TracedLoop]) -> tuple[StepCopies, ...] | Missing:
    """Return the copies of the mean traced step by direction, without those within devices."""
    moved = transfers(profile, Origins(found))
    if isinstance(moved, Missing):
        return moved
    return tuple(_step_copies(flow, moved) for flow in moved.flows if flow.move in _DIRECTIONS)


def _step_copies(flow: TransferFlow, moved: Transfers) -> StepCopies:
    steps = max(moved.steps, 1)
    # Devices copy at the same time: the step takes as long as one of them.
    devices = max(len(moved.accelerators), 1)
    pageable = dict(flow.by_memory).get(CopyMemory.PAGEABLE)
    longest = next((cause.label for cause in moved.causes if cause.move is flow.move), "")
    return StepCopies(
        direction=_DIRECTIONS[Move(flow.move)],
        count=flow.amount.count / steps,
        bytes=flow.amount.bytes / steps,
        busy_ns=flow.busy.busy_ns / steps / devices,
        exposed_ns=flow.busy.exposed_ns / steps / devices,
        pageable_count=(pageable.count if pageable else 0) / steps,
        pageable_ns=(pageable.time_ns if pageable else 0) / steps / devices,
        node=longest,
    )
