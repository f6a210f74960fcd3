"""Take from a node's attributes those that say how much there is to compute, and to move.

A list of texts becomes one text, with commas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfprobe.formats.schema import enum_names
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
# Where an op says what its outputs are, the most telling first.
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
    """Return the kept ones of a map of AttrValues. Any: message classes are made at run time."""
    # Sorted, as KEPT is: a map of protobuf has no order.
    names = sorted(_KEPT.intersection(found)) if found else ()
    values = {name: _value(found[name]) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def output_dtypes(op: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the types of an op's outputs, "DT_FLOAT"; one stands for all, none where untold.

    Any: message classes are made at run time.
    """
    if op in _COMPARISONS:
        return ("DT_BOOL",)
    name = next((each for each in _TYPES if each in found), None)
    if name is None:
        return ()
    told = found[name]
    numbers = list(told.list.type) or ([told.type] if told.type else [])
    return tuple(_dtype_name(number) for number in numbers)


def _dtype_name(number: int) -> str:
    known = enum_names("tfprobe.graph.DataType")
    # A reference to a variable is of its type.
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
