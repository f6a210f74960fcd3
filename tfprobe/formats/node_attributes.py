"""Decode the attributes of a node: types, shapes, outputs, and the types of its ops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from tfprobe.formats.schema import enum_names, message_class, parse
from tfprobe.profile.graph import Attribute

KEPT: tuple[str, ...] = (
    "N",
    "adj_x",
    "adj_y",
    "data_format",
    "depth_radius",
    "dilations",
    "direction",
    "equation",
    "fused_ops",
    "is_training",
    "keep_dims",
    "ksize",
    "num_proj",
    "op_names",
    "padding",
    "rates",
    "recv_device",
    "rnn_mode",
    "send_device",
    "strides",
    "transpose_a",
    "transpose_b",
    "use_nesterov",
    "use_peephole",
)
_KEPT = frozenset(KEPT)


# DT_FLOAT_REF is 100 more than DT_FLOAT.
_REFERENCE = 100
# The attributes that describe an op's outputs, most informative first.
_TYPES: tuple[str, ...] = (
    "output_types",
    "DstT",
    "out_type",
    "output_type",
    "dtype",
    "tensor_type",
    "T",
)
_COMPARISONS = frozenset(
    {
        "ApproximateEqual",
        "Equal",
        "Greater",
        "GreaterEqual",
        "IsFinite",
        "IsInf",
        "IsNan",
        "Less",
        "LessEqual",
        "NotEqual",
    }
)


def attributes(found: Mapping[str, Any]) -> dict[str, Attribute]:
    """Return the attributes to keep of a map of AttrValues. Any: classes are made at run time."""
    # Sorted, as KEPT is: a protobuf map has no order.
    names = sorted(_KEPT.intersection(found)) if found else ()
    values = {name: _value(found[name]) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def output_dtypes(op: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the types of an op's outputs, such as "DT_FLOAT"; one means all; empty if unknown.

    Any: message classes are made at run time.
    """
    if op in _COMPARISONS:
        return ("DT_BOOL",)
    name = next((each for each in _TYPES if each in found), None)
    if name is None:
        return ()
    value = found[name]
    numbers = list(value.list.type) or ([value.type] if value.type else [])
    return tuple(_dtype_name(number) for number in numbers)


def _dtype_name(number: int) -> str:
    known = enum_names("tfprobe.graph.DataType")
    # A reference to a variable has the variable's type.
    return known.get(number - _REFERENCE if number > _REFERENCE else number, "")


def _value(value: Any) -> Attribute | None:
    kind = value.WhichOneof("value")
    if kind == "s":
        text: str = value.s.decode("utf-8", "replace")
        return text
    if kind == "list" and value.list.s:
        return ",".join(each.decode("utf-8", "replace") for each in value.list.s)
    if kind == "list":
        return tuple(value.list.i)
    known: Attribute | None = getattr(value, kind) if kind in ("i", "f", "b") else None
    return known


_UNLIKE_NUMPY = {"float": "float32", "double": "float64", "half": "float16", "invalid": ""}


@cache
def data_type(number: int) -> str:
    """Return the name of a type by TensorFlow's number for it; "" if there is none."""
    field = message_class("tfprobe.step_stats.TensorDescription").DESCRIPTOR.fields_by_name["dtype"]
    known = field.enum_type.values_by_number.get(number)
    return named_data_type(known.name) if known is not None else ""


def named_data_type(written: str) -> str:
    """Return the name of a type that is written "DT_FLOAT" or "float"."""
    name = written.removeprefix("DT_").removesuffix("_REF").lower()
    return _UNLIKE_NUMPY.get(name, name)


def tensor_text(type_name: str, sizes: Iterable[int]) -> str:
    """Return type and shape as one text."""
    return f"{type_name}[{','.join(map(str, sizes))}]"


_NORM = ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2")
_NORM_GRADIENT = ("x_backprop", "scale_backprop", "offset_backprop", "reserve_space_3")
_LSTM = ("i", "cs", "f", "o", "ci", "co", "h")
_RNN = ("output", "output_h", "output_c", "reserve_space", "host_reserved")
_RNN_GRADIENT = ("input_backprop", "input_h_backprop", "input_c_backprop", "params_backprop")
# The outputs of ops that have several, each a single tensor; from TensorFlow's op definitions.
_OUTPUTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2"), _NORM),
    **dict.fromkeys(("FusedBatchNormGrad", "FusedBatchNormGradV2"), _NORM_GRADIENT),
    **dict.fromkeys(("BlockLSTM", "BlockLSTMV2", "LSTMBlockCell"), _LSTM),
    **dict.fromkeys(("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"), _RNN),
    **dict.fromkeys(
        ("CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3"), _RNN_GRADIENT
    ),
    "BroadcastGradientArgs": ("r0", "r1"),
    "FusedBatchNormGradV3": _NORM_GRADIENT,
    "FusedBatchNormV3": (*_NORM, "reserve_space_3"),
    "GRUBlockCell": ("r", "u", "c", "h"),
    "MaxPoolWithArgmax": ("output", "argmax"),
    "Merge": ("output", "value_index"),
    "SoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    "SparseSoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    **dict.fromkeys(("TensorListPopBack", "TensorListPopBackBatch"), ("output_handle", "tensor")),
    "Switch": ("output_false", "output_true"),
    "TopKV2": ("values", "indices"),
    "TensorListConcat": ("tensor", "lengths"),
    "TensorListConcatV2": ("tensor", "lengths"),
    "Unique": ("y", "idx"),
}


def output_number(op: str, argument: str, number: int) -> int:
    """Return the index of the output `argument:number` of an op.

    Ops not listed here have one output argument, possibly a list: its numbers are the outputs.
    """
    arguments = _OUTPUTS.get(op, ())
    return arguments.index(argument) if argument in arguments else number


def op_types(content: bytes) -> dict[str, str]:
    """Return the op of every node; nodes of functions by their names inside the function.

    Raises UnreadableInput if the bytes are not a GraphDef.
    """
    graph = parse(content, "tfprobe.graph.GraphDef")
    types: dict[str, str] = {}
    for function in graph.library.function:
        types.update((node.name, node.op) for node in function.node_def)
    types.update((node.name, node.op) for node in graph.node)
    return types
