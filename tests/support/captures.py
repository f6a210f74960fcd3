"""Write captures for tests: RunMetadata and XSpace bytes as TensorFlow lays them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.rundir import UNIX_NS
from tfprobe.formats.schema import message_class

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"


@dataclass
class Node:
    """A row of StepStats; times are µs from the start of the step.

    `records` are what was allocated and freed for it, and when; `peak_bytes` and `live_bytes` are
    all that recordings without such records tell.
    """

    name: str
    start_us: int = 0
    duration_us: int = 10
    label: str = ""
    requested_bytes: int = 0
    output_bytes: int = 0
    shape: tuple[int, ...] | None = None
    allocator: str = "cpu"
    records: Sequence[tuple[int, int]] = ()
    peak_bytes: int = 0
    live_bytes: int = 0
    in_use_bytes: int = 0
    address: int = 0


class Ref(str):
    """A text that an XSpace holds once and refers to, as the GPU tracer writes all of its."""


@dataclass
class TraceEvent:
    """An event of an XSpace; times are µs from the start of the trace."""

    name: str
    start_us: int = 0
    duration_us: int = 10
    stats: Mapping[str, str | int | float] = field(default_factory=dict)


def run_metadata(devices: Mapping[str, Sequence[Node]]) -> bytes:
    """Return RunMetadata bytes of the rows of each device."""
    message = message_class("tfprobe.step_stats.RunMetadata")()
    for name, nodes in devices.items():
        device = message.step_stats.dev_stats.add(device=name)
        for node in nodes:
            row = device.node_stats.add(
                node_name=node.name,
                timeline_label=node.label,
                all_start_micros=UNIX_NS // 1000 + node.start_us,
                op_end_rel_micros=node.duration_us,
            )
            used = row.memory.add(
                allocator_name=node.allocator,
                total_bytes=node.requested_bytes,
                peak_bytes=node.peak_bytes,
                live_bytes=node.live_bytes,
                allocator_bytes_in_use=node.in_use_bytes,
            )
            for at_us, size in node.records:
                used.allocation_records.add(alloc_micros=UNIX_NS // 1000 + at_us, alloc_bytes=size)
            described = row.output.add().tensor_description
            described.dtype = 1
            described.allocation_description.requested_bytes = node.output_bytes
            described.allocation_description.allocator_name = node.allocator
            described.allocation_description.ptr = node.address
            if node.shape is not None:
                described.shape.SetInParent()
                for size in node.shape:
                    described.shape.dim.add(size=size)
    return bytes(message.SerializeToString())


def xspace(planes: Mapping[str, Mapping[str, Sequence[TraceEvent]]], *, start_ns: int = 0) -> bytes:
    """Return XSpace bytes of plane -> line -> events; `start_ns` is the start of the profile."""
    space = message_class("tfprobe.xplane.XSpace")()
    for plane_name, lines in planes.items():
        _plane(space.planes.add(name=plane_name), lines)
    if start_ns:
        plane = space.planes.add(name="Task Environment")
        plane.stat_metadata[1].name = "profile_start_time"
        plane.stats.add(metadata_id=1, uint64_value=start_ns)
    return bytes(space.SerializeToString())


@dataclass
class Op:
    """A node of a graph; `shapes` are those of its outputs, None for an unknown rank."""

    name: str
    op: str
    inputs: Sequence[str] = ()
    shapes: Sequence[tuple[int, ...] | None] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)


def graph_def(nodes: Sequence[Op], functions: Mapping[str, Function] | None = None) -> bytes:
    """Return GraphDef bytes of nodes and of functions by their names."""
    graph = message_class("tfprobe.graph.GraphDef")()
    for node in nodes:
        _node(graph.node.add(), node)
    for name, function in (functions or {}).items():
        written = graph.library.function.add()
        written.signature.name = name
        for argument in function.arguments:
            written.signature.input_arg.add(name=argument)
        for node in function.nodes:
            _node(written.node_def.add(), node)
        for at, result in enumerate(function.results):
            written.signature.output_arg.add(name=f"result_{at}")
            written.ret[f"result_{at}"] = result
    return bytes(graph.SerializeToString())


@dataclass
class Function:
    """The arguments, the body and the results of a function."""

    arguments: Sequence[str]
    nodes: Sequence[Op]
    results: Sequence[str] = ()


def optimized(nodes: Sequence[Op]) -> bytes:
    """Return RunMetadata bytes of the graph that was made of a function."""
    message = message_class("tfprobe.step_stats.RunMetadata")()
    graph = message.function_graphs.add().post_optimization_graph
    graph.MergeFromString(graph_def(nodes))
    return bytes(message.SerializeToString())


def _node(written, node):
    written.name, written.op = node.name, node.op
    written.input.extend(node.inputs)
    for shape in node.shapes:
        listed = written.attr["_output_shapes"].list.shape.add(unknown_rank=shape is None)
        for size in shape or ():
            listed.dim.add(size=size)
    for name, value in node.attributes.items():
        attribute = written.attr[name]
        if isinstance(value, bool):
            attribute.b = value
        elif isinstance(value, int):
            attribute.i = value
        elif isinstance(value, str) and name in ("f", "body", "cond"):
            attribute.func.name = value
        elif isinstance(value, str):
            attribute.s = value.encode()
        elif value and isinstance(value[0], str):
            attribute.list.s.extend(each.encode() for each in value)
        else:
            attribute.list.i.extend(value)


def _plane(plane, lines):
    ids: dict[str, int] = {}

    def stat_id(name):
        number = 1000 + ids.setdefault(f"stat {name}", len(ids) + 1)
        plane.stat_metadata[number].name = name
        return number

    for at, (name, events) in enumerate(lines.items()):
        line = plane.lines.add(name=name, id=at + 1)
        for event in events:
            number = ids.setdefault(event.name, len(ids) + 1)
            plane.event_metadata[number].name = event.name
            row = line.events.add(
                metadata_id=number,
                offset_ps=event.start_us * 1_000_000,
                duration_ps=event.duration_us * 1_000_000,
            )
            for key, value in event.stats.items():
                stat = row.stats.add(metadata_id=stat_id(key))
                if isinstance(value, Ref):
                    stat.ref_value = stat_id(value)
                elif isinstance(value, float):
                    stat.double_value = value
                elif isinstance(value, int) and value >= 2**63:
                    stat.uint64_value = value
                elif isinstance(value, int):
                    stat.int64_value = value
                else:
                    stat.str_value = value
