"""Float operations of single ops, each against a value worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tfprobe.analysis.ops.flops.call import OpCall, UnknownOperands
from tfprobe.analysis.ops.flops.count import CALLS, FORMULAS, MOVEMENT, float_ops
from tfprobe.profile.graph import Shape

# A convolution of 2 images 6x6 with 3 channels by 3x3 into 8 channels of 4x4.
IMAGE, FILTER, MADE = (2, 6, 6, 3), (3, 3, 3, 8), (2, 4, 4, 8)
CONVOLUTION = 2 * 256 * 27
UNKNOWN: Shape = ()


def of(op: str, inputs: Sequence[Shape], *outputs: Shape, **attributes: Any) -> int:
    """Return the float operations of one run of an op."""
    return float_ops(op, OpCall(tuple(inputs), outputs, attributes))


@pytest.mark.parametrize(
    ("op", "inputs", "output", "attributes", "expected"),
    [
        ("MatMul", [(3, 5), (5, 4)], (3, 4), {}, 2 * 3 * 5 * 4),
        ("MatMul", [(5, 3), (4, 5)], (3, 4), {"transpose_a": True, "transpose_b": True}, 120),
        ("MatMul", [UNKNOWN, (4, 5)], (3, 4), {"transpose_b": True}, 120),
        ("_MklMatMul", [(3, 5), (5, 4)], (3, 4), {}, 120),
        ("BatchMatMulV2", [(2, 5, 3), (2, 5, 4)], (2, 3, 4), {"adj_x": True}, 240),
        ("SparseTensorDenseMatMul", [(7, 2), (7,), (2,), (5, 4)], (3, 4), {}, 2 * 7 * 4),
        ("_FusedMatMul", [(3, 5), (5, 4), (4,)], (3, 4), {"fused_ops": "BiasAdd"}, 120 + 12),
        (
            "_MklNativeFusedMatMul",
            [(3, 5), (5, 4), (4,)],
            (3, 4),
            {"fused_ops": "BiasAdd,Relu"},
            120 + 24,
        ),
    ],
)
def test_products_of_matrices(op, inputs, output, attributes, expected):
    """A multiplication and an addition for each pair of elements that meet."""
    found = of(op, inputs, output, **attributes)

    assert expected == found


@pytest.mark.parametrize(
    ("equation", "inputs", "output", "expected"),
    [
        ("ij,jk->ik", [(3, 5), (5, 4)], (3, 4), 2 * 60),
        ("abc,cde->abde", [(2, 3, 5), (5, 4, 6)], (2, 3, 4, 6), 2 * 2 * 3 * 5 * 4 * 6),
        ("...ij,...jk->...ik", [(2, 7, 3, 5), (7, 5, 4)], (2, 7, 3, 4), 2 * 14 * 60),
        ("ij,ij->ij", [(3, 5), (3, 5)], (3, 5), 15),
        ("ij->i", [(3, 5)], (3,), 15 - 3),
    ],
)
def test_an_einsum_counts_by_its_equation(equation, inputs, output, expected):
    """Twice the combinations of all labels; without a sum over one, the products alone."""
    found = of("Einsum", inputs, output, equation=equation)

    assert expected == found


@pytest.mark.parametrize(
    ("op", "inputs", "output", "attributes", "expected"),
    [
        ("Conv2D", [IMAGE, FILTER], MADE, {}, CONVOLUTION),
        ("Conv2D", [(2, 3, 6, 6), FILTER], (2, 8, 4, 4), {"data_format": "NCHW"}, CONVOLUTION),
        ("_MklNativeConv2D", [IMAGE, FILTER], MADE, {}, CONVOLUTION),
        ("Conv2DBackpropInput", [(4,), FILTER, MADE], IMAGE, {}, CONVOLUTION),
        (
            "Conv2DBackpropInput",
            [(4,), FILTER, (2, 8, 4, 4)],
            (2, 3, 6, 6),
            {"data_format": "NCHW"},
            CONVOLUTION,
        ),
        ("Conv2DBackpropFilter", [IMAGE, (4,), MADE], FILTER, {}, CONVOLUTION),
        (
            "_MklNativeConv2DBackpropFilterWithBias",
            [IMAGE, (4,), MADE],
            FILTER,
            {},
            CONVOLUTION + 256 - 8,
        ),
        ("Conv3D", [(1, 4, 6, 6, 3), (2, 3, 3, 3, 8)], (1, 3, 4, 4, 8), {}, 2 * 384 * 54),
        (
            "Conv3DBackpropInputV2",
            [(5,), (2, 3, 3, 3, 8), (1, 8, 3, 4, 4)],
            (1, 3, 4, 6, 6),
            {"data_format": "NCDHW"},
            2 * 384 * 54,
        ),
        ("DepthwiseConv2dNative", [IMAGE, (3, 3, 3, 2)], (2, 4, 4, 6), {}, 2 * 192 * 9),
        (
            "DepthwiseConv2dNativeBackpropFilter",
            [IMAGE, (4,), (2, 4, 4, 6)],
            (3, 3, 3, 2),
            {},
            2 * 192 * 9,
        ),
        (
            "_FusedConv2D",
            [IMAGE, FILTER, (8,)],
            MADE,
            {"fused_ops": "BiasAdd,Relu"},
            CONVOLUTION + 512,
        ),
        ("AvgPool", [IMAGE], (2, 3, 3, 3), {"ksize": (1, 2, 2, 1)}, 4 * 54),
        ("MaxPool", [(2, 3, 6, 6)], (2, 3, 3, 3), {"ksize": (1, 1, 2, 2)}, 4 * 54),
        (
            "MaxPoolGrad",
            [IMAGE, (2, 3, 3, 3), (2, 3, 3, 3)],
            IMAGE,
            {"ksize": (1, 2, 2, 1)},
            5 * 54,
        ),
        ("AvgPoolGrad", [(4,), (2, 3, 3, 3)], IMAGE, {"ksize": (1, 2, 2, 1)}, 8 * 54),
        ("ResizeBilinear", [IMAGE, (2,)], (2, 12, 12, 3), {}, 9 * 864),
    ],
)
def test_images_count_alike_in_every_layout(op, inputs, output, attributes, expected):
    """The gradients of a convolution are as much work as the convolution, whatever its strides."""
    found = of(op, inputs, output, **attributes)

    assert expected == found


@pytest.mark.parametrize(
    ("op", "inputs", "output", "attributes", "expected"),
    [
        ("Relu", [(3, 4)], (3, 4), {}, 12),
        ("Sigmoid", [(3, 4)], (3, 4), {}, 48),
        ("TanhGrad", [(3, 4), (3, 4)], (3, 4), {}, 36),
        ("Mul", [(3, 1), (1, 4)], (3, 4), {}, 12),
        ("SelectV2", [(3, 4), (1,), (1,)], (3, 4), {}, 12),
        ("AddN", [(3, 4)] * 3, (3, 4), {"N": 3}, 24),
        ("_UnaryOpsComposition", [(3, 4)], (3, 4), {"op_names": "Neg,Exp"}, 24),
        ("Sum", [(3, 4), (1,)], (3,), {}, 9),
        ("Mean", [(3, 4), (1,)], (3,), {}, 12),
        ("Max", [(3, 4), (1,)], (3,), {}, 9),
        ("Cumsum", [(3, 4), (1,)], (3, 4), {}, 12),
        ("UnsortedSegmentSum", [(3, 4), (3,), (1,)], (2, 4), {}, 12),
        ("SparseSegmentSum", [(9, 4), (5,), (5,)], (2, 4), {}, 20),
        ("FusedBatchNormV3", [IMAGE, (3,)], IMAGE, {"is_training": True}, 7 * 216),
        ("FusedBatchNormV3", [IMAGE, (3,)], IMAGE, {"is_training": False}, 3 * 216),
        ("FusedBatchNormGradV3", [IMAGE, IMAGE], IMAGE, {}, 9 * 216),
        ("LogSoftmax", [(3, 4)], (3, 4), {}, 60),
        ("SparseSoftmaxCrossEntropyWithLogits", [(3, 4), (3,)], (3,), {}, 60 + 9),
        ("SoftmaxCrossEntropyWithLogits", [(3, 4), (3, 4)], (3,), {}, 108),
        ("LRN", [(2, 3)], (2, 3), {"depth_radius": 2}, (5 + 5) * 6),
    ],
)
def test_elements_and_rows(op, inputs, output, attributes, expected):
    """What is computed for each element, or folded."""
    found = of(op, inputs, output, **attributes)

    assert expected == found


@pytest.mark.parametrize(
    ("op", "gradient", "each"),
    [
        ("ResourceApplyGradientDescent", 2, 2),
        ("ResourceApplyMomentum", 3, 4),
        ("ResourceApplyAdam", 9, 12),
        ("ApplyAdam", 9, 12),
        ("AssignSubVariableOp", 1, 1),
    ],
)
def test_updates_of_variables_count_by_their_gradient(op, gradient, each):
    """The variable is a handle without a shape; the gradient has its elements."""
    inputs = [UNKNOWN] * gradient + [(3, 4)]

    found = of(op, inputs)

    assert each * 12 == found


def test_nesterov_is_more_work():
    """The same op with `use_nesterov` looks ahead once more."""
    found = of("ResourceApplyMomentum", [UNKNOWN] * 3 + [(3, 4)], use_nesterov=True)

    assert found == (4 + 3) * 12


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "expected"),
    [
        # Batch 2, input 3, state 4: weights (3 + 4) x 16.
        ("LSTMBlockCell", [(2, 3), (2, 4), (2, 4), (7, 16)], {}, 2 * 2 * 112 + 23 * 8),
        (
            "BlockLSTM",
            [(1,), (5, 2, 3), (2, 4), (2, 4), (7, 16)],
            {},
            5 * (2 * 2 * 112 + 23 * 8),
        ),
        ("GRUBlockCell", [(2, 3), (2, 4), (7, 8), (7, 4)], {}, 2 * 2 * 84 + 17 * 8),
        # One layer both ways: 2 directions x 4 gates x 4 x (3 + 4) weights.
        (
            "CudnnRNNV3",
            [(5, 2, 3), (2, 2, 4)],
            {"rnn_mode": "lstm", "direction": "bidirectional"},
            2 * 5 * 2 * 224,
        ),
        # Two layers: 3 gates x 4 x ((3 + 4) + (4 + 4)).
        ("CudnnRNN", [(5, 2, 3), (2, 2, 4)], {"rnn_mode": "gru"}, 2 * 5 * 2 * 180),
    ],
)
def test_recurrent_kernels_count_their_weights_each_step(op, inputs, attributes, expected):
    """Each weight is multiplied and added once a row and step; gates come on top."""
    found = of(op, inputs, **attributes)

    assert expected == found


@pytest.mark.parametrize("op", ["Reshape", "ReadVariableOp", "_Arg", "ConcatV2", "Identity"])
def test_moving_data_is_known_to_compute_nothing(op):
    """It is 0 without a look at shapes: an answer."""
    found = of(op, [])

    assert found == 0


@pytest.mark.parametrize(
    ("op", "inputs", "says"),
    [
        ("NoSuchOp", [(3, 4)], "no formula"),
        ("MatMul", [(-1, 5), (5, 4)], "output 0"),
        ("_FusedMatMul", [(3, 5), (5, 4)], "fused"),
        ("Einsum", [(3, 5), (5, 4)], "equation"),
        ("LSTMBlockCell", [(2, 3), (2, 4), (2, 4), (7,)], "do not fit"),
    ],
)
def test_what_is_not_known_has_a_reason(op, inputs, says):
    """Never 0: an op without formula or without shapes is unknown."""
    with pytest.raises(UnknownOperands, match=says):
        of(op, inputs)


def test_no_op_both_computes_and_moves():
    """The tables do not contradict each other."""
    both = {*FORMULAS} & {*MOVEMENT, *CALLS}

    assert both == set()
