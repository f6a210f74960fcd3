"""Read the nodes of step statistics into columns, those of several captures at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.formats.data_types import data_type, tensor_text
from tfprobe.formats.messages import parse
from tfprobe.formats.run_metadata.outputs import Outputs, Pieces, described
from tfprobe.formats.run_metadata.sums import Sums, sums
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
from tfprobe.profile.strings import Interner
from tfprobe.profile.tables import Int32s, Int64s

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


# Without slots, as what is asked for seldom is found out when it is.
@dataclass(frozen=True)
class Records:
    """The pieces an allocator gave (above 0) or was given back; `owner` is the row of Used."""

    owner: Int64s
    at_us: Int64s
    bytes: Int64s
    pieces: Pieces
    outputs: Outputs

    @cached_property
    def described(self) -> tuple[Int32s, Int64s]:
        """Return shape and address of the outputs that the pieces are, 0 unknown."""
        return described(self.pieces, self.outputs)


@dataclass(frozen=True, slots=True)
class Nodes:
    """NodeExecStats by columns. Texts are extents of `buffer`.

    `name_number` is the same for one name in all that a NodeReader has read.
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
    held: Sums


class NodeReader:
    """Reads nodes: a text that comes again and again is made once, and a position in `interner`."""

    def __init__(self, interner: Interner) -> None:
        """Know no name, no allocator and no shape."""
        self._names = NumberedTexts()
        self._allocators = ShortTexts(lambda written: interner.position(_text(written)))
        self._shapes = ShortTexts(lambda written: interner.position(_shape(written)))

    def read(self, buffer: Buffer, messages: Extents) -> Nodes:
        """Return the columns of the NodeExecStats that lie in these extents of a buffer.

        Raises OtherForm where they are none, or not in the usual form.
        """
        fields = Fields(buffer, messages)
        name, start_us = fields.extents(1), fields.integers(2, are_long=True)
        fields.skip_numbers(3)
        end_us = fields.integers(4)
        fields.skip_numbers(5)
        memory, output, label = fields.repeated(6), fields.repeated(7), fields.extents(8)
        fields.skip_numbers(9, are_long=True)
        thread = (fields.numbers(10) & _THREAD_BITS).view(np.int64)
        fields.repeated(11)  # referenced_tensor, which tells nothing more
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
        beside = _beside_bytes(buffer, stats)
        count = len(name.start)
        held = np.maximum(outputs.allocated_bytes, outputs.requested_bytes)
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
            requested=sums(count, (used.owner, used.total_bytes), *beside),
            held=sums(count, (outputs.owner, held)),
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
        pieces = Pieces(memory.owner[written.owner], known[written.owner], sizes)
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


def _beside_bytes(buffer: Buffer, stats: Extents) -> list[tuple[Int64s, Int64s]]:
    """Return what nodes hold for themselves, for a time and for good, by node."""
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
