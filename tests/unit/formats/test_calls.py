"""What a graph passes to its functions: tensors, and variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.support.captures import Function, Op, graph_def
from tfprobe.analysis.ops.parameters import parameters
from tfprobe.formats.function_calls import FunctionCalls
from tfprobe.formats.graph_profile import graph_nodes
from tfprobe.formats.schema import parse
from tfprobe.profile.graph import LoopVariable

KERNEL = [(8, 100)]
# What Keras makes of an LSTM: the step reads its kernel, and so does the body of its loop.
STEP = Function(
    ["x", "kernel"],
    [
        Op("lstm/cell/Read", "ReadVariableOp", ["kernel"], KERNEL),
        Op("lstm/while", "While", ["x", "kernel"], attributes={"body": "body", "cond": "cond"}),
    ],
)
BODY = Function(
    ["turn", "kernel_0"],
    [
        Op("lstm/while/cell/Read", "ReadVariableOp", ["kernel_0"], KERNEL),
        Op("lstm/while/MatMul", "MatMul", ["turn", "lstm/while/cell/Read:value:0"], [(32, 100)]),
        Op("lstm/while/Identity", "Identity", ["lstm/while/MatMul:product:0"], [(32, 100)]),
    ],
    ["lstm/while/Identity:output:0", "kernel_0"],
)
TOP = [
    Op("1953", "Placeholder"),
    Op("call", "StatefulPartitionedCall", ["data", "1953"], attributes={"f": "step"}),
]
FUNCTIONS = {
    "body_that_is_not_called": BODY,
    "body": BODY,
    "cond": Function(["c"], []),
    "step": STEP,
}


def calls(nodes: Sequence[Op], functions: Mapping[str, Function]) -> FunctionCalls:
    return FunctionCalls(parse(graph_def(nodes, functions), "tfprobe.graph.GraphDef"))


def test_a_variable_that_a_loop_reads_too_counts_once() -> None:
    """Under each name that a function has for it, it is the one of the graph."""
    nodes = graph_nodes(graph_def(TOP, FUNCTIONS))

    assert sum(parameters(nodes)) == 800


def test_a_function_that_runs_for_two_variables_counts_both() -> None:
    """A layer's function may be called for two layers."""
    read = Function(["w"], [Op("Read", "ReadVariableOp", ["w"], [(3, 4)])])
    top = [
        Op("a", "Placeholder"),
        Op("b", "Placeholder"),
        Op("one", "PartitionedCall", ["a"], attributes={"f": "read"}),
        Op("two", "PartitionedCall", ["b"], attributes={"f": "read"}),
    ]

    assert sum(parameters(graph_nodes(graph_def(top, {"read": read})))) == 24


def test_what_is_fed_is_no_variable() -> None:
    """Its type says that it is no handle."""
    top = [Op("x", "Placeholder"), Op("y", "AddV2", ["x", "x"])]

    assert [node.variables for node in graph_nodes(graph_def(top))] == [(), ()]


def test_a_loop_says_what_it_carries() -> None:
    """What the body is given first, what it makes of it, and what the loop gives on."""
    found = calls(TOP, FUNCTIONS).loop_variables()

    assert found == (
        LoopVariable("turn", ("x", 0), ("lstm/while/Identity", 0), ("lstm/while", 0)),
        LoopVariable("kernel_0", ("kernel", 0), ("kernel_0", 0), ("lstm/while", 1)),
    )


def test_the_nodes_of_a_function_are_those_inside_the_call() -> None:
    """They run beside it, under names of their own."""
    assert "lstm/while" in calls(TOP, FUNCTIONS).insides()["call"]
