"""Decode what nodes took from their allocators.

Each memory entry of a node lists what was allocated and freed for it and when (allocation_records,
up to the end of the step, in TensorFlow 1.14 to 2.21), or only sums, as in recordings of 2017. An
allocator that counts reports its bytes in use when the node was done; that of a CPU does not count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.formats.run_metadata.nodes import Nodes
from tfprobe.profile.capture_tables import Allocations
from tfprobe.profile.tables import Columns, Flags, Int32s, Int64s

_NS_PER_US = 1000
_MOST_US = (2**63 - 1) // _NS_PER_US
_UNTOLD = -1


class Owners(NamedTuple):
    """The nodes of a capture that count; `row`, their indices among all nodes, is ascending."""

    row: Int64s
    device: Int32s
    name: Int32s
    op_type: Int32s
    start_ns: Int64s
    end_ns: Int64s


# Returns by their positions which devices or allocators are wanted; None if all are.
Wish = Callable[[Int32s], Flags | None]


def add_allocations(
    columns: Columns[Allocations], nodes: Nodes, owners: Owners, is_wanted: Wish
) -> None:
    """Add the allocations of nodes whose device or allocator is wanted.

    Raises UnreadableInput if a time does not fit.
    """
    if not len(owners.row):
        return
    entries = _chosen(nodes, owners, _entries(nodes, owners), is_wanted)
    if not len(entries.row):
        return
    pieces = _pieces(nodes, owners, entries)
    owner = entries.owner[pieces.entry]
    columns.add(
        len(owner),
        allocator=nodes.used.allocator[entries.row][pieces.entry],
        device=owners.device[owner],
        op=owners.name[owner],
        op_type=owners.op_type[owner],
        shape=pieces.shape,
        at_ns=pieces.at_ns,
        bytes=pieces.bytes,
        address=pieces.address,
        in_use_bytes=pieces.in_use_bytes,
        free_bytes=_UNTOLD,
        peak_bytes=_UNTOLD,
        largest_free_bytes=_UNTOLD,
    )


class _Entries(NamedTuple):
    """The memory entries of the owners: indices among all entries, and of their owners."""

    row: Int64s
    owner: Int64s


class _Pieces(NamedTuple):
    """What an allocator gave, got back (below 0), or reported about itself (0)."""

    entry: Int64s
    at_ns: Int64s
    bytes: Int64s
    in_use_bytes: Int64s
    shape: Int64s
    address: Int64s


def _entries(nodes: Nodes, owners: Owners) -> _Entries:
    first, after = np.searchsorted(nodes.used.owner, (owners.row[0], owners.row[-1] + 1))
    owned_by = nodes.used.owner[first:after]
    place = np.searchsorted(owners.row, owned_by)
    counts = np.flatnonzero(owners.row[place] == owned_by)
    return _Entries(first + counts, place[counts])


def _chosen(nodes: Nodes, owners: Owners, entries: _Entries, is_wanted: Wish) -> _Entries:
    by_allocator = is_wanted(nodes.used.allocator[entries.row])
    by_device = is_wanted(owners.device[entries.owner])
    if by_allocator is None or by_device is None:
        return entries
    (chosen,) = (by_allocator | by_device).nonzero()
    return _Entries(entries.row[chosen], entries.owner[chosen])


def _pieces(nodes: Nodes, owners: Owners, entries: _Entries) -> _Pieces:
    """Return the pieces of all entries, grouped by entry."""
    used = nodes.used
    began_ns, ended_ns = owners.start_ns[entries.owner], owners.end_ns[entries.owner]
    records = _records(nodes, entries)
    # Single pieces are unknown here, only the peak and what the node kept.
    peak_bytes = used.peak_bytes[entries.row]
    kept_bytes = np.minimum(np.maximum(used.live_bytes[entries.row], 0), peak_bytes)
    in_sum = peak_bytes > 0
    in_sum[records.entry] = False
    kept = np.flatnonzero(in_sum & (kept_bytes > 0))
    lost = np.flatnonzero(in_sum & (kept_bytes < peak_bytes))
    lost_bytes = (peak_bytes - kept_bytes)[lost]
    in_use_bytes = used.in_use_bytes[entries.row]
    counting = np.flatnonzero(in_use_bytes > 0)
    return _joined(
        records,
        _plain(kept, began_ns[kept], kept_bytes[kept]),
        _plain(lost, began_ns[lost], lost_bytes),
        _plain(lost, ended_ns[lost], -lost_bytes),
        _plain(counting, ended_ns[counting], 0)._replace(in_use_bytes=in_use_bytes[counting]),
    )


def _records(nodes: Nodes, entries: _Entries) -> _Pieces:
    records, ends = nodes.records, (0, 0)
    if len(entries.row):
        ends = (entries.row[0], entries.row[-1] + 1)
    first, after = np.searchsorted(records.owner, ends)
    owned_by = records.owner[first:after]
    entry = np.searchsorted(entries.row, owned_by)
    counts = np.flatnonzero(entries.row[entry] == owned_by)
    rows, entry = first + counts, entry[counts]
    at_us = records.at_us[rows]
    if len(rows) and max(int(at_us.max()), -int(at_us.min())) > _MOST_US:
        raise UnreadableInput("a time or size that does not fit into 64 bits")
    untold = np.full(len(rows), _UNTOLD)
    shapes, addresses = records.described
    shape, address = shapes[rows].astype(np.int64), addresses[rows]
    return _Pieces(entry, at_us * _NS_PER_US, records.bytes[rows], untold, shape, address)


def _plain(entry: Int64s, at_ns: Int64s, size_bytes: Int64s | int) -> _Pieces:
    """Return pieces with unknown shapes and addresses."""
    none, untold = np.zeros(len(entry), dtype=np.int64), np.full(len(entry), _UNTOLD)
    return _Pieces(entry, at_ns, none + size_bytes, untold, none, none)


def _joined(*parts: _Pieces) -> _Pieces:
    """Return all pieces grouped by entry; within one entry in the order of the parts."""
    parts = tuple(part for part in parts if len(part.entry))
    if len(parts) == 1:
        return parts[0]
    if not parts:
        none = np.empty(0, dtype=np.int64)
        return _Pieces(none, none, none, none, none, none)
    joined = _Pieces(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    order = np.argsort(joined.entry, kind="stable")
    return _Pieces(*(each[order] for each in joined))
