"""Shapes that a graph leaves open are told by those that ran, and never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from tfprobe.analysis.ops.flops.solve import solved
from tfprobe.profile.graph import LoopVariable, Node, Shape

BATCH = (64, 8)


def node(name: str, op: str, shape: Shape, *inputs: str, **attributes: Any) -> Node:
    return Node(
        name,
        op,
        inputs=dict(enumerate(inputs)),
        output_shapes={0: shape},
        attributes=attributes,
    )


def shape_of(name: str, nodes: list[Node], recorded: Shape = BATCH) -> Shape:
    """Return a shape, where the output of `x` was recorded."""
    return solved(nodes, {("x", 0): recorded})[name, 0]


X = node("x", "Placeholder", (-1, 8))


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([node("y", "Relu", (-1, 8), "x")], (64, 8)),
        ([node("y", "Relu", (), "x")], (64, 8)),
        ([node("b", "Const", (8,)), node("y", "AddV2", (-1, 8), "x", "b")], (64, 8)),
        ([node("w", "Const", (8, 5)), node("y", "MatMul", (-1, 5), "x", "w")], (64, 5)),
        ([node("y", "Reshape", (-1, 2, 4), "x")], (64, 2, 4)),
        ([node("a", "Const", (1,)), node("y", "Sum", (-1,), "x", "a")], (64,)),
        ([node("a", "Const", (1,)), node("y", "Mean", (-1, 1), "x", "a", keep_dims=True)], (64, 1)),
        (
            [
                node("w", "Const", (8, 5)),
                node("y", "Einsum", (-1, 5), "x", "w", equation="ij,jk->ik"),
            ],
            (64, 5),
        ),
        (
            [node("s", "Shape", (2,), "x"), node("y", "StatelessRandomUniformV2", (-1, -1), "s")],
            (64, 8),
        ),
    ],
)
def test_the_batch_goes_through_ops_that_keep_it(nodes, expected):
    """Element by element, through products, reshapes, reductions and shapes that are read."""
    found = shape_of("y", [X, *nodes])

    assert expected == found


def test_the_batch_goes_backwards():
    """A product that was seen tells the rows of its operand, and all that was made from."""
    nodes = [
        node("i", "Placeholder", (-1, 3)),
        node("r", "Relu", (-1, 3), "i"),
        node("w", "Const", (3, 8)),
        node("x", "MatMul", (-1, 8), "r", "w"),
    ]

    assert shape_of("i", nodes) == (64, 3)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_convolution_keeps_the_batch(layout):
    """In either layout; the sizes of the image are left to what the graph says."""
    image = (-1, 6, 6, 3) if layout == "NHWC" else (-1, 3, 6, 6)
    made = (-1, 4, 4, 5) if layout == "NHWC" else (-1, 5, 4, 4)
    nodes = [
        node("x", "Placeholder", image),
        node("w", "Const", (3, 3, 3, 5)),
        node("y", "Conv2D", made, "x", "w", data_format=layout),
        node("p", "Placeholder", image),
        node("g", "Conv2DBackpropInput", image, "s", "w", "y", data_format=layout),
    ]

    found = solved(nodes, {("x", 0): (64, *image[1:])})

    assert found["y", 0] == (64, *made[1:])
    assert found["g", 0] == (64, *image[1:])
    assert found["p", 0] == image


@pytest.mark.parametrize(
    "nodes",
    [
        # The other operand may be the larger one.
        [node("o", "Placeholder", (-1, 8)), node("y", "Tile", (-1, 8), "x", "o")],
        # With unknown axes any size may have been folded away.
        [node("a", "Placeholder", (-1,)), node("y", "Sum", (-1, -1), "x", "a", keep_dims=True)],
        [node("y", "Slice", (-1, 8), "x")],
        [node("y", "Reshape", (-1, -1), "x")],
        [node("y", "ConcatV2", (-1, 8), "x", "x")],
    ],
)
def test_nothing_is_guessed(nodes):
    """Where an op may change the size, it stays open."""
    found = shape_of("y", [X, *nodes])

    assert found == nodes[-1].output_shapes[0]


def test_an_open_size_beside_one_of_1_stays_open():
    """1 broadcasts to whatever the other operand has."""
    nodes = [
        node("one", "Const", (1, 8)),
        node("o", "Placeholder", (-1, 8)),
        node("y", "Mul", (-1, 8), "one", "o"),
    ]

    assert shape_of("y", [X, *nodes]) == (-1, 8)


def test_shapes_that_contradict_are_left_alone():
    """A recorded shape of another layout does not spoil those of the graph."""
    nodes = [node("x", "Conv2D", (-1, 28, 28, 16)), node("y", "Relu", (-1, 28, 28, 16), "x")]

    found = shape_of("y", nodes, recorded=(64, 16, 28, 28))

    assert found == (-1, 28, 28, 16)


def test_an_argument_has_the_shape_of_what_is_passed():
    """Inside a function a tensor has another name."""
    nodes = [X, node("y", "Relu", (-1, 8), "images")]

    found = solved(nodes, {("x", 0): BATCH}, {"images": ("x", 0)})

    assert found["y", 0] == BATCH


def test_sizes_that_another_ran_for_are_open():
    """A graph traced for 500 rows and a step of 512: no 500 of the graph is believed."""
    nodes = [
        node("x", "Placeholder", (500, 8)),
        node("y", "Relu", (500, 8), "x"),
        node("z", "Placeholder", (500, 3)),
    ]

    found = solved(nodes, {("x", 0): (512, 8)})

    assert found["y", 0] == (512, 8)
    assert found["z", 0] == (-1, 3)


LOOP = LoopVariable("state", ("zeros", 0), ("turn", 0), ("loop", 0))
ZEROS = node("zeros", "Fill", (-1, 8))
WHILE = node("loop", "While", (-1, 8))


def test_a_loop_keeps_the_shape_that_its_turns_make() -> None:
    """The state of a cell is as large as what the cell makes of it and of its input."""
    nodes = [X, ZEROS, WHILE, node("turn", "Relu", (-1, 8), "x")]

    found = solved(nodes, {("x", 0): BATCH}, loops=[LOOP])

    assert found["state", 0] == found["loop", 0] == BATCH


def test_what_grows_in_a_loop_has_no_shape() -> None:
    """What it begins with says nothing of the turns after the first."""
    nodes = [X, WHILE, node("turn", "ConcatV2", (-1, 8), "state", "x", "axis", N=2)]
    grows = LoopVariable("state", ("x", 0), ("turn", 0), ("loop", 0))

    found = solved(nodes, {("x", 0): BATCH}, loops=[grows])

    assert found["loop", 0] == found["turn", 0] == (-1, 8)


def test_a_list_gives_elements_of_the_shape_it_was_given() -> None:
    """A loop takes one row after the other, and gathers what it makes."""
    nodes = [
        node("rows", "Placeholder", (12, -1, 8)),
        node("list", "TensorListFromTensor", (1,), "rows"),
        node("row", "TensorListGetItem", (-1, 8), "list", "index"),
        node("relu", "Relu", (-1, 8), "row"),
        node("reserved", "TensorListReserve", (1,)),
        node("set", "TensorListSetItem", (1,), "reserved", "index", "relu"),
        node("stack", "TensorListStack", (-1, -1, 8), "set"),
    ]

    found = solved(nodes, {("rows", 0): (12, 64, 8)})

    assert found["row", 0] == (64, 8)
    assert found["stack", 0] == (-1, 64, 8)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([node("y", "Split", (-1, 2), "axis", "x")], (64, 2)),
        (
            [node("z", "Relu", (-1, 4), "q"), node("y", "ConcatV2", (-1, 12), "x", "z", N=2)],
            (64, 12),
        ),
        ([node("y", "ConcatV2", (-1, 8), "x", "x", N=2)], (-1, 8)),
    ],
)
def test_parts_and_the_whole_share_all_axes_but_one(nodes: list[Node], expected: Shape) -> None:
    """Where the graph sees which: along an axis of open sizes it may have been."""
    assert shape_of("y", [X, *nodes]) == expected
