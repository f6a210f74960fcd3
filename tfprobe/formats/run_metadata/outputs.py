"""Tell which output of its node a piece of memory is: the one of its allocator and its size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tfprobe.profile.tables import Int32s, Int64s

_MOST = 2**62


class Outputs(NamedTuple):
    """The outputs of nodes; `owner` is the node, `shape` the position of type and shape."""

    owner: Int64s
    shape: Int32s
    allocator: Int32s
    requested_bytes: Int64s
    allocated_bytes: Int64s
    address: Int64s


class Pieces(NamedTuple):
    """Pieces of memory, by their nodes; those given back have a size below 0."""

    owner: Int64s
    allocator: Int32s
    bytes: Int64s


def described(pieces: Pieces, outputs: Outputs) -> tuple[Int32s, Int64s]:
    """Return type and shape, and the address, of the outputs that pieces are; 0 for none.

    Where several outputs are of one size it is not known which is which: then the address is 0, and
    the shape, too, unless it is theirs all.
    """
    found = _by_size(outputs, pieces.owner)
    shape = np.zeros(len(pieces.owner), dtype=np.int32)
    address = np.zeros(len(pieces.owner), dtype=np.int64)
    if not len(found.owner):
        return shape, address
    known, wanted = _keys(found, pieces)
    order = np.argsort(known, kind="stable")
    first = np.flatnonzero(np.diff(known[order], prepend=-1))
    shapes = _common(found.shape[order], first)
    addresses = np.where(shapes >= 0, _common(found.address[order], first, others=0), 0)
    known = known[order][first]
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    is_known = known[at] == wanted
    shape[is_known] = np.maximum(shapes, 0)[at][is_known]
    address[is_known] = addresses[at][is_known]
    return shape, address


class _Sized(NamedTuple):
    """Outputs by their sizes, those with two of them twice."""

    owner: Int64s
    allocator: Int32s
    bytes: Int64s
    shape: Int32s
    address: Int64s


def _by_size(outputs: Outputs, owners: Int64s) -> _Sized:
    """Return the outputs of these nodes, by what they asked for and by what they were given."""
    has_pieces = np.zeros(int(outputs.owner.max(initial=-1)) + 1, dtype=np.bool_)
    has_pieces[owners[owners < len(has_pieces)]] = True
    wanted = has_pieces[outputs.owner]
    is_other = outputs.requested_bytes != outputs.allocated_bytes
    given = np.flatnonzero(wanted & (outputs.allocated_bytes >= 0))
    asked = np.flatnonzero(wanted & (outputs.requested_bytes >= 0) & is_other)
    rows = np.concatenate((given, asked))
    sizes = (outputs.allocated_bytes[given], outputs.requested_bytes[asked])
    return _Sized(
        outputs.owner[rows],
        outputs.allocator[rows],
        np.concatenate(sizes),
        outputs.shape[rows],
        outputs.address[rows],
    )


def _keys(outputs: _Sized, pieces: Pieces) -> tuple[Int64s, Int64s]:
    """Return numbers of outputs and pieces, the same where node, allocator and size are."""
    owner = np.concatenate((outputs.owner, pieces.owner))
    allocator = np.concatenate((outputs.allocator, pieces.allocator))
    # The size that no positive number of 64 bits is stays below 0, and no output has it.
    size_bytes = np.concatenate((outputs.bytes, np.abs(pieces.bytes)))
    _, sizes = np.unique(size_bytes, return_inverse=True)
    entries = owner * (int(allocator.max()) + 1) + allocator
    if (int(entries.max()) + 1) * (int(sizes.max()) + 1) > _MOST:
        _, entries = np.unique(entries, return_inverse=True)
    keys = entries * (int(sizes.max()) + 1) + sizes
    return keys[: len(outputs.owner)], keys[len(outputs.owner) :]


def _common(values: Int64s | Int32s, first: Int64s, *, others: int = -1) -> Int64s:
    """Return what all of a group are, which goes on from its first; `others` if they differ."""
    lowest, highest = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
    return np.where(lowest == highest, lowest, others)
