"""Draw one step as TensorFlow's `tensorflow.python.client.timeline.Timeline` does.

The text is the same, byte for byte, so that what reads those files reads ours. Its rules:

- A device has two rows, Compute and Tensors. An execution goes to the first lane that was free
  strictly before it starts.
- An arrow leads from the end of an op to the start of each that takes its output, unless both are
  in the same lane. An input nobody made is looked for once more without a suffix `/_N`, which a
  send and a receive add.
- A tensor lives from the start of its op to the end of the last one that takes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tfprobe.profile.records import DeviceStats, NodeStats, TensorOutput

# How long an op is drawn: while it was scheduled, while its kernels ran, or from the first to the
# last of both.
OpTime = Literal["schedule", "gpu", "all"]
OP_TIMES: tuple[OpTime, ...] = ("schedule", "gpu", "all")
_LABEL = re.compile(r"(.*) = (.*)\((.*)\)")
_UNKNOWN = "unknown"
_ALLOCATORS_PID = 0
_RECEIVE = "RecvTensor"

# Any: a JSON object.
_Event = dict[str, Any]


def step_timeline(
    devices: Sequence[DeviceStats],
    *,
    show_dataflow: bool = True,
    show_memory: bool = False,
    op_time: OpTime = "schedule",
) -> str:
    """Return the file's text; open it in chrome://tracing or Perfetto."""
    timeline = _Timeline(_redrawn(devices, op_time))
    for row in timeline.rows:
        for placed in row.placed:
            timeline.add_tensors(row, placed, show_memory=show_memory)
    for row in timeline.rows:
        for placed in row.placed:
            timeline.add_compute(row, placed, show_dataflow=show_dataflow)
    if show_memory:
        timeline.add_counters()
    events = [*timeline.processes, *timeline.events]
    return json.dumps({"traceEvents": events}, indent=4, separators=(",", ": "))


@dataclass(frozen=True, slots=True)
class _Placed:
    """An execution and its lane."""

    node: NodeStats
    lane: int


@dataclass(slots=True)
class _Tensor:
    """An output: its producer, the device, and its last consumer."""

    name: str
    number: int
    output: TensorOutput
    pid: int
    maker: _Placed
    maker_pid: int
    last_us: int


@dataclass(frozen=True, slots=True)
class _Row:
    """A device with its two pids."""

    device: DeviceStats
    compute_pid: int
    tensors_pid: int
    placed: list[_Placed] = field(default_factory=list)

    @property
    def is_gpu_trace(self) -> bool:
        return "/stream:" in self.device.device or "/memcpy" in self.device.device


class _Timeline:
    """The events of one file, and the tensors produced so far."""

    def __init__(self, devices: Sequence[DeviceStats]) -> None:
        self.processes = [_process("Allocators", _ALLOCATORS_PID)]
        self.events: list[_Event] = []
        self._tensors: dict[str, _Tensor] = {}
        self._arrows = 0
        pids: dict[str, tuple[int, int]] = {}
        for at, device in enumerate(devices):
            pids[device.device] = 2 * at + 1, 2 * at + 2
            for pid, kind in zip(pids[device.device], ("Compute", "Tensors"), strict=True):
                self.processes.append(_process(f"{device.device} {kind}", pid))
        # Of two devices with the same name, the first is drawn with the pids of the last.
        self.rows = [_Row(each, *pids[each.device], _in_lanes(each.nodes)) for each in devices]

    def add_tensors(self, row: _Row, placed: _Placed, *, show_memory: bool) -> None:
        node = placed.node
        for index, output in enumerate(node.outputs):
            name = f"{node.name}:{index}" if index else node.name
            tensor = _Tensor(
                name,
                len(self._tensors),
                output,
                row.tensors_pid,
                placed,
                row.compute_pid,
                node.end_us,
            )
            self._tensors[name] = tensor
            if show_memory:
                self._add(_object("N", tensor, placed.lane, node.start_us))
                text = output.description.replace('"', "")
                snapshot = {"snapshot": {"tensor_description": text}}
                event = _object("O", tensor, placed.lane, node.end_us - 1)
                self._add({**event, "args": snapshot})

    def add_compute(self, row: _Row, placed: _Placed, *, show_dataflow: bool) -> None:
        name, op, inputs = _name_op_inputs(row, placed.node)
        args = {"name": name, "op": op} | {f"input{at}": each for at, each in enumerate(inputs)}
        node = placed.node
        event = _event("X", "Op", op, row.compute_pid, placed.lane, node.start_us)
        self._add({**event, "dur": node.duration_us, "args": args})
        for taken in inputs:
            found = self._maker(taken)
            if found is None:
                continue
            found.last_us = max(found.last_us, node.end_us - 1)
            here = row.compute_pid, placed.lane
            if show_dataflow and here != (found.maker_pid, found.maker.lane):
                self._add_arrow(found, row, placed)

    def add_counters(self) -> None:
        by_allocator: dict[str, list[tuple[int, int, str]]] = {}
        for tensor in self._tensors.values():
            self._add(_object("D", tensor, 0, tensor.last_us))
            changes = by_allocator.setdefault(tensor.output.allocator, [])
            size = tensor.output.requested_bytes
            changes.append((tensor.maker.node.start_us, size, tensor.name))
            changes.append((tensor.last_us, -size, tensor.name))
        for allocator, changes in by_allocator.items():
            allocated = 0
            for at_us, size, _ in sorted(changes):
                allocated += size
                event = _event("C", "Memory", allocator, _ALLOCATORS_PID, 0, at_us)
                self._add({**event, "args": {allocator: allocated}})

    def _maker(self, taken: str) -> _Tensor | None:
        if taken not in self._tensors and taken.rfind("/_") > 0:
            taken = taken[: taken.rfind("/_")]
        return self._tensors.get(taken)

    def _add_arrow(self, tensor: _Tensor, row: _Row, to: _Placed) -> None:
        made, name = tensor.maker, tensor.name
        start = _event("s", "DataFlow", name, tensor.maker_pid, made.lane, made.node.end_us)
        end = _event("t", "DataFlow", name, row.compute_pid, to.lane, to.node.start_us)
        self._add({**start, "id": self._arrows})
        self._add({**end, "id": self._arrows})
        self._arrows += 1

    def _add(self, event: _Event) -> None:
        self.events.append(event)


def _name_op_inputs(row: _Row, node: NodeStats) -> tuple[str, str, list[str]]:
    """Return name, op and inputs of an execution, as far as its name and label have them."""
    if row.is_gpu_trace:
        return *_of_kernel(node), []
    if node.name == _RECEIVE:
        return node.name, _RECEIVE, []
    label = _LABEL.match(node.label)
    if label is None:
        return node.name, _UNKNOWN, []
    return node.name, label[2], label[3].split(", ") if label[3] else []


def _of_kernel(node: NodeStats) -> tuple[str, str]:
    """Return the name and op that a kernel ran for: between `@@` and `#`, or in the row's name."""
    name, start, end = node.name, node.label.find("@@"), node.label.find("#")
    if start >= 0 and start + 2 < end:
        name = node.label[start + 2 : end]
    first, *more = name.split(":")
    return first, more[0] if more else _UNKNOWN


def _in_lanes(nodes: Sequence[NodeStats]) -> list[_Placed]:
    ends_us, placed = [0], []
    for node in nodes:
        free = (lane for lane, end_us in enumerate(ends_us) if node.start_us > end_us)
        lane = next(free, len(ends_us))
        ends_us[lane : lane + 1] = [node.end_us]
        placed.append(_Placed(node, lane))
    return placed


def _redrawn(devices: Sequence[DeviceStats], op_time: OpTime) -> Sequence[DeviceStats]:
    """Return the devices with the times of ops that have kernels as `op_time` says."""
    if op_time == "schedule":
        return devices
    spans: dict[str, tuple[int, int]] = {}
    for kernel in _kernels(devices):
        name = _of_kernel(kernel)[0]
        start_us, end_us = spans.get(name, (kernel.start_us, kernel.end_us))
        spans[name] = min(start_us, kernel.start_us), max(end_us, kernel.end_us)
    return [
        replace(device, nodes=tuple(_stretched(node, spans, op_time) for node in device.nodes))
        if "/stream:all" not in device.device and "/job" in device.device
        else device
        for device in devices
    ]


def _kernels(devices: Sequence[DeviceStats]) -> Iterator[NodeStats]:
    for device in devices:
        if "/stream:all" in device.device:
            yield from device.nodes


def _stretched(node: NodeStats, spans: dict[str, tuple[int, int]], op_time: OpTime) -> NodeStats:
    if node.name not in spans:
        return node
    first_us, last_us = spans[node.name]
    start_us = first_us if op_time == "gpu" else node.start_us
    return replace(node, start_us=start_us, duration_us=max(last_us, node.end_us) - start_us)


def _process(name: str, pid: int) -> _Event:
    return {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}


def _object(phase: str, tensor: _Tensor, lane: int, at_us: int) -> _Event:
    return {**_event(phase, "Tensor", tensor.name, tensor.pid, lane, at_us), "id": tensor.number}


def _event(phase: str, kind: str, name: str, pid: int, lane: int, at_us: int) -> _Event:
    return {"ph": phase, "cat": kind, "name": name, "pid": pid, "tid": lane, "ts": at_us}
