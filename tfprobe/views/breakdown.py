"""Divide sampled step time into before, on and after the accelerator, and the rest.

At each instant a step is charged to one part: of the parts active then, the first in the order
below. So the parts of a step sum to the step, and what overlaps is hidden by what matters more.
The idea is XProf's (event_span.cc, ToNonOverlappedEvents).

 1  device_compute    a kernel runs
 2  device_to_device  a copy between or within devices, or a collective
 3  device_to_host    a copy to the host
 4  host_to_device    a copy to the device
 5  host_compute      an op runs on the host, in a step without an accelerator
 6  input             the step waits for an iterator or a queue
 7  host_compute      the same as 5, in a step with an accelerator: there it is mostly scheduling
    other             none of them: Python, the executor, feeds and fetches, waiting for others

Work on threads that prepare later steps (tf.data workers) is not step time: it counts only when
the step waits for it, as input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfprobe.errors import Missing
from tfprobe.model.executions import Executions, Place
from tfprobe.model.profile import Capture, Profile

Int64s = npt.NDArray[np.int64]
# Process and work; no work where a capture does not tell its own.
_WorkKey = tuple[int, int | None]

# Every part is a multiple of this, which a binary float holds exactly: parts sum to 1 exactly.
RESOLUTION = 1 << 20

_PARTS: tuple[str, ...] = (
    "device_compute",
    "device_to_device",
    "device_to_host",
    "host_to_device",
    "host_compute",
    "input",
)
_INPUT_PREFIXES = ("IteratorGetNext", "QueueDequeue", "FIFOQueueDequeue", "Unstage", "ReaderRead")
_COLLECTIVE_PREFIXES = ("Nccl", "nccl", "Collective")
# Ops whose time is waiting for somebody else.
_WAITS = frozenset({"_Recv", "_HostRecv", "_Send", "_HostSend", "RecvTensor"})
_NO_PART = len(_PARTS)


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Fractions of sampled step time; together exactly 1."""

    input: float
    host_to_device: float
    device_compute: float
    device_to_device: float
    host_compute: float
    device_to_host: float
    other: float
    captures: int

    @property
    def before(self) -> float:
        return self.input + self.host_to_device

    @property
    def on(self) -> float:
        return self.device_compute + self.device_to_device + self.host_compute

    @property
    def after(self) -> float:
        return self.device_to_host


def divide(profile: Profile) -> Breakdown | Missing:
    """Return the breakdown over all sampled steps.

    A work weighs as much as its steps took in all, sampled or not, so that a work which was
    sampled more often does not count more.
    """
    if not profile.captures:
        return Missing("no step was sampled")
    parts_of_types = _parts_of_types(profile.executions)
    spent: dict[_WorkKey, npt.NDArray[np.float64]] = {}
    for capture in profile.captures:
        key = (capture.process, None if isinstance(capture.work, Missing) else capture.work)
        part_ns = _sweep(profile.executions, capture, parts_of_types)
        spent[key] = spent.get(key, np.zeros(_NO_PART + 1)) + part_ns
    weights_ns: dict[_WorkKey, int] = {
        (work.process, work.index): work.times.sum_ns for work in profile.works
    }
    fractions = _weighted(spent, weights_ns)
    if fractions is None:
        return Missing("the sampled steps took no time")
    return _exact(fractions, captures=len(profile.captures))


def _parts_of_types(rows: Executions) -> Int64s:
    """Return the part of each interned string as a host op type."""
    part = {True: _PARTS.index("input"), False: _PARTS.index("host_compute")}
    parts = [part[text.startswith(_INPUT_PREFIXES)] for text in rows.strings.values]
    for i, text in enumerate(rows.strings.values):
        if text in _WAITS:
            parts[i] = _NO_PART
    return np.array(parts, dtype=np.int64)


def _sweep(rows: Executions, capture: Capture, parts_of_types: Int64s) -> npt.NDArray[np.float64]:
    """Return the ns of each part in one step; the last is the uncovered time."""
    mine = rows.only((rows.capture == capture.index) & ~rows.background)
    part = _part_of_rows(mine, parts_of_types)
    start_ns, end_ns = _in_window(mine, capture)
    spent = np.zeros(_NO_PART + 1)
    covered_ns = 0
    active = np.zeros(len(mine), dtype=np.bool_)
    for index in _order(mine):
        active |= part == index
        union_ns = _union_ns(start_ns[active], end_ns[active])
        # What a part adds to the union of those before it is what is charged to it.
        spent[index] = union_ns - covered_ns
        covered_ns = union_ns
    spent[_NO_PART] = max(capture.duration_ns - covered_ns, 0)
    return spent


def _order(rows: Executions) -> tuple[int, ...]:
    has_accelerator = bool((rows.place != Place.HOST).any())
    last = ("input", "host_compute") if has_accelerator else ("host_compute", "input")
    return tuple(_PARTS.index(name) for name in (*_PARTS[:4], *last))


def _part_of_rows(rows: Executions, parts_of_types: Int64s) -> Int64s:
    part = parts_of_types[rows.op_type]
    for place, name in (
        (Place.ACCELERATOR, "device_compute"),
        (Place.HOST_TO_DEVICE, "host_to_device"),
        (Place.DEVICE_TO_HOST, "device_to_host"),
        (Place.DEVICE_TO_DEVICE, "device_to_device"),
    ):
        part[rows.place == place] = _PARTS.index(name)
    texts = rows.strings.values
    collective = np.array([text.startswith(_COLLECTIVE_PREFIXES) for text in texts], dtype=np.bool_)
    part[collective[rows.op_type]] = _PARTS.index("device_to_device")
    return part


def _in_window(rows: Executions, capture: Capture) -> tuple[Int64s, Int64s]:
    """Return starts and ends, clipped to the step.

    Rows that lie mostly outside were recorded on another clock: they are moved so that the first
    starts with the step.
    """
    start_ns, end_ns = rows.start_ns, rows.start_ns + rows.duration_ns
    clipped = _clip(start_ns, end_ns, capture)
    inside_ns = float((clipped[1] - clipped[0]).sum())
    if len(rows) and inside_ns < 0.5 * float(rows.duration_ns.sum()):
        shift_ns = capture.start_ns - int(start_ns.min())
        return _clip(start_ns + shift_ns, end_ns + shift_ns, capture)
    return clipped


def _clip(start_ns: Int64s, end_ns: Int64s, capture: Capture) -> tuple[Int64s, Int64s]:
    low, high = capture.start_ns, capture.start_ns + capture.duration_ns
    return np.clip(start_ns, low, high), np.clip(end_ns, low, high)


def _union_ns(start_ns: Int64s, end_ns: Int64s) -> int:
    if not len(start_ns):
        return 0
    order = np.argsort(start_ns, kind="stable")
    starts, ends = start_ns[order], np.maximum.accumulate(end_ns[order])
    reached = np.concatenate([starts[:1], ends[:-1]])
    return int(np.maximum(ends - np.maximum(starts, reached), 0).sum())


def _weighted(
    spent: Mapping[_WorkKey, npt.NDArray[np.float64]], weights_ns: Mapping[_WorkKey, int]
) -> npt.NDArray[np.float64] | None:
    total = np.zeros(_NO_PART + 1)
    for key, part_ns in spent.items():
        if part_ns.sum() > 0:
            total += part_ns / part_ns.sum() * (weights_ns.get(key) or part_ns.sum())
    return total / total.sum() if total.sum() > 0 else None


def _exact(fractions: npt.NDArray[np.float64], *, captures: int) -> Breakdown:
    units = [int(fraction * RESOLUTION) for fraction in fractions[:_NO_PART]]
    values = {name: unit / RESOLUTION for name, unit in zip(_PARTS, units, strict=True)}
    return Breakdown(**values, other=(RESOLUTION - sum(units)) / RESOLUTION, captures=captures)
