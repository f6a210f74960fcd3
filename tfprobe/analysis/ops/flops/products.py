"""Formulas of matrix products and convolutions: a multiply-add is two operations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod

from tfprobe.analysis.ops.flops.call import Formula, OpCall, UnknownOperands, per_input, per_output
from tfprobe.analysis.ops.flops.formulas import ACTIVATIONS
from tfprobe.profile.graph import Shape

# Operations for each element of the output, by the name in the attribute `fused_ops`.
_PER_OUTPUT: Mapping[str, int] = {
    **ACTIVATIONS,
    "Add": 1,
    "BiasAdd": 1,
    "BinaryAdd": 1,
    "FusedBatchNorm": 3,
    "Mul": 1,
    "_FusedHardSwish": 4,
    "_FusedSwish": 5,
    "_MklFusedMish": 5,
    "_MklSwish": 5,
}


def with_fused(product: Formula) -> Formula:
    """Return the formula of a product and the ops fused with it."""

    def formula(call: OpCall) -> float:
        names = [name for name in call.text("fused_ops").split(",") if name]
        unknown = [name for name in names if name not in _PER_OUTPUT]
        if unknown:
            raise UnknownOperands(f"{unknown[0]} is fused into it")
        if "fused_ops" not in call.attributes:
            raise UnknownOperands("what is fused into it is unknown")
        return product(call) + sum(_PER_OUTPUT[name] for name in names) * call.size_out()

    return formula


_EQUATION = re.compile(r"[^,>-]*(?:,[^,>-]*)?->[^,>-]*\Z")


def _matrix_product(call: OpCall) -> float:
    """Return 2 x inner dimension, from either operand, x elements of the output."""
    transposed_a = call.flag("transpose_a") or call.flag("adj_x")
    transposed_b = call.flag("transpose_b") or call.flag("adj_y")
    try:
        depth = call.input(0)[-2 if transposed_a else -1]
    except UnknownOperands:
        depth = call.input(1)[-1 if transposed_b else -2]
    return 2 * depth * call.size_out()


def _sparse_product(call: OpCall) -> float:
    """Return 2 x entries of the sparse matrix x columns of the result."""
    return 2 * call.input(0)[0] * call.output()[-1]


def _einsum(call: OpCall) -> float:
    """Return the operations of an equation: one product for each combination of its labels.

    Labels that are not in the result are summed over. With one operand there is only the sum.
    """
    equation = call.text("equation").replace(" ", "")
    if not _EQUATION.match(equation):
        raise UnknownOperands("its equation is unknown")
    operands, _, result = equation.partition("->")
    subscripts = operands.split(",")
    shapes = [call.input(at) for at in range(len(subscripts))]
    sizes: dict[str, int] = {}
    broadcast: Shape = ()
    for text, shape in zip(subscripts, shapes, strict=True):
        broadcast = _label(text, shape, sizes, broadcast)
    combinations = prod(sizes.values()) * prod(broadcast)
    kept = prod(size for label, size in sizes.items() if label in result)
    kept *= prod(broadcast) if "..." in result else 1
    if len(subscripts) == 1:
        return combinations - kept
    return combinations * (2 if kept < combinations else 1)


def _label(text: str, shape: Shape, sizes: dict[str, int], broadcast: Shape) -> Shape:
    """Add the label sizes of an operand to `sizes`; return the shape of all ellipses so far."""
    before, dots, after = text.partition("...")
    # A scalar has no labels, and the shape (1,).
    rank = 0 if not text else len(shape)
    inside = rank - len(before) - len(after)
    if inside < 0 or (inside > 0 and not dots):
        raise UnknownOperands("its equation does not fit the shapes of its inputs")
    middle = shape[len(before) : len(before) + inside]
    named = (*shape[: len(before)], *(shape[len(before) + inside :]))
    for label, size in zip(before + after, named, strict=False):
        sizes[label] = max(size, sizes.get(label, 1))
    longest = max(len(middle), len(broadcast))
    return tuple(
        max(one, other)
        for one, other in zip(_padded(middle, longest), _padded(broadcast, longest), strict=True)
    )


def _padded(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + shape


_PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
PRODUCTS: Mapping[str, Formula] = {
    **dict.fromkeys(_PRODUCTS, _matrix_product),
    "Einsum": _einsum,
    "FusedBatchMatMulV2": with_fused(_matrix_product),
    "FusedMatMul": with_fused(_matrix_product),
    "SparseMatMul": _matrix_product,
    "SparseTensorDenseMatMul": _sparse_product,
    "XlaEinsum": _einsum,
}


def _convolution(call: OpCall) -> float:
    return 2 * call.size_out() * _taps(call.input(1))


def _to_input(call: OpCall) -> float:
    """Inputs: sizes of the image (or the image), filter, gradient of the output."""
    return 2 * call.size_in(2) * _taps(call.input(1))


def _to_filter(call: OpCall) -> float:
    """Inputs: image, sizes of the filter (or the filter), gradient of the output."""
    return 2 * call.size_in(2) * _taps(call.output())


def _to_filter_and_bias(call: OpCall) -> float:
    return _to_filter(call) + call.size_in(2) - call.output()[-1]


def _depthwise(call: OpCall) -> float:
    return 2 * call.size_out() * prod(call.input(1)[:2])


def _depthwise_to_input(call: OpCall) -> float:
    return 2 * call.size_in(2) * prod(call.input(1)[:2])


def _depthwise_to_filter(call: OpCall) -> float:
    return 2 * call.size_in(2) * prod(call.output()[:2])


def _with_bias(call: OpCall) -> float:
    return _convolution(call) + call.size_out()


def _dilation_gradient(call: OpCall) -> float:
    """The maximum of the window is searched again, and the gradient added there."""
    return call.size_in(2) * (2 * prod(call.input(1)[:2]) + 1)


def _taps(weights: Shape) -> int:
    return prod(weights[:-1])


CONVOLUTIONS: Mapping[str, Formula] = {
    **dict.fromkeys(("Conv", "Conv2D", "Conv3D"), _convolution),
    **dict.fromkeys(("Conv2DBackpropFilter", "Conv2DBackpropFilterV2"), _to_filter),
    **dict.fromkeys(("Conv3DBackpropFilter", "Conv3DBackpropFilterV2"), _to_filter),
    **dict.fromkeys(("Conv2DBackpropInput", "Conv2DBackpropInputV2"), _to_input),
    **dict.fromkeys(("Conv3DBackpropInput", "Conv3DBackpropInputV2"), _to_input),
    **dict.fromkeys(("FusedConv2D", "FusedConv3D", "PadWithFusedConv2D"), with_fused(_convolution)),
    "Conv2DBackpropFilterWithBias": _to_filter_and_bias,
    "Conv2DWithBias": _with_bias,
    "DepthwiseConv2dNative": _depthwise,
    "DepthwiseConv2dNativeBackpropFilter": _depthwise_to_filter,
    "DepthwiseConv2dNativeBackpropInput": _depthwise_to_input,
    "Dilation2D": _depthwise,
    "Dilation2DBackpropFilter": _dilation_gradient,
    "Dilation2DBackpropInput": _dilation_gradient,
    "FusedDepthwiseConv2dNative": with_fused(_depthwise),
    "PadWithConv2D": _convolution,
}


def _pool(call: OpCall) -> float:
    return _window(call) * call.size_out()


def _average_gradient(call: OpCall) -> float:
    """Each gradient is divided and added, for each element of the window."""
    return 2 * _window(call) * call.size_in(1)


def _max_gradient(call: OpCall) -> float:
    """The window is searched again, and the gradient added at its maximum."""
    return (_window(call) + 1) * call.size_in(1)


def _window(call: OpCall) -> int:
    sizes = call.numbers("ksize")
    if not sizes:
        raise UnknownOperands("the size of its window is unknown")
    return prod(sizes)


_POOLS = ("AvgPool", "AvgPool3D", "MaxPool", "MaxPool3D", "MaxPoolV2", "MaxPoolWithArgmax")
POOLING: Mapping[str, Formula] = {
    **dict.fromkeys(_POOLS, _pool),
    **dict.fromkeys(("AvgPoolGrad", "AvgPool3DGrad"), _average_gradient),
    **dict.fromkeys(("MaxPoolGrad", "MaxPool3DGrad", "MaxPoolGradV2"), _max_gradient),
    "MaxPoolGradWithArgmax": per_input(index=1),
    # Three interpolations of a + (b - a) x.
    "ResizeBilinear": per_output(9),
    # Four corners, each a weight, a product and a sum.
    "ResizeBilinearGrad": per_input(12),
    "ResizeNearestNeighborGrad": per_input(),
}
