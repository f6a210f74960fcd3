"""Compute the size of an op's output from its shape and type."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tfprobe.profile.graph import Node, Shape

# Types of less than eight bits take a byte each.
_BYTES: Mapping[str, int] = {
    "DT_BFLOAT16": 2,
    "DT_BOOL": 1,
    "DT_COMPLEX128": 16,
    "DT_COMPLEX64": 8,
    "DT_DOUBLE": 8,
    "DT_FLOAT": 4,
    "DT_HALF": 2,
    "DT_INT16": 2,
    "DT_INT32": 4,
    "DT_INT64": 8,
    "DT_INT8": 1,
    "DT_UINT16": 2,
    "DT_UINT32": 4,
    "DT_UINT64": 8,
    "DT_UINT8": 1,
}

_NUMPY: Mapping[str, str] = {"float": "float32", "double": "float64", "half": "float16"}


def output_bytes(node: Node, number: int, shapes: Mapping[tuple[str, int], Shape]) -> int | None:
    """Return the bytes of an output of a node, None where its shape or type is not known.

    `shapes` are the shapes at run time, which the graph may leave open.
    """
    shape = shapes.get((node.name, number)) or node.output_shapes.get(number, ())
    one_bytes = dtype_bytes(node, number)
    if one_bytes is None or not shape or min(shape) < 0:
        return None
    return prod(shape) * one_bytes


def outputs_bytes(node: Node, shapes: Mapping[tuple[str, int], Shape]) -> int | None:
    """Return the bytes of all outputs of a node, None where one of them is not known."""
    numbers = node.output_shapes.keys() | {number for name, number in shapes if name == node.name}
    sizes = [output_bytes(node, number, shapes) for number in numbers]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def dtype_bytes(node: Node, number: int) -> int | None:
    """Return the bytes of one element of an output, None where its type is not known."""
    return _BYTES.get(_dtype(node, number))


def shape_text(node: Node, number: int, shapes: Mapping[tuple[str, int], Shape]) -> str:
    """Return type and shape of an output as "float32[64,10]", "" where one is not known."""
    shape = shapes.get((node.name, number)) or node.output_shapes.get(number, ())
    name = _dtype(node, number).removeprefix("DT_").lower()
    if not name or not shape or min(shape) < 0:
        return ""
    return f"{_NUMPY.get(name, name)}[{','.join(map(str, shape))}]"


def _dtype(node: Node, number: int) -> str:
    if len(node.dtypes) == 1:
        return node.dtypes[0]
    return node.dtypes[number] if number < len(node.dtypes) else ""
