"""Decode the events of allocators: one row for each piece allocated or freed.

The events MemoryAllocation and MemoryDeallocation are those of TensorFlow's BFC allocator
(tensorflow/core/common_runtime/bfc_allocator.cc, AddTraceMe): of each GPU and, on a CPU with
oneDNN, of "mklcpu", which serves requests above 256 KiB. Seen in recordings of TensorFlow 2.15
and 2.21 on CPU; 2.4 has none there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tfprobe.formats.node_attributes import data_type, named_data_type
from tfprobe.formats.xspace.plane import HOST, Plane, number
from tfprobe.profile.capture_tables import Allocations
from tfprobe.profile.tables import Columns, Interner, int64s

_SIGNS = {"MemoryAllocation": 1, "MemoryDeallocation": -1}
_OF_GPU = re.compile(r"GPU_(\d+)_")
# What C++ wrote if no op was known.
_NO_TEXTS = ("(null)", "INVALID")
_UNTOLD = -1


def add_allocations(
    columns: Columns[Allocations],
    interner: Interner,
    plane: Plane,
    op_types_of_rows: Callable[[], Mapping[str, str]],
) -> None:
    """Add a row for each event of an allocator in the host's plane.

    `op_types_of_rows` returns the ops of nodes by name.
    """
    op_types: Mapping[str, str] | None = None
    for line, found in plane.named(_SIGNS.__contains__):
        op_types = op_types_of_rows() if op_types is None else op_types
        start_ns, _ = plane.times_ns(line, found)
        pieces = [_piece(stats, op_types) for stats in plane.stats(line, found)]
        signs = [_SIGNS[name] for name in plane.names_at(line, found)]
        position = interner.position
        columns.add(
            len(found),
            allocator=[position(piece.allocator) for piece in pieces],
            device=[position(piece.device) for piece in pieces],
            op=[position(piece.op) for piece in pieces],
            op_type=[position(piece.op_type) for piece in pieces],
            shape=[position(piece.shape) for piece in pieces],
            at_ns=start_ns,
            bytes=int64s(sign * piece.bytes for sign, piece in zip(signs, pieces, strict=True)),
            address=int64s(piece.address for piece in pieces),
            in_use_bytes=int64s(piece.in_use_bytes for piece in pieces),
            free_bytes=int64s(piece.free_bytes for piece in pieces),
            peak_bytes=int64s(piece.peak_bytes for piece in pieces),
            largest_free_bytes=int64s(piece.largest_free_bytes for piece in pieces),
        )


class _Piece(NamedTuple):
    """What an allocator reports when it allocates or frees a piece."""

    allocator: str
    device: str
    op: str
    op_type: str
    shape: str
    bytes: int
    address: int
    in_use_bytes: int
    free_bytes: int
    peak_bytes: int
    largest_free_bytes: int


def _piece(stats: Mapping[str, Any], op_types: Mapping[str, str]) -> _Piece:
    allocator, op = _text(stats, "allocator_name"), _text(stats, "tf_op")
    gpu = _OF_GPU.match(allocator)
    free_bytes = _size(stats, "bytes_available")
    return _Piece(
        allocator=allocator,
        device=f"/device:GPU:{gpu[1]}" if gpu else HOST,
        op=op,
        op_type=op_types.get(op, ""),
        shape=_shape(stats),
        bytes=max(_size(stats, "allocation_bytes"), 0),
        address=number(stats.get("addr")),
        in_use_bytes=_size(stats, "bytes_allocated"),
        free_bytes=free_bytes,
        peak_bytes=_size(stats, "peak_bytes_in_use"),
        largest_free_bytes=_largest_free_bytes(free_bytes, stats.get("fragmentation")),
    )


def _text(stats: Mapping[str, Any], name: str) -> str:
    text = str(stats.get(name, ""))
    return "" if text in _NO_TEXTS else text


def _size(stats: Mapping[str, Any], name: str) -> int:
    """Return a size in bytes; the allocator's own sums may be below 0 when it has no limit."""
    value = stats.get(name)
    return value if isinstance(value, int) and 0 <= value < 2**63 else _UNTOLD


def _shape(stats: Mapping[str, Any]) -> str:
    sizes, kind = _text(stats, "shape"), stats.get("data_type")
    if not sizes:
        return ""
    return (
        f"{data_type(kind) if isinstance(kind, int) else named_data_type(str(kind or ''))}{sizes}"
    )


def _largest_free_bytes(free_bytes: int, fragmentation: object) -> int:
    """Return the largest free piece: fragmentation is the share of free memory outside it."""
    if free_bytes == _UNTOLD or not isinstance(fragmentation, int | float):
        return _UNTOLD
    if not math.isfinite(fragmentation) or not 0 <= fragmentation <= 1:
        return _UNTOLD  # 0 / 0 if everything reserved is in use
    return round(free_bytes * (1 - fragmentation))
