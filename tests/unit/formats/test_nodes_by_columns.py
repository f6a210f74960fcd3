"""Nodes that are read by columns are those that the library of protobuf reads one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.captures import CPU, GPU, Node, run_metadata
from tests.support.golden import GOLDEN
from tests.support.wire_writer import message, tag, varint
from tfprobe.errors import UnreadableInput
from tfprobe.formats.node_attributes import data_type, tensor_text
from tfprobe.formats.run_metadata import NodeReader, take_apart
from tfprobe.formats.run_metadata.nodes import sums
from tfprobe.formats.schema import message_class, parse
from tfprobe.profile.tables import Interner, signed

RUN_METADATA = "tfprobe.step_stats.RunMetadata"
STEP_STATS = "tfprobe.step_stats.StepStats"
REFUSED = "refused"
CAPTURES = sorted(GOLDEN.glob("**/run_meta*"))
MADE = settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))


def by_protobuf(content):
    """Return what a capture says, node by node, or REFUSED."""
    try:
        devices = parse(content, RUN_METADATA).step_stats.dev_stats
    except UnreadableInput:
        return REFUSED
    told = [
        (each.device, dict(each.thread_names), [of_protobuf(node) for node in each.node_stats])
        for each in devices
    ]
    return told or REFUSED


def of_protobuf(node):
    """Return what a node says."""
    beside = node.memory_stats.temp_memory_size + node.memory_stats.persistent_memory_size
    held = (each.tensor_description.allocation_description for each in node.output)
    outputs = outputs_of(node)
    return (
        (node.node_name, node.timeline_label, node.thread_id),
        (node.all_start_micros, node.all_start_nanos),
        (node.op_end_rel_micros, node.op_end_rel_nanos),
        fitting(sum(used.total_bytes for used in node.memory) + beside),
        fitting(sum(max(each.allocated_bytes, each.requested_bytes) for each in held)),
        [
            (
                (used.allocator_name, used.total_bytes, used.peak_bytes, used.live_bytes),
                used.allocator_bytes_in_use,
                [
                    (
                        record.alloc_micros,
                        record.alloc_bytes,
                        *outputs.get((used.allocator_name, abs(record.alloc_bytes)), ("", 0)),
                    )
                    for record in used.allocation_records
                ],
            )
            for used in node.memory
        ],
    )


def outputs_of(node):
    """Return shape and address by allocator and size; those of several as far as they agree."""
    found = {}
    for output in node.output:
        tensor = output.tensor_description
        memory = tensor.allocation_description
        text = tensor_text(data_type(tensor.dtype), (each.size for each in tensor.shape.dim))
        for size in {memory.allocated_bytes, memory.requested_bytes}:
            key = (memory.allocator_name, size)
            found.setdefault(key, []).append((text, signed(memory.ptr)))
    return {
        key: (
            each[0][0] if len({text for text, _ in each}) == 1 else "",
            each[0][1] if len(set(each)) == 1 else 0,
        )
        for key, each in found.items()
    }


def fitting(value):
    """Return a sum, None where it does not fit."""
    return value if -(2**63) <= value < 2**63 else None


def by_columns(*contents):
    """Return the same of captures that are read together."""
    interner = Interner()
    found = take_apart(NodeReader(interner), contents)
    return [
        REFUSED
        if isinstance(each, UnreadableInput)
        else [
            (device.name, device.threads, nodes_of(each.nodes, device.rows, interner))
            for device in each.devices
        ]
        for each in found
    ]


def nodes_of(nodes, rows, interner):
    """Return what the columns say of these rows."""
    places = range(rows.start, rows.stop)
    return [of_columns(nodes, at, interner) for at in places]


def of_columns(nodes, at, interner):
    """Return what the columns say of a node."""
    used, records, text = nodes.used, nodes.records, interner.text
    shape, address = records.described
    entries = (used.owner == at).nonzero()[0].tolist()
    return (
        (text_at(nodes, nodes.name, at), text_at(nodes, nodes.label, at), int(nodes.thread[at])),
        (int(nodes.start_us[at]), int(nodes.start_ns[at])),
        (int(nodes.end_us[at]), int(nodes.end_ns[at])),
        sum_at(nodes.requested, at),
        sum_at(nodes.allocated, at),
        [
            (
                (
                    text(used.allocator[entry]),
                    int(used.total_bytes[entry]),
                    int(used.peak_bytes[entry]),
                    int(used.live_bytes[entry]),
                ),
                int(used.in_use_bytes[entry]),
                [
                    (
                        int(records.at_us[row]),
                        int(records.bytes[row]),
                        text(shape[row]),
                        int(address[row]),
                    )
                    for row in (records.owner == entry).nonzero()[0].tolist()
                ],
            )
            for entry in entries
        ],
    )


def text_at(nodes, extents, at):
    """Return a text of a node."""
    return nodes.buffer.content[extents.start[at] : extents.end[at]].decode()


def sum_at(found, at):
    """Return a sum of a node, None where it does not fit."""
    overflows = found.overflows is not None and found.overflows[at]
    return None if overflows else int(found.values[at])


def holding(inner, field=1):
    """Return a message that has another in a field."""
    return tag(field, 2) + varint(len(inner)) + inner


def sample():
    """Return a capture with a bit of everything."""
    nodes = [
        Node("a/é", 5, 3, "a = MatMul(x)", 64, 32, (4, 8), records=[(1, 32), (2, -32)], address=7),
        Node("b", 5, 3, "b = Relu(a)", 1 << 40, 3, (), "a longer name of one", in_use_bytes=5),
    ]
    return run_metadata({CPU: nodes, GPU: nodes[:1]})


@pytest.mark.skipif(not CAPTURES, reason=f"{GOLDEN} is not on this machine")
def test_recorded_captures_are_read_the_same():
    """Each by itself and all together, of many versions of TensorFlow."""
    contents = [path.read_bytes() for path in CAPTURES]

    assert by_columns(*contents) == [by_protobuf(content) for content in contents]


@pytest.mark.slow
@MADE
@given(st.lists(message(message_class(STEP_STATS).DESCRIPTOR, is_usual=True), max_size=3))
def test_whatever_is_written_as_usual_is_read_the_same(steps):
    """Absent fields, repeated ones, the largest numbers; several captures at once."""
    contents = [holding(step) for step in steps]

    assert by_columns(*contents) == [by_protobuf(content) for content in contents]


@pytest.mark.slow
@MADE
@given(message(message_class("tfprobe.step_stats.NodeExecStats").DESCRIPTOR))
def test_whatever_is_written_in_another_form_is_read_the_same(node):
    """In any order, fields twice, unknown ones, groups, and longer varints than need be."""
    content = holding(holding(holding(node, 2)))

    assert by_columns(content, sample()) == [by_protobuf(content), by_protobuf(sample())]


@pytest.mark.slow
def test_a_capture_that_is_cut_anywhere_is_refused_or_read_the_same():
    """A file may end at any byte."""
    content = sample()

    for end in range(len(content)):
        assert by_columns(content[:end]) == [by_protobuf(content[:end])]


def test_a_damaged_capture_is_refused_or_read_the_same():
    """Any byte may be another one."""
    content, rng = sample(), random.Random(7)
    for _ in range(200):
        broken = bytearray(content)
        for _ in range(rng.choice([1, 1, 3])):
            broken[rng.randrange(len(broken))] = rng.randrange(256)

        assert by_columns(bytes(broken)) == [by_protobuf(bytes(broken))]


def test_one_damaged_capture_takes_no_other_with_it():
    """Those that are read together are refused one by one."""
    good, bad = sample(), sample()[:-3]

    assert by_columns(good, bad, b"", good) == [
        by_protobuf(good),
        REFUSED,
        REFUSED,
        by_protobuf(good),
    ]


def test_nodes_that_lie_apart_are_read():
    """A message may come in pieces: names of threads among its nodes, and a device twice."""
    first, second = Node("a", label="a = A()"), Node("b", label="b = B()")
    pieces = [parse(run_metadata({CPU: [each]}), RUN_METADATA) for each in (first, second)]
    nodes = [each.step_stats.dev_stats[0].node_stats[0].SerializeToString() for each in pieces]
    name, threads = holding(CPU.encode()), holding(tag(1, 0) + varint(7), 3)
    device = holding(name + holding(nodes[0], 2) + threads + holding(nodes[1], 2))

    for content in (holding(device), holding(device) * 2, holding(device * 2)):
        assert by_columns(content, sample()) == [by_protobuf(content), by_protobuf(sample())]


def test_more_outputs_than_any_node_has_are_read():
    """What a node repeats is read in rounds, and one by one where that would take too many."""
    capture = parse(sample(), RUN_METADATA)
    node = capture.step_stats.dev_stats[0].node_stats[0]
    for size in range(200):
        used = node.memory.add(allocator_name="cpu", total_bytes=size)
        used.allocation_records.add(alloc_micros=size, alloc_bytes=-size)
        memory = node.output.add().tensor_description.allocation_description
        memory.allocator_name, memory.requested_bytes, memory.ptr = "cpu", size, 2**64 - size - 1
    content = capture.SerializeToString()

    assert by_columns(content) == [by_protobuf(content)]


def test_a_sum_that_does_not_fit_is_known():
    """The rest of them stays as it is."""
    owner, values = np.array([0, 0, 2]), np.array([2**62, 2**62, -5])

    found = sums(3, (owner, values), (owner, values))

    assert found.overflows.tolist() == [True, False, False]
    assert found.at(np.array([1, 2])).tolist() == [0, -10]
    with pytest.raises(UnreadableInput):
        found.at(np.array([0, 1]))
