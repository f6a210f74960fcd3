"""A variable's parameters count once, where it is defined or first read."""

from __future__ import annotations

from tfprobe.analysis.ops.parameters import parameters
from tfprobe.profile.graph import Node


def test_a_variable_of_tensorflow_1_counts_where_it_is_defined() -> None:
    """Its reads are not counted again, and feeds are not counted at all."""
    nodes = [
        Node("x", "Placeholder", shape=(64, 784)),
        Node("w", "VariableV2", shape=(784, 10)),
        Node("h", "VarHandleOp", shape=(10,)),
        Node("h/Read", "ReadVariableOp", inputs={0: "h"}, output_shapes={0: (10,)}),
    ]

    assert parameters(nodes) == [0, 7840, 10, 0]


def test_a_variable_of_a_function_counts_where_it_is_first_read() -> None:
    """It comes in as an argument without a shape; a second read is of the same variable."""
    nodes = [
        Node("1544", "Placeholder", shape=(1,)),
        Node("dense/Read", "ReadVariableOp", inputs={0: "1544"}, output_shapes={0: (3, 4)}),
        Node("adam/Read", "ReadVariableOp", inputs={0: "1544"}, output_shapes={0: (3, 4)}),
        Node("bias/Read", "ReadVariableOp", inputs={0: "argument"}, output_shapes={0: (4,)}),
    ]

    assert parameters(nodes) == [0, 12, 0, 4]


def test_an_open_shape_counts_nothing() -> None:
    """Its size is unknown."""
    nodes = [Node("w", "VariableV2", shape=(-1, 4)), Node("v", "VariableV2")]

    assert parameters(nodes) == [0, 0]


def placed(name: str, op: str, *inputs: str, waits: int = 0, used: str = "") -> Node:
    """Return a node of four numbers; the last inputs are waits."""
    count = len(inputs)
    return Node(
        name,
        op,
        inputs=dict(enumerate(inputs)),
        output_shapes={0: (4,)},
        waits=frozenset(range(count - waits, count)),
        variables=(used,) if used else (),
    )


def test_what_an_optimizer_keeps_is_no_parameter() -> None:
    """Slots are read in the optimizer's scope alone; weight decay reads the parameter there too."""
    nodes = [
        placed("dense/Read", "ReadVariableOp", "w", used="w"),
        placed("adamw/Read_1", "ReadVariableOp", "w", used="w"),
        placed("adamw/Read", "ReadVariableOp", "m", used="m"),
    ]

    assert parameters(nodes) == [4, 0, 0]


def test_slots_without_a_scope_are_known_by_where_they_lead() -> None:
    """TensorFlow 2.12 has none: a slot is read for its own update, and again after it."""
    nodes = [
        placed("dense/MatMul/Read", "ReadVariableOp", "w", used="w"),
        placed("sub_2/Read", "ReadVariableOp", "m", used="m"),
        placed("sub_2", "Sub", "grad", "sub_2/Read"),
        placed("mul_1", "Mul", "sub_2", "rate"),
        placed("AssignAdd", "AssignAddVariableOp", "m", "mul_1", used="m"),
        placed("Read_2", "ReadVariableOp", "m", "AssignAdd", waits=1, used="m"),
        placed("AssignSub", "AssignSubVariableOp", "w", "Read_2", used="w"),
    ]

    assert parameters(nodes) == [4, 0, 0, 0, 0, 0, 0]


def test_the_moving_averages_of_a_layer_are_parameters() -> None:
    """Keras counts them: they are updated as slots are, in a layer's scope."""
    nodes = [
        placed("net/norm/Cast/Read", "ReadVariableOp", "mean", used="mean"),
        placed("net/norm/mul", "Mul", "net/norm/Cast/Read", "momentum"),
        placed("net/norm/add", "AddV2", "net/norm/mul", "moment"),
        placed("net/norm/Assign", "AssignVariableOp", "mean", "net/norm/add", used="mean"),
    ]

    assert parameters(nodes) == [4, 0, 0, 0]


def test_the_sums_of_metrics_are_no_parameters() -> None:
    """It is accumulated step by step, and read for nothing else."""
    nodes = [
        placed("Add/Read", "ReadVariableOp", "total", used="total"),
        placed("Add", "AddV2", "Add/Read", "loss"),
        placed("Assign", "AssignVariableOp", "total", "Add", used="total"),
        placed("div/Read", "ReadVariableOp", "total", "Assign", waits=1, used="total"),
        placed("div", "DivNoNan", "div/Read", "count"),
    ]

    assert parameters(nodes) == [0, 0, 0, 0, 0]


def test_an_embedding_that_is_only_gathered_from_is_as_large_as_its_update() -> None:
    """No op reads it whole."""
    nodes = [
        placed("net/lookup", "ResourceGather", "table", "ids", used="table"),
        Node("update", "RealDiv", output_shapes={0: (50, 16)}),
        placed("AssignSub", "AssignSubVariableOp", "table", "update", used="table"),
    ]

    assert parameters(nodes) == [800, 0, 0]
