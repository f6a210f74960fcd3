"""Find how large the elements were that a dataset gave a step, from an XSpace's tf.data events.

A dataset that keeps its last, smaller batch does not know its batch: `[?,28,28] [?]`. But the
iterator says how many bytes an element had.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from tfprobe.profile.graph import Node, Shape

_GET_NEXT = "IteratorGetNextOp::DoCompute"
_ROOT = "Iterator::Root"
# The last thing done to an element is to batch it: all its components have one first size.
_BATCHED = re.compile(
    r"Iterator::Root(::(Prefetch|MaxIntraOpParallelism|PrivateThreadPool|Options))*"
    r"::(BatchV2|ParallelBatch)\Z"
)
_SHAPE = re.compile(r"\[((?:\?|\d+)(?:,(?:\?|\d+))*)?\]\Z")
_TYPE_BYTES: Mapping[str, int] = {
    "bfloat16": 2,
    "bool": 1,
    "complex128": 16,
    "complex64": 8,
    "double": 8,
    "float": 4,
    "half": 2,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "int8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "uint8": 1,
}


def element_shapes(space: Any, nodes: Iterable[Node]) -> dict[tuple[str, int], Shape]:
    """Return the shapes that the outputs of the graph's one iterator op had, if they are told.

    Only where one size is open, the first of all components, and the bytes of the one element that
    was taken tell it. Any: message classes are made at run time.
    """
    iterators = [node for node in nodes if node.op == "IteratorGetNext"]
    told = _told(space)
    if len(iterators) != 1 or told is None:
        return {}
    static, types, size_bytes, is_batched = told
    outputs = iterators[0].output_shapes
    if static != [outputs[at] for at in sorted(outputs)]:
        return {}
    found = _solved(static, types, size_bytes, is_batched=is_batched)
    return {
        (iterators[0].name, at): shape for at, shape in zip(sorted(outputs), found, strict=False)
    }


def _told(space: Any) -> tuple[list[Shape], list[str], int, bool] | None:
    """Return shapes and types of the one dataset, bytes of its one element, and how it is made."""
    roots, sizes, is_batched = set(), set(), False
    for plane in space.planes:
        names = {at: each.name for at, each in plane.event_metadata.items()}
        is_batched = is_batched or any(map(_BATCHED.match, names.values()))
        wanted = {at for at, name in names.items() if name in (_GET_NEXT, _ROOT)}
        stats = {at: each.name for at, each in plane.stat_metadata.items()} if wanted else {}
        for line in plane.lines if wanted else ():
            for event in line.events:
                if event.metadata_id not in wanted:
                    continue
                facts = {stats.get(stat.metadata_id, ""): stat for stat in event.stats}
                if "element_size" in facts:
                    stat = facts["element_size"]
                    sizes.add(stat.int64_value or stat.uint64_value)
                elif "shapes" in facts and "types" in facts:
                    roots.add(tuple(_text(facts[key], stats) for key in ("shapes", "types")))
    if len(roots) != 1 or len(sizes) != 1:
        return None
    shapes, types = roots.pop()
    parsed = [_SHAPE.match(text) for text in shapes.split(" ")]
    static = [_shape(each[1]) for each in parsed if each is not None]
    if len(static) != len(parsed) or len(static) != len(types.split(" ")):
        return None
    return static, types.split(" "), sizes.pop(), is_batched


def _solved(
    static: list[Shape], types: list[str], size_bytes: int, *, is_batched: bool
) -> list[Shape]:
    is_open = [-1 in shape for shape in static]
    if any(shape.count(-1) > 1 or -1 in shape[1:] for shape in static) or not any(is_open):
        return []
    if is_open.count(True) > 1 and not is_batched:
        return []
    if any(each not in _TYPE_BYTES for each in types):
        return []
    known_bytes = row_bytes = 0
    for shape, each, open_ in zip(static, types, is_open, strict=True):
        amount = _TYPE_BYTES[each] * prod(size for size in shape if size >= 0)
        known_bytes += 0 if open_ else amount
        row_bytes += amount if open_ else 0
    rows, rest = divmod(size_bytes - known_bytes, row_bytes or 1)
    if rest or rows < 1 or not row_bytes:
        return []
    return [tuple(rows if size < 0 else size for size in shape) for shape in static]


def _shape(text: str | None) -> Shape:
    return tuple(-1 if size == "?" else int(size) for size in (text or "1").split(","))


def _text(stat: Any, names: Mapping[int, str]) -> str:
    text: str = stat.str_value or names.get(stat.ref_value, "")
    return text
