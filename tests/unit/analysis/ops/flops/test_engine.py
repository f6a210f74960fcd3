"""Float operations as tfprof computes them: each formula against a value worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tfprobe.analysis.ops.flops.engine import float_ops
from tfprobe.profile.graph import Graph, Node, Shape

NHWC = {"data_format": "NHWC"}
POOL = {**NHWC, "ksize": (1, 2, 2, 1), "strides": (1, 2, 2, 1)}
STRIDED = {**NHWC, "strides": (1, 2, 2, 1)}


def of(op: str, inputs: Sequence[Shape], output: Shape, **attributes: Any) -> int | None:
    """Return the float operations of a node with these shapes, None if it has no entry."""
    producers = [
        Node(f"in{at}", "Placeholder", output_shapes={0: shape}) for at, shape in enumerate(inputs)
    ]
    node = Node(
        "it",
        op,
        inputs={at: each.name for at, each in enumerate(producers)},
        output_shapes={0: output},
        attributes=attributes,
    )
    return float_ops(Graph((*producers, node))).get("it")


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("Reciprocal", 12),
        ("Square", 12),
        ("Log", 12),
        ("Neg", 12),
        ("AssignSub", 12),
        ("AssignAdd", 12),
        ("Rsqrt", 24),
        ("Softmax", 60),
        ("L2Loss", 35),
        ("BiasAdd", 12),
    ],
)
def test_ops_of_one_input_count_its_elements(op, expected):
    """For ops of one operand, so many operations for each element of the first input."""
    found = of(op, [(3, 4)], (3, 4))

    assert expected == found


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        *((op, 12) for op in ("Add", "AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum")),
        *((op, 12) for op in ("Pow", "GreaterEqual", "Greater", "LessEqual")),
        *((op, 12) for op in ("Less", "Equal", "NotEqual")),
        ("RsqrtGrad", 48),
        ("SquaredDifference", 24),
    ],
)
def test_ops_of_two_inputs_count_elements_of_the_output(op, expected):
    """With broadcasting the output is larger than an input, and it is the output that counts."""
    found = of(op, [(3, 1), (1, 4)], (3, 4))

    assert expected == found


@pytest.mark.parametrize(
    ("op", "expected"),
    [("Sum", 9), ("ArgMax", 9), ("ArgMin", 9), ("BiasAddGrad", 9), ("Mean", 12)],
)
def test_reductions_count_what_is_folded_away(op, expected):
    """To fold 12 numbers into 3 takes 9 operations; a mean divides each of the 3 as well."""
    found = of(op, [(3, 4), (1,)], (3,))

    assert expected == found


@pytest.mark.parametrize(
    ("op", "inputs", "output", "attributes", "expected"),
    [
        ("MatMul", [(3, 5), (5, 4)], (3, 4), {}, 2 * 5 * 12),
        ("MatMul", [(5, 3), (5, 4)], (3, 4), {"transpose_a": True}, 2 * 5 * 12),
        ("BatchMatMul", [(2, 3, 5), (2, 5, 4)], (2, 3, 4), {}, 2 * 5 * 24),
        ("BatchMatMulV2", [(2, 3, 5), (2, 5, 4)], (2, 3, 4), {}, 2 * 5 * 24),
        ("BatchMatMulV3", [(2, 3, 5), (2, 5, 4)], (2, 3, 4), {"transpose_a": True}, 2 * 3 * 24),
        ("AddN", [(3, 4), (3, 4), (3, 4)], (3, 4), {}, 24),
        ("Conv2D", [(2, 6, 6, 3), (3, 3, 3, 8)], (2, 4, 4, 8), {}, 2 * 256 * 27),
        ("Conv3D", [(1, 4, 6, 6, 3), (2, 3, 3, 3, 8)], (1, 3, 4, 4, 8), {}, 2 * 384 * 54),
        ("DepthwiseConv2dNative", [(2, 6, 6, 3), (3, 3, 3, 2)], (2, 4, 4, 6), {}, 2 * 192 * 9),
        ("Dilation2D", [(2, 6, 6, 3), (3, 3, 3)], (2, 4, 4, 3), {}, 2 * 96 * 9),
        ("AvgPool", [(2, 6, 6, 3)], (2, 3, 3, 3), POOL, 4 * 54),
        ("MaxPool", [(2, 6, 6, 3)], (2, 3, 3, 3), POOL, 4 * 54),
        ("AvgPoolGrad", [(4,), (2, 3, 3, 3)], (2, 6, 6, 3), POOL, 2 * 4 * 54),
        (
            "MaxPoolGrad",
            [(2, 6, 6, 3), (2, 3, 3, 3), (2, 3, 3, 3)],
            (2, 6, 6, 3),
            POOL,
            (4 + 1) * 54,
        ),
        (
            "Conv2DBackpropInput",
            [(4,), (3, 3, 3, 8), (2, 3, 3, 8)],
            (2, 6, 6, 3),
            STRIDED,
            2 * 216 * 216 // (3 * 4),
        ),
        (
            "Conv2DBackpropFilter",
            [(2, 6, 6, 3), (4,), (2, 3, 3, 8)],
            (3, 3, 3, 8),
            STRIDED,
            2 * 216 * 216 // (3 * 4),
        ),
    ],
)
def test_products_and_windows_count_by_their_own_formulas(op, inputs, output, attributes, expected):
    """A multiplication and its addition are two operations."""
    found = of(op, inputs, output, **attributes)

    assert expected == found


@pytest.mark.parametrize("op", ["AvgPool", "MaxPool"])
def test_channels_first_pooling_has_no_entry(op):
    """The formulas of tfprof are for NHWC, and pooling in another layout is left out."""
    found = of(op, [(2, 3, 6, 6)], (2, 3, 3, 3), ksize=(1, 1, 2, 2), data_format="NCHW")

    assert found is None


def test_an_incomplete_shape_has_no_entry():
    """With an unknown batch tfprof knows no operations."""
    found = of("MatMul", [(-1, 5), (5, 4)], (-1, 4))

    assert found is None


def test_an_op_without_formula_has_no_entry():
    """Ops that tfprof has no formula for are left out."""
    found = of("Tanh", [(3, 4)], (3, 4))

    assert found is None


def test_no_operations_are_no_entry():
    """Where the formula comes to 0 tfprof logs nothing."""
    found = of("Sum", [(3, 4), (1,)], (3, 4))

    assert found is None


def test_the_output_that_is_read_gives_the_shape():
    """An input may be the second output of its producer."""
    split = Node("split", "SplitV", output_shapes={0: (3, 4), 1: (3, 8)})
    node = Node("it", "Neg", inputs={0: "split"}, sources={0: 1}, output_shapes={0: (3, 8)})

    found = float_ops(Graph((split, node)))

    assert found == {"it": 24}
