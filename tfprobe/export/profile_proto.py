"""Write a profile as tfprof's ProfileProto, which its own engine and the old profiler-ui load."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tfprobe.errors import UnreadableInput
from tfprobe.formats.schema import message_class
from tfprobe.profile.graph import Attribute, Frame, Node
from tfprobe.profile.records import GraphProfile, MemoryUse, Record, Span


def profile_proto(profile: GraphProfile) -> bytes:
    """Return the profile in ProfileProto's binary form.

    An input that no node of the graph produces is left out; the engine would fail on it. Of the
    attributes of a node those are in it that the profile keeps.

    Raises UnreadableInput where an amount does not fit into 64 bits.
    """
    try:
        return _serialized(profile)
    except ValueError as exc:
        raise UnreadableInput(f"An amount does not fit into a ProfileProto ({exc}).") from exc


def _serialized(profile: GraphProfile) -> bytes:
    message = message_class("tfprobe.tfprof.ProfileProto")()
    ids = {node.name: at for at, node in enumerate(profile.graph.nodes)}
    strings = _Strings(message.id_to_string)
    for at, node in enumerate(profile.graph.nodes):
        written = message.nodes[at]
        written.id = at
        _write_node(written, node, strings)
        _write_inputs(written, node, ids, minds_outputs=profile.graph.minds_outputs)
        _write_device(written, profile.devices[at])
        for step, record in profile.records[at].items():
            _write_record(written.execs[step], record)
    message.has_trace = profile.graph.has_traces
    message.miss_accelerator_stream = profile.lacks_stream
    message.steps.extend(profile.steps)
    return bytes(message.SerializeToString(deterministic=True))


class _Strings:
    """Numbers strings in the order of their first use; 0 stands for none.

    It is in the table too: the engine ends the process where a number is not.
    """

    def __init__(self, table: Any) -> None:
        self._table = table
        self._numbers: dict[str, int] = {}
        self.number("")

    def number(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self._numbers)
            self._table[self._numbers[text]] = text
        return self._numbers[text]


def _write_node(written: Any, node: Node, strings: _Strings) -> None:
    written.name = node.name
    written.op = node.op
    for index, shape in node.output_shapes.items():
        written.output_shapes[index].int64_values.extend(shape)
    written.shape.extend(node.shape)
    written.op_types.extend(sorted(node.types))
    written.float_ops = node.float_ops
    for name, value in node.attributes.items():
        _write_attribute(written.attrs[name], value)
    for frame in node.trace or ():
        _write_frame(written.trace.traces.add(), frame, strings)


def _write_inputs(written: Any, node: Node, ids: Mapping[str, int], *, minds_outputs: bool) -> None:
    for index, producer in node.inputs.items():
        if producer in ids:
            written.inputs[index] = ids[producer]
            source = node.sources.get(index, 0) if minds_outputs else 0
            written.src_output_index[ids[producer]] = source


def _write_attribute(written: Any, value: Attribute) -> None:
    if isinstance(value, bool):
        written.b = value
    elif isinstance(value, int):
        written.i = value
    elif isinstance(value, float):
        written.f = value
    elif isinstance(value, str):
        written.s = value.encode()
    else:
        written.list.i.extend(value)


def _write_frame(written: Any, frame: Frame, strings: _Strings) -> None:
    written.file_id = strings.number(frame.file)
    written.lineno = frame.line
    written.function_id = strings.number(frame.function)
    written.func_start_line = frame.function_line


def _write_device(written: Any, device: str | None) -> None:
    if device is None:
        return
    written.canonical_device = device
    written.host_device = re.sub(r"gpu:\d+", "cpu:0", device)
    if device not in written.op_types:
        written.op_types.append(device)


def _write_record(written: Any, record: Record) -> None:
    written.run_count = record.run_count
    written.all_start_micros = record.start_us
    written.latest_end_micros = record.end_us
    _write_spans(written.accelerator_execs, record.accelerator)
    _write_spans(written.cpu_execs, record.cpu)
    written.devices.extend(sorted({*record.accelerator, *record.cpu}))
    for use in record.memory:
        _write_memory(written.memory_execs.add(), use)
    for allocation in record.allocations:
        written.allocations.add(alloc_micros=allocation.at_us, alloc_bytes=allocation.bytes)


def _write_spans(written: Any, spans_by_device: Mapping[str, tuple[Span, ...]]) -> None:
    for device, spans in spans_by_device.items():
        for span in spans:
            written[device].times.add().int64_values.extend((span.start_us, span.duration_us))


def _write_memory(written: Any, use: MemoryUse) -> None:
    written.memory_micros = use.at_us
    written.requested_bytes = use.requested_bytes
    written.peak_bytes = use.peak_bytes
    written.residual_bytes = use.residual_bytes
    written.output_bytes = use.output_bytes
    written.allocator_bytes_in_use = use.in_use_bytes
    if use.on_host:
        written.host_temp_bytes = use.temporary_bytes
        written.host_persistent_bytes = use.persistent_bytes
    else:
        written.accelerator_temp_bytes = use.temporary_bytes
        written.accelerator_persistent_bytes = use.persistent_bytes
