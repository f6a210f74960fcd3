"""Captures tell which shapes outputs really had."""

from __future__ import annotations

import pytest

from tests.support.captures import (
    CPU,
    Function,
    Node,
    Op,
    TraceEvent,
    graph_def,
    optimized,
    run_metadata,
    xspace,
)
from tfprobe.formats.graph_profile import graph_nodes
from tfprobe.profile import graph
from tfprobe.profile.reader import shapes

HOST = "/host:CPU"


def nodes(*ops: Op) -> dict[str, graph.Node]:
    return {node.name: node for node in graph_nodes(graph_def(ops))}


def allocation(op: str, shape: str, region: str = "output") -> TraceEvent:
    stats = {"tf_op": op, "shape": shape, "region_type": region}
    return TraceEvent("MemoryAllocation", stats=stats)


def trace(*events: TraceEvent) -> bytes:
    return xspace({HOST: {"thread": events}})


def from_trace(content: bytes, known: dict[str, graph.Node]) -> dict[shapes.Output, graph.Shape]:
    return shapes.agreed(shapes.trace_shapes(content, str, known))


def test_a_step_describes_its_outputs():
    """RunMetadata has the shape of each output; a scalar is (1,)."""
    rows = [Node("a:MatMul", shape=(64, 10)), Node("loss", shape=()), Node("b")]

    found = dict(shapes.step_shapes(run_metadata({CPU: rows}), str))

    assert found == {("a", 0): (64, 10), ("loss", 0): (1,)}


def test_an_allocation_is_of_the_output_it_fits():
    """A pool also allocates the places of its maxima, which no output of the graph is."""
    known = nodes(Op("pool", "MaxPool", shapes=[(-1, 12, 12, 32)]))
    content = trace(
        allocation("pool", "[64,12,12,32]"),
        allocation("pool", "[294912]"),
        allocation("pool", "[64,12,12,32]", region="temp"),
        allocation("other", "[64]"),
    )

    assert from_trace(content, known) == {("pool", 0): (64, 12, 12, 32)}


def test_a_temporary_allocation_is_no_output():
    """Only the region of outputs counts."""
    known = nodes(Op("pool", "MaxPool", shapes=[(-1, 12)]))

    found = from_trace(trace(allocation("pool", "[64,12]", region="temp")), known)

    assert found == {}


def test_outputs_that_changed_have_no_one_shape():
    """Two batches of different size: neither is the shape."""
    known = nodes(Op("a", "Relu", shapes=[(-1, 12)]))

    found = from_trace(trace(allocation("a", "[64,12]"), allocation("a", "[8,12]")), known)

    assert found == {}


def dataset(shapes_text: str, types: str, size_bytes: int, *stages: str) -> bytes:
    root = {"shapes": shapes_text, "types": types}
    return trace(
        TraceEvent("IteratorGetNextOp::DoCompute", stats={"element_size": size_bytes}),
        TraceEvent("Iterator::Root", stats=root),
        *(TraceEvent(f"Iterator::Root::{stage}") for stage in stages),
    )


def iterator(*static: tuple[int, ...]) -> dict[str, graph.Node]:
    return nodes(Op("next", "IteratorGetNext", shapes=static))


def test_the_bytes_of_an_element_tell_its_batch():
    """64 images of 784 floats and 64 labels of 8 bytes take 64 x 3144 bytes."""
    content = dataset("[?,28,28] [?]", "float int64", 64 * 3144, "Prefetch::BatchV2")

    found = from_trace(content, iterator((-1, 28, 28), (-1,)))

    assert found == {("next", 0): (64, 28, 28), ("next", 1): (64,)}


@pytest.mark.parametrize(
    ("text", "types", "size_bytes", "stages", "static"),
    [
        # Components may differ in their first size where they were not batched last.
        ("[?,28,28] [?]", "float int64", 64 * 3144, ["Map"], [(-1, 28, 28), (-1,)]),
        ("[?,28,28] [?]", "float int64", 64 * 3144 + 1, ["BatchV2"], [(-1, 28, 28), (-1,)]),
        ("[?,28,28]", "string", 64 * 784, ["BatchV2"], [(-1, 28, 28)]),
        ("[?,?]", "float", 64 * 40, ["BatchV2"], [(-1, -1)]),
        ("[?,28]", "float", 64 * 112, ["BatchV2"], [(-1, 30)]),
    ],
)
def test_a_batch_that_is_not_sure_is_not_told(text, types, size_bytes, stages, static):
    """Other pipelines, sizes that do not divide, strings, other iterators."""
    found = from_trace(dataset(text, types, size_bytes, *stages), iterator(*static))

    assert found == {}


def test_fused_nodes_come_from_the_optimized_graph():
    """A Relu that became a fused product is known with the inputs that it then had."""
    known = nodes(Op("x", "Placeholder"), Op("relu", "Relu", ["bias"], [(-1, 4)]))
    made = [
        Op("f/x", "Placeholder"),
        Op("f/relu", "_FusedMatMul", ["f/x", "f/w"], attributes={"fused_ops": ["BiasAdd", "Relu"]}),
    ]

    found = shapes.optimized_nodes(optimized(made), lambda name: name.removeprefix("f/"), known)

    node = found["relu", "_FusedMatMul"]
    assert node.inputs == {0: "x", 1: "w"}
    assert node.attributes["fused_ops"] == "BiasAdd,Relu"


def test_arguments_are_what_is_passed():
    """By name, where one call passes it and no node has that name."""
    body = Function(["images", "next"], [Op("relu", "Relu", ["images"])])
    calls = [
        Op("next", "IteratorGetNext"),
        Op("call", "PartitionedCall", ["next:1", "next"], attributes={"f": "step"}),
    ]

    found = shapes.calls(graph_def(calls, {"step": body})).arguments()

    assert found == {"images": ("next", 1)}


def test_arguments_of_a_function_called_twice_are_not_told():
    """They may differ from call to call."""
    body = Function(["images"], [Op("relu", "Relu", ["images"])])
    calls = [
        Op("a", "PartitionedCall", ["x"], attributes={"f": "step"}),
        Op("b", "PartitionedCall", ["y"], attributes={"f": "step"}),
    ]

    assert shapes.calls(graph_def(calls, {"step": body})).arguments() == {}


def test_outputs_inside_a_function_are_found_by_their_argument():
    """`loss:backprop:0` is the second output of a cross entropy."""
    body = Function(
        [],
        [
            Op("loss", "SparseSoftmaxCrossEntropyWithLogits"),
            Op("grad", "Mul", ["loss:backprop:0", "loss:loss:0"]),
        ],
    )

    found = {node.name: node for node in graph_nodes(graph_def([], {"step": body}))}

    assert found["grad"].sources == {0: 1}
