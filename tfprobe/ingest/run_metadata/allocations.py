"""Decode what nodes took from their allocators.

Each memory entry of a node lists what was allocated and freed for it and when (allocation_records,
until the step is over, in TensorFlow 1.14 to 2.21), or only sums, as recordings of 2017 do. An
allocator that counts says how much it held when the node was done; that of a CPU does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tfprobe.ingest.columns import int64s, signed
from tfprobe.ingest.data_types import data_type, tensor_text
from tfprobe.model.allocations import Allocations
from tfprobe.model.strings import Interner
from tfprobe.model.tables import Columns, Int32s, Int64s

_NS_PER_US = 1000
_UNTOLD = -1


def add_allocations(
    columns: Columns[Allocations],
    interner: Interner,
    nodes: Sequence[Any],
    *,
    device: int,
    names: Int32s,
    op_types: Int32s,
    start_ns: Int64s,
    duration_ns: Int64s,
) -> None:
    """Add the allocations of the nodes of a device. Any: NodeExecStats."""
    pieces, owners = [], []
    times = zip(start_ns.tolist(), (start_ns + duration_ns).tolist(), strict=True)
    for owner, (node, (began_ns, ended_ns)) in enumerate(zip(nodes, times, strict=True)):
        if not node.memory:
            continue
        found = list(_pieces(node, began_ns, ended_ns))
        pieces += found
        owners += [owner] * len(found)
    columns.add(
        len(pieces),
        allocator=[interner.position(each.allocator) for each in pieces],
        device=device,
        op=names[owners],
        op_type=op_types[owners],
        shape=[interner.position(each.shape) for each in pieces],
        at_ns=int64s(each.at_ns for each in pieces),
        bytes=int64s(each.bytes for each in pieces),
        address=int64s(each.address for each in pieces),
        in_use_bytes=int64s(each.in_use_bytes for each in pieces),
        free_bytes=_UNTOLD,
        peak_bytes=_UNTOLD,
        largest_free_bytes=_UNTOLD,
    )


class _Piece(NamedTuple):
    """What an allocator gave (below 0: was given back), or said of itself (0)."""

    allocator: str
    at_ns: int
    bytes: int
    shape: str = ""
    address: int = 0
    in_use_bytes: int = _UNTOLD


def _pieces(node: Any, began_ns: int, ended_ns: int) -> Iterator[_Piece]:
    outputs = _outputs(node)
    for used in node.memory:
        name = used.allocator_name
        for record in used.allocation_records:
            shape, address = outputs.get((name, abs(record.alloc_bytes)), ("", 0))
            at_ns = record.alloc_micros * _NS_PER_US
            yield _Piece(name, at_ns, record.alloc_bytes, shape, address)
        if not used.allocation_records and used.peak_bytes > 0:
            # Of single pieces nothing is known: what it held at most, and what it kept.
            kept = min(max(used.live_bytes, 0), used.peak_bytes)
            if kept:
                yield _Piece(name, began_ns, kept)
            if kept < used.peak_bytes:
                yield _Piece(name, began_ns, used.peak_bytes - kept)
                yield _Piece(name, ended_ns, kept - used.peak_bytes)
        if used.allocator_bytes_in_use > 0:
            yield _Piece(name, ended_ns, 0, in_use_bytes=used.allocator_bytes_in_use)


def _outputs(node: Any) -> dict[tuple[str, int], tuple[str, int]]:
    """Return type, shape and address of the outputs by allocator and size.

    Where several are of one size it is not known which is which: then the address is 0.
    """
    found: dict[tuple[str, int], tuple[str, int]] = {}
    for output in node.output:
        described = output.tensor_description
        allocation = described.allocation_description
        sizes = (dimension.size for dimension in described.shape.dim)
        text = tensor_text(data_type(described.dtype), sizes)
        for size in {allocation.allocated_bytes, allocation.requested_bytes}:
            key = (allocation.allocator_name, size)
            other = found.get(key, (text, signed(allocation.ptr)))
            same = other == (text, signed(allocation.ptr))
            found[key] = other if same else (text if other[0] == text else "", 0)
    return found
