"""Rules about which sizes an op makes equal, so that unknown sizes follow from known ones.

A rule gets the shapes of one node and completes them in place. It leaves contradictory shapes as
they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

from tfprobe.analysis.ops.flops import formulas
from tfprobe.profile.graph import Attribute, Shape


@dataclass(slots=True)
class BoundTensors:
    """The shapes of the inputs and outputs of a node, () if unknown; rules modify the lists."""

    inputs: list[Shape]
    outputs: list[Shape]
    attributes: Mapping[str, Attribute]


Rule = Callable[[BoundTensors], None]


def _same(inputs: Sequence[int] = (0,), outputs: Sequence[int] = (0,)) -> Rule:
    """Return the rule that these inputs and outputs have the same shape."""

    def rule(tensors: BoundTensors) -> None:
        places = [(tensors.inputs, at) for at in inputs if at < len(tensors.inputs)]
        places += [(tensors.outputs, at) for at in outputs if at < len(tensors.outputs)]
        met: Shape = ()
        for shapes, at in places:
            both = _met(met, shapes[at])
            if both is None:
                return
            met = both
        for shapes, at in places:
            shapes[at] = met

    return rule


def _met(one: Shape, other: Shape) -> Shape | None:
    """Combine two partial versions of one shape; None if they contradict."""
    if not one or not other:
        return one or other
    if len(one) != len(other):
        return None
    if any(-1 not in (a, b) and a != b for a, b in zip(one, other, strict=True)):
        return None
    return tuple(max(a, b) for a, b in zip(one, other, strict=True))


def _sum_of_all(tensors: BoundTensors) -> None:
    count = tensors.attributes.get("N")
    _same(range(count if isinstance(count, int) else 0))(tensors)


def _broadcast(tensors: BoundTensors) -> None:
    """The output is as large as the largest operand in each dimension."""
    operands = tensors.inputs[:3] if len(tensors.inputs) > 2 else tensors.inputs[:2]
    if len(operands) < 2 or not all(operands):
        return
    met = _met(tensors.outputs[0], reduce(broadcast, operands))
    if met is not None:
        tensors.outputs[0] = met


def broadcast(one: Shape, other: Shape) -> Shape:
    """Return the shape of two operands together, -1 where it is open."""
    rank = max(len(one), len(other))
    padded = [(1,) * (rank - len(shape)) + shape for shape in (one, other)]
    return tuple(_broadcast_size(a, b) for a, b in zip(*padded, strict=True))


def _broadcast_size(a: int, b: int) -> int:
    """An unknown size and one above 1 give the latter; an unknown size and 1 stay unknown."""
    if -1 in (a, b):
        return max(a, b) if max(a, b) != 1 else -1
    return b if a == 1 else a


def _same_count(tensors: BoundTensors) -> None:
    """The output has as many elements as the input: one unknown size follows from the others."""
    if not tensors.inputs:
        return
    given, made = tensors.inputs[0], tensors.outputs[0]
    tensors.outputs[0] = _filled(made, given)
    tensors.inputs[0] = _filled(given, tensors.outputs[0])


def _filled(shape: Shape, whole: Shape) -> Shape:
    if not whole or min(whole) < 0 or shape.count(-1) != 1:
        return shape
    known = prod(size for size in shape if size >= 0)
    if known == 0 or prod(whole) % known:
        return shape
    return tuple(prod(whole) // known if size < 0 else size for size in shape)


def _labelled(inputs: Mapping[int, str], output: str) -> Rule:
    """Return the rule that dimensions with the same label have the same size, except for `.`."""

    def rule(tensors: BoundTensors) -> None:
        places = [
            (tensors.inputs, at, text) for at, text in inputs.items() if at < len(tensors.inputs)
        ]
        _unify([*places, (tensors.outputs, 0, output)])

    return rule


def _unify(places: Sequence[tuple[list[Shape], int, str]]) -> None:
    sizes: dict[str, int] = {}
    for shapes, at, text in places:
        if len(shapes[at]) != len(text):
            continue
        for label, size in zip(text, shapes[at], strict=True):
            if size >= 0 and sizes.setdefault(label, size) != size and label != ".":
                return
    sizes["."] = -1
    for shapes, at, text in places:
        if len(shapes[at]) == len(text):
            labelled = zip(text, shapes[at], strict=True)
            shapes[at] = tuple(sizes.get(label, -1) if n < 0 else n for label, n in labelled)


def _matrix_product(tensors: BoundTensors) -> None:
    flags = tensors.attributes
    a = "km" if flags.get("transpose_a") else "mk"
    b = "nk" if flags.get("transpose_b") else "kn"
    _labelled({0: a, 1: b}, "mn")(tensors)


def _batch_matrix_product(tensors: BoundTensors) -> None:
    if len(tensors.inputs) < 2 or not tensors.inputs[0] or not tensors.inputs[1]:
        return
    flags = tensors.attributes
    a, b = tensors.inputs[:2]
    rows = a[-1 if flags.get("adj_x") else -2 :][:1]
    columns = b[-2 if flags.get("adj_y") else -1 :][:1]
    met = _met(tensors.outputs[0], (*broadcast(a[:-2], b[:-2]), *rows, *columns))
    if met is not None:
        tensors.outputs[0] = met


def _einsum(tensors: BoundTensors) -> None:
    equation = str(tensors.attributes.get("equation", "")).replace(" ", "")
    operands, arrow, result = equation.partition("->")
    if arrow and "." not in equation:
        _labelled(dict(enumerate(operands.split(","))), result)(tensors)


def _images(inputs: Mapping[int, str], output: str) -> Rule:
    """Return a labelled rule for images: `n` is the batch, `c` and other letters are channels.

    A text of two letters is an image with batch and channels, in the layout of the op; longer texts
    have a letter per dimension.
    """

    def rule(tensors: BoundTensors) -> None:
        layout = str(tensors.attributes.get("data_format", "NHWC"))
        places = [
            (tensors.inputs, at, _laid_out(text, layout))
            for at, text in inputs.items()
            if at < len(tensors.inputs)
        ]
        _unify([*places, (tensors.outputs, 0, _laid_out(output, layout))])

    return rule


def _laid_out(text: str, layout: str) -> str:
    if len(text) != 2:
        return text
    spaces = "." * (len(layout) - 2)
    return text[0] + (text[1] + spaces if layout[1] == "C" else spaces + text[1])


def _rows_loss(tensors: BoundTensors) -> None:
    """The loss has one value per row; the gradient has the shape of the logits."""
    _same((0,), (1,))(tensors)
    _labelled({0: "r."}, "r")(tensors)


def _max_pool_gradient(tensors: BoundTensors) -> None:
    """The result has the shape of the pool's input, the gradient that of its output."""
    _same()(tensors)
    _same((1, 2), ())(tensors)


def _divided(tensors: BoundTensors) -> None:
    """Parts have the size of the whole except along one axis, where their sizes differ."""
    at = max(range(len(tensors.inputs)), key=lambda at: len(tensors.inputs[at]), default=0)
    if tensors.inputs:
        _share_all_axes_but_one(tensors.inputs, at, tensors.outputs, range(len(tensors.outputs)))


def _concatenated(tensors: BoundTensors) -> None:
    count = tensors.attributes.get("N")
    parts = range(min(count if isinstance(count, int) else 0, len(tensors.inputs)))
    _share_all_axes_but_one(tensors.outputs, 0, tensors.inputs, parts)


def _share_all_axes_but_one(
    wholes: list[Shape], at: int, shapes: list[Shape], parts: Sequence[int]
) -> None:
    whole = wholes[at]
    if not parts or any(len(shapes[part]) != len(whole) for part in parts):
        return
    sizes = [[shapes[part][axis] for part in parts] for axis in range(len(whole))]
    along = [
        axis
        for axis, of_parts in enumerate(sizes)
        if whole[axis] >= 0 and any(size >= 0 and size != whole[axis] for size in of_parts)
    ]
    if len(along) != 1:
        return
    known = tuple(max(size, *of_parts) for size, of_parts in zip(whole, sizes, strict=True))
    wholes[at] = tuple(whole[axis] if axis in along else size for axis, size in enumerate(known))
    for part in parts:
        shapes[part] = tuple(
            shapes[part][axis] if axis in along else size for axis, size in enumerate(known)
        )


def _carried(tensors: BoundTensors) -> None:
    """A loop variable has the shape of its initial value and of its value after an iteration."""
    met = tensors.outputs[0]
    for shape in tensors.inputs:
        both = _met(met, shape)
        if both is None:
            return
        met = both
    tensors.outputs[0] = met


def _stacked(lists: Sequence[Shape], rows: Sequence[Shape]) -> tuple[Shape, Shape]:
    """Complete the shape of a list's elements and that of the tensor of all elements."""
    element, whole = lists[0], rows[0]
    if not whole:
        return element, whole
    met = _met(element, whole[1:] or (1,))
    if met is None:
        return element, whole
    return met, whole[:1] + met if len(whole) > 1 else whole


def _from_tensor(tensors: BoundTensors) -> None:
    if tensors.inputs:
        found = _stacked(tensors.outputs, tensors.inputs)
        tensors.outputs[0], tensors.inputs[0] = found


def _to_tensor(tensors: BoundTensors) -> None:
    if tensors.inputs:
        found = _stacked(tensors.inputs, tensors.outputs)
        tensors.inputs[0], tensors.outputs[0] = found


def _linked(tensors: BoundTensors) -> None:
    """One size of the input equals one of the output; `LINK` has their axes."""
    link = tensors.attributes.get(LINK)
    if not isinstance(link, tuple) or not tensors.inputs[0] or not tensors.outputs[0]:
        return
    at_input, at_output = link
    given, made = list(tensors.inputs[0]), list(tensors.outputs[0])
    if at_input >= len(given) or at_output >= len(made):
        return
    known = max(given[at_input], made[at_output])
    if -1 in (given[at_input], made[at_output]):
        given[at_input] = made[at_output] = known
        tensors.inputs[0], tensors.outputs[0] = tuple(given), tuple(made)


# The op of nodes that stand for loop variables.
CARRIED = "_Carried"
# Ops whose output is a list handle, which has the shape of the elements here.
LISTS = (
    *("EmptyTensorList", "TensorListFromTensor", "TensorListPopBack", "TensorListPushBack"),
    *("TensorListReserve", "TensorListResize", "TensorListSetItem"),
)
# The op and the attribute of nodes that only state that two sizes are equal.
LINKED, LINK = "_Linked", "link"
# The remaining dimensions of their input keep their sizes.
REDUCTIONS = (
    "All",
    "Any",
    "ArgMax",
    "ArgMin",
    "EuclideanNorm",
    "Max",
    "Mean",
    "Min",
    "Prod",
    "Sum",
)
_UNARY = (
    *("BiasAdd", "Cast", "Cumprod", "Cumsum", "Identity", "LRN", "LogSoftmax", "OnesLike"),
    *("PreventGradient", "Snapshot", "Softmax", "StopGradient", "ZerosLike"),
    *formulas.UNARY,
)
_COUNTED = ("ExpandDims", "Reshape", "Squeeze", "Transpose")
RULES: Mapping[str, Rule] = {
    **dict.fromkeys((*_UNARY, "_UnaryOpsComposition"), _same()),
    **dict.fromkeys(formulas.GRADIENTS, _same((0, 1))),
    **dict.fromkeys(formulas.BINARY, _broadcast),
    **dict.fromkeys(formulas.CHOICES, _broadcast),
    **dict.fromkeys(_COUNTED, _same_count),
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _batch_matrix_product),
    **dict.fromkeys(("AvgPool", "MaxPool", "AvgPool3D", "MaxPool3D"), _images({0: "nc"}, "nc")),
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _same()),
    **dict.fromkeys(
        ("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"), _same((0, 1))
    ),
    CARRIED: _carried,
    LINKED: _linked,
    "AddN": _sum_of_all,
    "ConcatV2": _concatenated,
    "Conv2D": _images({0: "n.", 1: "...o"}, "no"),
    "Conv2DBackpropFilter": _images({0: "n.", 2: "no"}, "...o"),
    "Conv2DBackpropInput": _images({1: "...o", 2: "no"}, "n."),
    "Conv3D": _images({0: "n.", 1: "....o"}, "no"),
    "Conv3DBackpropFilterV2": _images({0: "n.", 2: "no"}, "....o"),
    "Conv3DBackpropInputV2": _images({1: "....o", 2: "no"}, "n."),
    "DepthwiseConv2dNative": _images({0: "nc", 1: "..c."}, "n."),
    "Einsum": _einsum,
    "MatMul": _matrix_product,
    "MaxPoolGrad": _max_pool_gradient,
    "SoftmaxCrossEntropyWithLogits": _rows_loss,
    "SparseSoftmaxCrossEntropyWithLogits": _rows_loss,
    "Split": _divided,
    "SplitV": _divided,
    "TensorListFromTensor": _from_tensor,
    "TensorListGetItem": _same(),
    "TensorListPopBack": _same((0,), (0, 1)),
    "TensorListPushBack": _same((0, 1)),
    "TensorListResize": _same(),
    "TensorListSetItem": _same((0, 2)),
    "TensorListStack": _to_tensor,
    "XlaEinsum": _einsum,
}
# The input whose value is the shape of the output.
SHAPE_INPUTS: Mapping[str, int] = {
    "AvgPoolGrad": 0,
    "BroadcastTo": 1,
    "Conv2DBackpropInput": 0,
    "Conv3DBackpropInputV2": 0,
    "DepthwiseConv2dNativeBackpropInput": 0,
    "Fill": 0,
    "RandomStandardNormal": 0,
    "RandomUniform": 0,
    "Reshape": 1,
    "StatelessRandomNormalV2": 0,
    "StatelessRandomUniform": 0,
    "StatelessRandomUniformV2": 0,
    "TruncatedNormal": 0,
}
