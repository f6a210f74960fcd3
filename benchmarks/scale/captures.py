"""Move a real capture in time: the same step as another rank would have recorded it.

All ranks begin a step together. Each computes at its own speed until it arrives at an all-reduce,
which ends for all at one moment, after the slowest that there may be has arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from wire import Number, Places, parts, places, write

from tfprobe.formats.schema import message_class

COLLECTIVE = "CollectiveReduce"
# How long an all-reduce takes once all are there.
REDUCE_NS = 2_200_000

# Fields of NodeExecStats, AllocatorMemoryUsed and AllocationRecord.
_MICROS, _NANOS, _LABEL = (2, 9), (13, 17), 8
_LASTING_US, _LASTING_NS = (4, 5), (15, 16)
_MEMORY, _RECORD, _RECORDED_US = 6, 6, 1
_LINES, _LINE_NS, _EVENTS, _EVENT_PS = 3, 3, 4, (2, 3)


class Speed(NamedTuple):
    """How a rank went through a step: how much later it began than it was due, how much more it
    computed than was recorded, and how much later than the first it left its all-reduces.
    """

    late_ns: int
    ratio: float
    leaves_ns: int = 0


@dataclass(frozen=True, slots=True)
class Capture:
    """A capture that can be moved; all times are unix ns as they were recorded.

    `stalls_ns` are the beginnings of its all-reduces, in order.
    """

    content: NDArray[np.uint8]
    stalls_ns: NDArray[np.int64]
    slowest_ratio: float
    # Written in us; `value` is in ns.
    absolute_us: Places
    absolute_ns: Places
    lasting_us: Places
    lasting_ns: Places
    # By all-reduce: which numbers of the columns are its own times.
    collective: tuple[_Collective, ...] = ()

    def growth_ns(self, start_ns: int) -> int:
        """Return how much longer than recorded the step is for every rank."""
        ends = _ends_ns(self, start_ns)
        last_ns = int(self.stalls_ns[-1]) if len(self.stalls_ns) else start_ns
        return int(ends[-1] - last_ns) if len(ends) else 0

    def moved(self, start_ns: int, to_ns: int, speed: Speed) -> bytes:
        """Return the bytes of the step as if it were due at `to_ns` instead of `start_ns`."""
        content = self.content.copy()
        ends_ns = _ends_ns(self, start_ns)
        timing = _Timing(start_ns, self.stalls_ns, ends_ns, speed)
        write(content, self.absolute_ns, timing.at(self.absolute_ns.value) + (to_ns - start_ns))
        moved_us = timing.at(self.absolute_us.value) + (to_ns - start_ns)
        write(content, self.absolute_us, moved_us // 1000)
        lasting_ns = (self.lasting_ns.value * speed.ratio).astype(np.int64)
        lasting_us = (self.lasting_us.value * speed.ratio).astype(np.int64)
        for number, each in enumerate(self.collective):
            arrives_ns = int(timing.at(each.start_ns[None])[0])
            waited_ns = int(ends_ns[number]) - arrives_ns + speed.leaves_ns
            lasting_ns[each.lasting_ns] = waited_ns
            lasting_us[each.lasting_us] = waited_ns // 1000
        write(content, self.lasting_ns, lasting_ns)
        write(content, self.lasting_us, lasting_us)
        return content.tobytes()


@dataclass(frozen=True, slots=True)
class _Collective:
    start_ns: np.int64
    lasting_us: slice
    lasting_ns: slice


@dataclass(frozen=True, slots=True)
class _Timing:
    """Where the moments of a recorded step are for a rank: stretched, stopped by all-reduces."""

    start_ns: int
    stalls_ns: NDArray[np.int64]
    ends_ns: NDArray[np.int64]
    speed: Speed

    def at(self, recorded_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return when these moments are; those of the driver before the step are moved alone."""
        part = np.searchsorted(self.stalls_ns, recorded_ns, side="left")
        recorded_from = np.concatenate(([self.start_ns], self.stalls_ns))[part]
        happens_from = np.concatenate(([self.start_ns + self.speed.late_ns], self.ends_ns))[part]
        ahead_ns = recorded_ns - recorded_from
        stretched = (ahead_ns * self.speed.ratio).astype(np.int64)
        return happens_from + np.where(ahead_ns > 0, stretched, ahead_ns)


def read(path: Path, *, slowest_ratio: float) -> Capture:
    """Return the capture of a file; no rank computes longer than recorded times `slowest_ratio`."""
    if path.name.endswith(".xplane.pb"):
        return _of_xspace(path.read_bytes(), slowest_ratio)
    return _of_run_metadata(path.read_bytes(), slowest_ratio)


def _of_run_metadata(content: bytes, slowest_ratio: float) -> Capture:
    message = message_class("tfprobe.step_stats.RunMetadata")()
    message.ParseFromString(content)
    nodes = [node for device in message.step_stats.dev_stats for node in device.node_stats]
    for node in nodes:
        if COLLECTIVE in node.timeline_label:
            # As many bytes as any wait that is written over it.
            node.op_end_rel_micros = node.all_end_rel_micros = REDUCE_NS // 1000
            node.op_end_rel_nanos = node.all_end_rel_nanos = REDUCE_NS
    numbers = _Numbers([], [], [], [])
    found = []
    content = message.SerializeToString()
    for at, end in _nodes(content):
        before = len(numbers.lasting_us), len(numbers.lasting_ns)
        start_ns, is_collective = _take(content, at, end, numbers)
        if is_collective:
            spans = (
                slice(before[0], len(numbers.lasting_us)),
                slice(before[1], len(numbers.lasting_ns)),
            )
            found.append(_Collective(np.int64(start_ns), *spans))
    found.sort(key=lambda each: each.start_ns)
    return Capture(
        np.frombuffer(content, dtype=np.uint8),
        np.array([each.start_ns for each in found], dtype=np.int64),
        slowest_ratio,
        *map(places, numbers),
        tuple(found),
    )


def _of_xspace(content: bytes, slowest_ratio: float) -> Capture:
    numbers = _Numbers([], [], [], [])
    for plane in parts(content, 0, len(content)):
        for line in parts(content, plane.at, plane.end) if plane.field == 1 else ():
            for part in parts(content, line.at, line.end) if line.field == _LINES else ():
                if part.field == _LINE_NS and part.number:
                    numbers.absolute_ns.append(part.number)
                elif part.field == _EVENTS:
                    of_event = parts(content, part.at, part.end)
                    # Only made longer or shorter, for which the unit makes no difference.
                    numbers.lasting_ns.extend(
                        each.number for each in of_event if each.field in _EVENT_PS and each.number
                    )
    none = np.empty(0, dtype=np.int64)
    return Capture(
        np.frombuffer(content, dtype=np.uint8), none, slowest_ratio, *map(places, numbers)
    )


class _Numbers(NamedTuple):
    absolute_us: list[Number]
    absolute_ns: list[Number]
    lasting_us: list[Number]
    lasting_ns: list[Number]


def _nodes(content: bytes) -> list[tuple[int, int]]:
    """Return where each NodeExecStats of a RunMetadata lies."""
    return [
        (node.at, node.end)
        for stats in parts(content, 0, len(content))
        if stats.field == 1
        for device in parts(content, stats.at, stats.end)
        if device.field == 1
        for node in parts(content, device.at, device.end)
        if node.field == 2
    ]


def _take(content: bytes, at: int, end: int, numbers: _Numbers) -> tuple[int, bool]:
    """Note the times of a node; return when it started, and whether it is an all-reduce."""
    fields = tuple(parts(content, at, end))
    told = {part.field: part.number for part in fields if part.number and part.number.value}
    for micros, nanos in zip(_MICROS, _NANOS, strict=True):
        if micros in told and nanos in told:
            numbers.absolute_ns.append(told[nanos])
            # Moved by the nanoseconds, the two stay the same moment.
            numbers.absolute_us.append(told[micros]._replace(value=told[nanos].value))
    numbers.lasting_us.extend(told[field] for field in _LASTING_US if field in told)
    numbers.lasting_ns.extend(told[field] for field in _LASTING_NS if field in told)
    for part in fields:
        if part.field == _MEMORY:
            numbers.absolute_us.extend(_records(content, part.at, part.end))
    labels = (content[part.at : part.end] for part in fields if part.field == _LABEL)
    is_collective = any(f" = {COLLECTIVE}".encode() in label for label in labels)
    return told[_NANOS[0]].value if _NANOS[0] in told else 0, is_collective


def _records(content: bytes, at: int, end: int) -> list[Number]:
    """Return the moments of the allocations and deallocations of a node, in ns."""
    return [
        moment.number._replace(value=moment.number.value * 1000)
        for record in parts(content, at, end)
        if record.field == _RECORD
        for moment in parts(content, record.at, record.end)
        if moment.field == _RECORDED_US and moment.number and moment.number.value > 0
    ]


def _ends_ns(capture: Capture, start_ns: int) -> NDArray[np.int64]:
    """Return when each all-reduce ends, for every rank alike."""
    ends, from_ns, recorded_ns = [], start_ns, start_ns
    for stall_ns in capture.stalls_ns.tolist():
        # A quarter of a millisecond is as much later as ranks begin a step.
        waited_ns = round((stall_ns - recorded_ns) * capture.slowest_ratio) + 250_000
        from_ns, recorded_ns = from_ns + waited_ns + REDUCE_NS, stall_ns
        ends.append(from_ns)
    return np.array(ends, dtype=np.int64)
