"""What a graph says of the types of an op's outputs."""

from __future__ import annotations

import pytest

from tfprobe.formats.graph_profile import graph_nodes
from tfprobe.formats.schema import message_class


def node(op: str, **types: int) -> bytes:
    graph = message_class("tfprobe.graph.GraphDef")()
    written = graph.node.add(name="n", op=op)
    for name, number in types.items():
        written.attr[name].type = number
    return bytes(graph.SerializeToString())


@pytest.mark.parametrize(
    ("op", "types", "expected"),
    [
        ("MatMul", {"T": 1}, ("DT_FLOAT",)),
        ("Cast", {"SrcT": 1, "DstT": 19}, ("DT_HALF",)),
        ("ReadVariableOp", {"dtype": 14}, ("DT_BFLOAT16",)),
        ("VariableV2", {"dtype": 101}, ("DT_FLOAT",)),
        ("Less", {"T": 1}, ("DT_BOOL",)),
        ("NoOp", {}, ()),
    ],
)
def test_the_type_of_an_output_is_the_one_that_it_is_made_of(op, types, expected) -> None:
    """A cast makes what it casts to, a comparison makes truths, whatever it compares."""
    [found] = graph_nodes(node(op, **types))

    assert found.dtypes == expected


def test_an_op_with_several_outputs_tells_the_type_of_each() -> None:
    """What an iterator gives may be an image and its label."""
    graph = message_class("tfprobe.graph.GraphDef")()
    written = graph.node.add(name="n", op="IteratorGetNext")
    written.attr["output_types"].list.type.extend([1, 9])

    [found] = graph_nodes(bytes(graph.SerializeToString()))

    assert found.dtypes == ("DT_FLOAT", "DT_INT64")
