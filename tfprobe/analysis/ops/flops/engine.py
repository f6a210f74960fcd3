"""Compute float operations with the formulas of tfprof, including its omissions.

The reference is TensorFlow's python/profiler/internal/flops_registry.py and the statistics of
python/ops/math_ops.py and nn_ops.py. Ops missing here have no formula there.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tfprobe.analysis.ops.flops.call import Formula, OpCall, UnknownOperands, per_input, per_output
from tfprobe.profile.graph import Graph, Node


def float_ops(graph: Graph) -> Mapping[str, int]:
    """Return the float operations of one execution of each node by name, as tfprof logs them.

    Nodes whose op has no formula, whose shapes are incomplete or whose result is 0 are left out.
    """
    nodes = {node.name: node for node in graph.nodes}
    counts = {node.name: _of_node(node, nodes) for node in graph.nodes if node.op in _FORMULAS}
    return {name: count for name, count in counts.items() if count}


def _of_node(node: Node, nodes: Mapping[str, Node]) -> int:
    try:
        return int(_FORMULAS[node.op](static_call(node, nodes)))
    except (UnknownOperands, ArithmeticError, IndexError):
        return 0  # incomplete shapes, or shapes that the op cannot have


def static_call(node: Node, nodes: Mapping[str, Node]) -> OpCall:
    """Return an execution of a node with the shapes in the graph."""
    inputs = []
    for index in range(max(node.inputs, default=-1) + 1):
        producer = nodes.get(node.inputs.get(index, ""))
        shapes = producer.output_shapes if producer is not None else {}
        inputs.append(shapes.get(node.sources.get(index, 0), ()))
    count = max(node.output_shapes, default=-1) + 1
    outputs = tuple(node.output_shapes.get(index, ()) for index in range(count))
    return OpCall(tuple(inputs), outputs, node.attributes)


def _l2_loss(call: OpCall) -> float:
    return 3 * call.size_in() - 1


def _reduction(call: OpCall) -> float:
    return call.size_in() - call.size_out()


def _mean(call: OpCall) -> float:
    call.output()  # not in the formula, but must be known
    return call.size_in()


def _pool(call: OpCall) -> float:
    return _window(call) * call.size_out()


def _average_pool_gradient(call: OpCall) -> float:
    return 2 * _window(call) * call.size_in(1)


def _max_pool_gradient(call: OpCall) -> float:
    return (_window(call) + 1) * call.size_in(1)


def _window(call: OpCall) -> int:
    _check_channels_last(call)
    return prod(call.numbers("ksize"))


def _convolution(*filter_dimensions: int) -> Formula:
    """Return the formula with the product of these dimensions of the filter."""

    def formula(call: OpCall) -> float:
        call.input(0)
        weights = call.input(1)
        return 2 * call.size_out() * prod(weights[at] for at in filter_dimensions)

    return formula


def _convolution_to_input(call: OpCall) -> float:
    _check_channels_last(call)
    return 2 * call.size_out() * call.size_in(1) / (call.output()[-1] * _stride_area(call))


def _convolution_to_filter(call: OpCall) -> float:
    _check_channels_last(call)
    return 2 * call.size_in() * call.size_out() / (call.input(0)[-1] * _stride_area(call))


def _stride_area(call: OpCall) -> int:
    strides = call.numbers("strides")
    return strides[1] * strides[2]


def _check_channels_last(call: OpCall) -> None:
    if call.text("data_format") != "NHWC":
        raise UnknownOperands("tfprof computes this for NHWC only")


def _add_n(call: OpCall) -> float:
    # tfprof counts control inputs as well.
    return call.size_in() * (len(call.inputs) - 1)


def _matrix_product(call: OpCall) -> float:
    depth = call.input(0)[0 if call.flag("transpose_a") else 1]
    return 2 * depth * call.size_out()


def _batch_matrix_product(call: OpCall) -> float:
    # The attribute of the op is adj_x, but tfprof reads transpose_a: mostly the last dimension.
    depth = call.input(0)[-2 if call.flag("transpose_a") else -1]
    return 2 * depth * call.size_out()


_UNARY = ("Reciprocal", "Square", "Log", "Neg", "AssignSub", "AssignAdd", "BiasAdd")
_BINARY = (
    "Add",
    "AddV2",
    "Sub",
    "Mul",
    "RealDiv",
    "Maximum",
    "Minimum",
    "Pow",
    "GreaterEqual",
    "Greater",
    "LessEqual",
    "Less",
    "Equal",
    "NotEqual",
)
_FORMULAS: Mapping[str, Formula] = {
    **dict.fromkeys(_UNARY, per_input()),
    **dict.fromkeys(_BINARY, per_output()),
    **dict.fromkeys(("Sum", "ArgMax", "ArgMin", "BiasAddGrad"), _reduction),
    **dict.fromkeys(("AvgPool", "MaxPool"), _pool),
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _batch_matrix_product),
    **dict.fromkeys(("DepthwiseConv2dNative", "Dilation2D"), _convolution(0, 1)),
    "AddN": _add_n,
    "AvgPoolGrad": _average_pool_gradient,
    "Conv2D": _convolution(0, 1, 2),
    "Conv2DBackpropFilter": _convolution_to_filter,
    "Conv2DBackpropInput": _convolution_to_input,
    "Conv3D": _convolution(0, 1, 2, 3),
    "L2Loss": _l2_loss,
    "MatMul": _matrix_product,
    "MaxPoolGrad": _max_pool_gradient,
    "Mean": _mean,
    "Rsqrt": per_input(2),
    "RsqrtGrad": per_output(4),
    "Softmax": per_input(5),
    "SquaredDifference": per_output(2),
}
