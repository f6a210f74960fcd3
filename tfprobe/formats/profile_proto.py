"""Read tfprof's ProfileProto, which contains a graph and what its nodes did in some steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfprobe.errors import UnreadableInput
from tfprobe.formats.graph_profile import trace
from tfprobe.formats.node_attributes import attributes
from tfprobe.formats.schema import parse
from tfprobe.profile.graph import Frame, Graph, Node
from tfprobe.profile.records import Allocation, GraphProfile, MemoryUse, Record, Span


def graph_profile(content: bytes) -> GraphProfile:
    """Decode the profile in a ProfileProto; nodes are in the order of their ids.

    Raises UnreadableInput if the bytes are not a ProfileProto or contain no node.
    """
    profile = parse(content, "tfprobe.tfprof.ProfileProto")
    if not profile.nodes:
        raise UnreadableInput("a ProfileProto without nodes")
    nodes = [profile.nodes[key] for key in sorted(profile.nodes)]
    names = {key: node.name for key, node in profile.nodes.items()}
    traces = _Traces(dict(profile.id_to_string))
    return GraphProfile(
        graph=Graph(tuple(_node(node, names, traces) for node in nodes), minds_outputs=True),
        steps=tuple(sorted(profile.steps)),
        devices=tuple(node.canonical_device or None for node in nodes),
        records=tuple(_records(node.execs) for node in nodes),
        covered=sum(1 for node in nodes if node.execs),
        lacks_stream=profile.miss_accelerator_stream,
    )


class _Traces:
    """Reads traces; nodes created at one place in the code share a trace, which is read once."""

    def __init__(self, strings: Mapping[int, str]) -> None:
        self._strings = strings
        self._known: dict[bytes, tuple[Frame, ...] | None] = {b"": None}

    def read(self, code: Any) -> tuple[Frame, ...] | None:
        content = code.SerializeToString()
        if content not in self._known:
            self._known[content] = trace(code, self._strings) or None
        return self._known[content]


def _node(node: Any, names: Mapping[int, str], traces: _Traces) -> Node:
    inputs = dict(node.inputs) if node.inputs else {}
    outputs = dict(node.src_output_index) if inputs else {}
    return Node(
        name=node.name,
        op=node.op,
        inputs={index: names[key] for index, key in inputs.items() if key in names},
        sources={index: outputs[key] for index, key in inputs.items() if outputs.get(key)},
        shape=tuple(node.shape) if node.shape else (),
        output_shapes={
            index: tuple(shape.int64_values) for index, shape in node.output_shapes.items()
        },
        types=frozenset((*node.op_types, node.op)),
        float_ops=node.float_ops,
        attributes=attributes(node.attrs),
        trace=traces.read(node.trace) if node.HasField("trace") else None,
    )


def _records(executions: Mapping[int, Any]) -> dict[int, Record]:
    return {step: _record(executions[step]) for step in sorted(executions)} if executions else {}


def _record(record: Any) -> Record:
    return Record(
        run_count=record.run_count,
        start_us=record.all_start_micros,
        end_us=record.latest_end_micros,
        accelerator=_spans(record.accelerator_execs),
        cpu=_spans(record.cpu_execs),
        memory=tuple(_memory_use(memory_exec) for memory_exec in record.memory_execs),
        allocations=tuple(
            Allocation(allocation.alloc_micros, allocation.alloc_bytes)
            for allocation in record.allocations
        ),
    )


def _spans(times_by_device: Mapping[str, Any]) -> dict[str, tuple[Span, ...]]:
    if not times_by_device:
        return {}
    return {
        device: tuple(
            Span(*each.int64_values[:2]) for each in times.times if len(each.int64_values) >= 2
        )
        for device, times in times_by_device.items()
    }


def _memory_use(memory: Any) -> MemoryUse:
    on_accelerator = memory.accelerator_temp_bytes or memory.accelerator_persistent_bytes
    return MemoryUse(
        at_us=memory.memory_micros,
        requested_bytes=memory.requested_bytes,
        peak_bytes=memory.peak_bytes,
        residual_bytes=memory.residual_bytes,
        output_bytes=memory.output_bytes,
        temporary_bytes=memory.accelerator_temp_bytes or memory.host_temp_bytes,
        persistent_bytes=memory.accelerator_persistent_bytes or memory.host_persistent_bytes,
        on_host=not on_accelerator,
        in_use_bytes=memory.allocator_bytes_in_use,
    )
