"""Gradients stand below the layer they are of."""

from __future__ import annotations

import pytest

from tests.support.profiles import Step, loop, profile
from tests.unit.analysis.transfers.test_transfers import row
from tfprobe.analysis.core.names import by_layer
from tfprobe.analysis.core.source_lines import NO_LAYER, Origins
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.graph import Graph, Node
from tfprobe.profile.reader.traced_steps import join

FORWARD = ("net/dense/MatMul", "net/dense/MatMul/ReadVariableOp", "net/dense/Relu", "Mean")


def placed(*names: str) -> list[str]:
    graph = Graph(tuple(Node(name=name, op="X") for name in (*FORWARD, *names)))
    return [node.name for node in by_layer(graph).nodes[len(FORWARD) :]]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("gradient_tape/net/dense/ReluGrad", "net/dense/(backward)/ReluGrad"),
        ("gradient_tape/net/dense/MatMul/MatMul", "net/dense/(backward)/MatMul/MatMul"),
        ("gradients/net/dense/MatMul_grad/MatMul_1", "net/dense/(backward)/MatMul_grad/MatMul_1"),
        ("training/SGD/gradients/gradients/net/dense/Relu_grad/ReluGrad",
         "net/dense/(backward)/Relu_grad/ReluGrad"),
        ("gradient_tape/net/other/Mul", "net/(backward)/other/Mul"),
    ],
)  # fmt: skip
def test_a_gradient_goes_to_the_innermost_layer(name: str, place: str) -> None:
    """Whatever TensorFlow or Keras calls the scope of gradients; a node is no layer."""
    assert placed(name) == [place]


@pytest.mark.parametrize(
    "name", ["gradients/Mean_grad/Fill", "gradients/Shape", "net/dense/mygradients/Mul", "adam/Mul"]
)
def test_what_belongs_to_no_layer_keeps_its_name(name: str) -> None:
    """Gradients of ops outside any scope, and what only looks like a gradient."""
    assert placed(name) == [name]


@pytest.mark.parametrize(
    ("name", "op", "place"),
    [
        ("edge_12_IteratorGetNext", "_Recv", "(runtime)/edge_12_IteratorGetNext"),
        ("edge_123_conv/BiasAdd", "RecvTensor", "(runtime)/edge_123_conv:BiasAdd"),
        ("^edge_7_conv/Relu", "_HostSend", "(runtime)/^edge_7_conv:Relu"),
        ("_SOURCE", "_SOURCE", "(runtime)/_SOURCE"),
        ("^_cloopsink", "ControlTrigger", "(runtime)/^_cloopsink"),
        ("_arg_x_0/conv/y", "_Arg", "(runtime)/_arg_x_0:conv:y"),
        ("edge_1_detector/Conv2D", "Conv2D", "edge_1_detector/Conv2D"),
    ],
)
def test_what_the_runtime_adds_is_of_no_layer(name: str, op: str, place: str) -> None:
    """Names of edges have slashes, but an edge is no scope; a program may call a layer so."""
    graph = Graph((Node(name, op), Node("conv/BiasAdd", "BiasAdd")))

    assert by_layer(graph).nodes[0].name == place


def test_a_transfer_counts_for_no_layer() -> None:
    """Nor does what moves gradients."""
    made = profile([Step([row("edge_3_conv/Relu", 0, 10, Place.HOST, op_type="_Recv")])])
    nodes = {node.name: node for node in (Node("conv/Relu", "Relu"), Node("conv/Add", "Add"))}

    origins = Origins([join(loop(), made.captures, made.executions, nodes)])

    layers = [origins.of(name).layer for name in ("edge_3_conv/Relu", "conv/Relu")]
    assert layers == [NO_LAYER, "conv"]
