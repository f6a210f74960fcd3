"""Read the nodes of step statistics into columns, for several captures at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.formats.node_attributes import data_type, tensor_text
from tfprobe.formats.schema import parse
from tfprobe.formats.wire import (
    Buffer,
    Extents,
    Fields,
    NumberedTexts,
    OtherForm,
    Repeated,
    ShortTexts,
    are_texts,
)
from tfprobe.profile.tables import Flags, Int32s, Int64s, Interner

_THREAD_BITS = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Used:
    """What nodes took from an allocator; `owner` is the node, `allocator` its position."""

    owner: Int64s
    allocator: Int32s
    total_bytes: Int64s
    peak_bytes: Int64s
    live_bytes: Int64s
    in_use_bytes: Int64s


# Without slots, for the cached property, which is rarely needed.
@dataclass(frozen=True)
class Records:
    """Pieces that an allocator gave (above 0) or got back; `owner` is the row of Used."""

    owner: Int64s
    at_us: Int64s
    bytes: Int64s
    pieces: OutputPieces
    outputs: Outputs

    @cached_property
    def described(self) -> tuple[Int32s, Int64s]:
        """Return the shapes and addresses of the outputs that the pieces hold, 0 if unknown."""
        return described(self.pieces, self.outputs)


@dataclass(frozen=True, slots=True)
class Nodes:
    """NodeExecStats in columns. Texts are extents of `buffer`.

    `name_number` is the same for equal names in everything that one NodeReader has read.
    """

    buffer: Buffer
    name: Extents
    name_number: Int32s
    label: Extents
    start_us: Int64s
    start_ns: Int64s
    end_us: Int64s
    end_ns: Int64s
    thread: Int64s
    used: Used
    records: Records
    requested: Sums
    allocated: Sums


class NodeReader:
    """Reads nodes: equal texts are decoded once and become a position in `interner`."""

    def __init__(self, interner: Interner) -> None:
        """Start with no names, allocators or shapes."""
        self._names = NumberedTexts()
        self._allocators = ShortTexts(lambda written: interner.position(_text(written)))
        self._shapes = ShortTexts(lambda written: interner.position(_shape(written)))

    def read(self, buffer: Buffer, messages: Extents) -> Nodes:
        """Return the columns of the NodeExecStats in these extents of a buffer.

        Raises OtherForm if they are not NodeExecStats, or not in the usual form.
        """
        fields = Fields(buffer, messages)
        name, start_us = fields.extents(1), fields.integers(2, are_long=True)
        fields.skip_numbers(3)
        end_us = fields.integers(4)
        fields.skip_numbers(5)
        memory, output, label = fields.repeated(6), fields.repeated(7), fields.extents(8)
        fields.skip_numbers(9, are_long=True)
        thread = (fields.numbers(10) & _THREAD_BITS).view(np.int64)
        fields.repeated(11)  # referenced_tensor, which adds nothing
        stats, start_ns = fields.extents(12), fields.integers(13, are_long=True)
        fields.skip_numbers(14)
        end_ns = fields.integers(15)
        fields.skip_numbers(16)
        fields.skip_numbers(17, are_long=True)
        _end(fields)
        if not are_texts(buffer, label):
            raise OtherForm
        name_number = self._names.numbers(buffer, name)
        outputs = self._outputs(buffer, output)
        used, records = self._memory(buffer, memory, outputs)
        allocator_bytes = _allocator_bytes(buffer, stats)
        count = len(name.start)
        allocated = np.maximum(outputs.allocated_bytes, outputs.requested_bytes)
        return Nodes(
            buffer=buffer,
            name=name,
            name_number=name_number,
            label=label,
            start_us=start_us,
            start_ns=start_ns,
            end_us=end_us,
            end_ns=end_ns,
            thread=thread,
            used=used,
            records=records,
            requested=sums(count, (used.owner, used.total_bytes), *allocator_bytes),
            allocated=sums(count, (outputs.owner, allocated)),
        )

    def _memory(self, buffer: Buffer, memory: Repeated, outputs: Outputs) -> tuple[Used, Records]:
        fields = Fields(buffer, memory.extents)
        allocator = fields.extents(1)
        total, peak, live, in_use = (fields.integers(at) for at in (2, 3, 4, 5))
        written = fields.repeated(6)
        _end(fields)
        known = self._allocators.positions(buffer, allocator)
        used = Used(memory.owner, known, total, peak, live, in_use)
        fields = Fields(buffer, written.extents)
        at_us, sizes = fields.integers(1, are_long=True), fields.integers(2)
        _end(fields)
        pieces = OutputPieces(memory.owner[written.owner], known[written.owner], sizes)
        return used, Records(written.owner, at_us, sizes, pieces, outputs)

    def _outputs(self, buffer: Buffer, outputs: Repeated) -> Outputs:
        fields = Fields(buffer, outputs.extents)
        fields.skip_numbers(1)
        tensor = fields.extents(3)
        _end(fields)
        fields = Fields(buffer, tensor)
        fields.skip_numbers(1)
        fields.extents(2)
        type_and_shape = Extents(tensor.start, fields.at)
        allocation = fields.extents(4)
        _end(fields)
        fields = Fields(buffer, allocation)
        requested, allocated, allocator = fields.integers(1), fields.integers(2), fields.extents(3)
        fields.skip_numbers(4, 5)
        address = fields.integers(6, are_long=True)
        _end(fields)
        return Outputs(
            outputs.owner,
            self._shapes.positions(buffer, type_and_shape),
            self._allocators.positions(buffer, allocator),
            requested,
            allocated,
            address,
        )


def _allocator_bytes(buffer: Buffer, stats: Extents) -> list[tuple[Int64s, Int64s]]:
    """Return temporary and persistent memory of the nodes themselves, by node."""
    owner = np.flatnonzero(stats.length > 0)
    if not len(owner):
        return []
    fields = Fields(buffer, stats.at(owner))
    temporary = fields.integers(1)
    fields.skip_numbers(2)
    persistent = fields.integers(3)
    fields.skip_numbers(4)
    fields.extents(5)
    fields.extents(6)
    _end(fields)
    return [(owner, temporary), (owner, persistent)]


def _end(fields: Fields) -> None:
    if not fields.are_done():
        raise OtherForm


def _text(written: bytes) -> str:
    try:
        return written.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise OtherForm from exc


def _shape(written: bytes) -> str:
    try:
        tensor = parse(written, "tfprobe.step_stats.TensorDescription")
    except UnreadableInput as exc:
        raise OtherForm from exc
    return tensor_text(data_type(tensor.dtype), (dimension.size for dimension in tensor.shape.dim))


_MOST = 2**62


class Outputs(NamedTuple):
    """The outputs of nodes; `owner` is the node, `shape` the position of type and shape."""

    owner: Int64s
    shape: Int32s
    allocator: Int32s
    requested_bytes: Int64s
    allocated_bytes: Int64s
    address: Int64s


class OutputPieces(NamedTuple):
    """Pieces of memory, grouped by node; those given back have a size below 0."""

    owner: Int64s
    allocator: Int32s
    bytes: Int64s


def described(pieces: OutputPieces, outputs: Outputs) -> tuple[Int32s, Int64s]:
    """Return type and shape, and the address, of the output that each piece holds; 0 for none.

    If several outputs have the same size, it is unknown which is which: then the address is 0, and
    so is the shape unless all of them share it.
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
    """Outputs by size; an output with two sizes appears twice."""

    owner: Int64s
    allocator: Int32s
    bytes: Int64s
    shape: Int32s
    address: Int64s


def _by_size(outputs: Outputs, owners: Int64s) -> _Sized:
    """Return the outputs of these nodes by requested size and by allocated size."""
    has_pieces = np.zeros(int(outputs.owner.max(initial=-1)) + 1, dtype=np.bool_)
    has_pieces[owners[owners < len(has_pieces)]] = True
    wanted = has_pieces[outputs.owner]
    is_other = outputs.requested_bytes != outputs.allocated_bytes
    given = np.flatnonzero(wanted & (outputs.allocated_bytes >= 0))
    requested = np.flatnonzero(wanted & (outputs.requested_bytes >= 0) & is_other)
    rows = np.concatenate((given, requested))
    sizes = (outputs.allocated_bytes[given], outputs.requested_bytes[requested])
    return _Sized(
        outputs.owner[rows],
        outputs.allocator[rows],
        np.concatenate(sizes),
        outputs.shape[rows],
        outputs.address[rows],
    )


def _keys(outputs: _Sized, pieces: OutputPieces) -> tuple[Int64s, Int64s]:
    """Return numbers of outputs and pieces, equal where node, allocator and size are equal."""
    owner = np.concatenate((outputs.owner, pieces.owner))
    allocator = np.concatenate((outputs.allocator, pieces.allocator))
    # The one size whose negation does not fit into 64 bits stays below 0, and no output has it.
    size_bytes = np.concatenate((outputs.bytes, np.abs(pieces.bytes)))
    _, sizes = np.unique(size_bytes, return_inverse=True)
    entries = owner * (int(allocator.max()) + 1) + allocator
    if (int(entries.max()) + 1) * (int(sizes.max()) + 1) > _MOST:
        _, entries = np.unique(entries, return_inverse=True)
    keys = entries * (int(sizes.max()) + 1) + sizes
    return keys[: len(outputs.owner)], keys[len(outputs.owner) :]


def _common(values: Int64s | Int32s, first: Int64s, *, others: int = -1) -> Int64s:
    """Return the common value of each group, which starts at `first`; `others` if they differ."""
    lowest, highest = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
    return np.where(lowest == highest, lowest, others)


# A sum bounded by this leaves room for another part with the same bound.
_SMALL = 2**60


class Sums(NamedTuple):
    """64-bit sums; `overflows` marks those that do not fit, None if all do."""

    values: Int64s
    overflows: Flags | None

    def at(self, rows: Int64s) -> Int64s:
        """Return the sums at these rows.

        Raises UnreadableInput if one does not fit.
        """
        if self.overflows is not None and self.overflows[rows].any():
            raise UnreadableInput("a time or size that does not fit into 64 bits")
        return self.values[rows]


def sums(count: int, *parts: tuple[Int64s, Int64s]) -> Sums:
    """Return `count` sums; each part is ascending indices and the values to add there."""
    total = np.zeros(count, dtype=np.int64)
    for owner, values in parts:
        total += _sums(count, owner, values)
    if all(_are_small(values) for _, values in parts):
        return Sums(total, None)
    exact = [0] * count
    for owner, values in parts:
        for at, value in zip(owner.tolist(), values.tolist(), strict=True):
            exact[at] += value
    overflows = [not -(2**63) <= value < 2**63 for value in exact]
    return Sums(total, np.array(overflows, dtype=np.bool_))


def _sums(count: int, owner: Int64s, values: Int64s) -> Int64s:
    # Exact modulo 2 ** 64, as the difference of two such sums is.
    running = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=running[1:])
    after = np.cumsum(np.bincount(owner, minlength=count))
    return np.diff(running[after], prepend=0)


def _are_small(values: Int64s) -> bool:
    if not len(values):
        return True
    return max(int(values.max()), -int(values.min())) * len(values) < _SMALL
