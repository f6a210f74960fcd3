"""Read the fields of many messages at once, one field of all messages at a time.

Messages must be in the form that every protobuf writer produces: fields in ascending order, each
once unless it is repeated, and none that the reader does not request. Other forms are legal, but
rare: for them `Fields.are_done` is false, and the protobuf library, which reads every form,
rewrites them in this one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfprobe.profile.tables import Flags, Int64s

_VARINT = 0
_FIXED64 = 1
_LENGTH = 2
# With fewer messages at once, the rest of a repeated field is read faster one by one.
_FEW = 48
# If one message has more entries of a repeated field, they are read one by one, too.
_MOST_ROUNDS = 64


class Extents(NamedTuple):
    """The start and end of texts or messages in a buffer."""

    start: Int64s
    end: Int64s

    @property
    def length(self) -> Int64s:
        """Return their lengths in bytes."""
        return self.end - self.start

    def at(self, rows: slice | Int64s) -> Extents:
        """Return the extents of these rows."""
        return Extents(self.start[rows], self.end[rows])


class Repeated(NamedTuple):
    """All occurrences of a repeated field; `owner` is the index of the message each is in."""

    owner: Int64s
    extents: Extents


class Fields:
    """The read positions in messages: request fields by number, in ascending order."""

    __slots__ = ("_at", "_buffer", "_end")

    def __init__(self, buffer: Buffer, extents: Extents) -> None:
        """Begin with the messages in these extents of a buffer."""
        self._buffer = buffer
        self._at = extents.start.copy()
        self._end = extents.end

    @property
    def at(self) -> Int64s:
        """Return the current read positions."""
        return self._at.copy()

    def are_done(self) -> bool:
        """Return whether all messages were read to their ends."""
        return bool((self._at == self._end).all())

    def numbers(self, field: int, *, are_long: bool = False) -> UInt64s:
        """Return the numbers of a field, 0 where a message has none.

        `are_long`, which affects only speed, says that most have several bytes.
        """
        there, at = self._is_next(field, _VARINT)
        read = self._buffer.varints if are_long else self._buffer.short_varints
        if there is None:
            values, self._at = read(at)
            return values
        if not are_long and _are_most(there):
            values, after = self._buffer.short_varints(at, there)
            self._at = np.where(there, after, self._at)
            return values
        found = np.zeros(len(there), dtype=np.uint64)
        (rows,) = there.nonzero()
        if len(rows):
            found[rows], self._at[rows] = read(at[rows])
        return found

    def integers(self, field: int, *, are_long: bool = False) -> Int64s:
        """Return the signed numbers of a field, 0 where a message has none."""
        return self.numbers(field, are_long=are_long).view(np.int64)

    def skip_numbers(self, *fields: int, are_long: bool = False) -> None:
        """Skip fields that are numbers; see `numbers`."""
        for field in fields:
            there, at = self._is_next(field, _VARINT)
            if there is None:
                self._at = self._after(at, are_long=are_long)
                continue
            (rows,) = there.nonzero()
            if len(rows):
                self._at[rows] = self._after(at[rows], are_long=are_long)

    def fixed64(self, field: int) -> UInt64s:
        """Return the bits of a field of 8 bytes, such as a double, 0 where a message has none."""
        there, at = self._is_next(field, _FIXED64)
        rows = np.arange(len(at)) if there is None else there.nonzero()[0]
        found = np.zeros(len(at), dtype=np.uint64)
        found[rows] = self._buffer.words[at[rows]]
        self._at[rows] = at[rows] + 8
        return found

    def extents(self, field: int) -> Extents:
        """Return the extents of a text or a message; empty where a message has none."""
        there, at = self._is_next(field, _LENGTH)
        if there is None:
            start, self._at = self._extents(at)
            return Extents(start, self._at.copy())
        if _are_most(there):
            start, end = self._extents(at, there)
            start = np.where(there, start, self._at)
            self._at = np.where(there, end, self._at)
            return Extents(start, self._at.copy())
        start, end = self._at.copy(), self._at.copy()
        (rows,) = there.nonzero()
        if len(rows):
            start[rows], end[rows] = self._extents(at[rows])
            self._at[rows] = end[rows]
        return Extents(start, end)

    def repeated(self, field: int) -> Repeated:
        """Return all occurrences of a repeated field of texts or messages, message by message."""
        rows, at = self._found(field, _LENGTH)
        rows = np.arange(len(self._at)) if rows is None else rows
        found: list[tuple[Int64s, Int64s, Int64s]] = []
        while len(rows) > (_FEW if found else 0) and len(found) < _MOST_ROUNDS:
            start, end = self._extents(at)
            found.append((rows, start, end))
            self._at[rows] = end
            again, at = self._found_in(end, self._end[rows], field, _LENGTH)
            rows = rows if again is None else rows[again]
        if len(rows):
            found.append(self._rest(rows, field))
        if not found:
            none = np.empty(0, dtype=np.int64)
            return Repeated(none, Extents(none, none))
        if len(found) == 1:
            return Repeated(found[0][0], Extents(*found[0][1:]))
        # Column by column: what is joined is let go, since all of them may be most of the memory.
        columns = [list(column) for column in zip(*found, strict=True)]
        del found, start, end
        owner = _joined(columns[0])
        order = np.argsort(owner, kind="stable")
        owner = owner[order]
        start, end = (_joined(column)[order] for column in columns[1:])
        return Repeated(owner, Extents(start, end))

    def _found(self, field: int, kind: int) -> tuple[Int64s | None, Int64s]:
        """Return the messages whose next field is this one, None for all, and where its value is.

        A field of another kind does not count: it is not in the schema.
        """
        return self._found_in(self._at, self._end, field, kind)

    def _found_in(
        self, at: Int64s, end: Int64s, field: int, kind: int
    ) -> tuple[Int64s | None, Int64s]:
        there, at = self._is_next_in(at, end, field, kind)
        if there is None:
            return None, at
        (rows,) = there.nonzero()
        return rows, at[rows]

    def _is_next(self, field: int, kind: int) -> tuple[Flags | None, Int64s]:
        """Return in which messages this field is next, None for all, and where its value is."""
        return self._is_next_in(self._at, self._end, field, kind)

    def _is_next_in(
        self, at: Int64s, end: Int64s, field: int, kind: int
    ) -> tuple[Flags | None, Int64s]:
        tag = field << 3 | kind
        width = 1 if tag < 0x80 else 2
        found = self._buffer.bytes.take(at) == (tag if width == 1 else tag & 0x7F | 0x80)
        if width == 2:
            found &= self._buffer.bytes.take(at + 1) == tag >> 7
        found &= at < end
        return None if np.count_nonzero(found) == len(found) else found, at + width

    def _after(self, at: Int64s, *, are_long: bool) -> Int64s:
        return self._buffer.after_varints(at) if are_long else self._buffer.short_varints(at)[1]

    def _extents(self, at: Int64s, there: Flags | None = None) -> tuple[Int64s, Int64s]:
        length, start = self._buffer.short_varints(at, there)
        # A length over 31 bits is invalid; read as unsigned, it lies beyond everything too.
        end = start + np.minimum(length, np.uint64(self._buffer.limit)).view(np.int64)
        return start, np.minimum(end, self._buffer.limit)

    def _rest(self, rows: Int64s, field: int) -> tuple[Int64s, Int64s, Int64s]:
        """Read the rest of a repeated field of some messages, one after the other."""
        places: list[int] = []
        counts = []
        for row in rows.tolist():
            before = len(places)
            self._at[row] = self._walk(int(self._at[row]), int(self._end[row]), field, places)
            counts.append((len(places) - before) // 2)
        start, end = np.array(places, dtype=np.int64).reshape(-1, 2).T
        return np.repeat(rows, counts), start, end

    def _walk(self, at: int, end: int, field: int, places: list[int]) -> int:
        """Append start and end of each entry of a repeated field; return the position after it."""
        content, limit = self._buffer.content, self._buffer.limit
        tag = field << 3 | _LENGTH
        while at < end and content[at] == tag:
            length, start = content[at + 1], at + 2
            if length >= 0x80:
                length, start = _varint(content, at + 1)
            at = start + length
            places += start, at
        if at > limit:
            at = places[-1] = limit
        return at


def _joined(parts: list[Int64s]) -> Int64s:
    """Return the parts as one column, and forget them."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole


def _are_most(there: Flags) -> bool:
    """Return whether processing all messages is faster than selecting those with the field."""
    return 2 * int(np.count_nonzero(there)) > len(there)


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return a varint of at most 5 bytes, as lengths are, and where it ends."""
    value = 0
    for place in range(5):
        byte = content[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    return len(content), at


UInt64s = npt.NDArray[np.uint64]

# The buffer has more room behind the end than any read position can advance: a tag, a varint of
# 10 bytes, and 8 bytes from its last one. Zero is not a tag, so nothing is found there.
_PADDING = 48
_ONE = np.uint64(1)
_SEVEN = np.uint64(7)
_SEVEN_BITS = np.uint64(0x7F)
_CONTINUES = np.uint64(0x8080808080808080)
# By shift: the groups of 7 bits that stay, and those that move down by it.
_JOINS = tuple(
    (np.uint64(shift), np.uint64(stay), np.uint64(move))
    for shift, stay, move in (
        (1, 0x007F007F007F007F, 0x7F007F007F007F00),
        (2, 0x00003FFF00003FFF, 0x3FFF00003FFF0000),
        (4, 0x000000000FFFFFFF, 0x0FFFFFFF00000000),
    )
)


class OtherForm(ValueError):
    """The bytes are not in the form that protobuf writers produce, or not a message at all."""


class Buffer:
    """Bytes of messages, padded at the end; `limit` is beyond the end of every message."""

    __slots__ = ("bytes", "content", "limit", "words")

    def __init__(self, parts: Iterable[bytes]) -> None:
        """Join the parts, one after the other."""
        self.content = b"".join((*parts, bytes(_PADDING)))
        self.limit = len(self.content) - _PADDING + 16
        self.bytes = np.frombuffer(self.content, dtype=np.uint8)
        # The 8 bytes at each position; a selection of them is copied, and so is aligned.
        self.words: UInt64s = np.ndarray(
            (len(self.content) - 7,), dtype="<u8", buffer=self.content, strides=(1,)
        )

    def __len__(self) -> int:
        """Return the size of the parts in bytes."""
        return len(self.content) - _PADDING

    def varints(self, at: Int64s) -> tuple[UInt64s, Int64s]:
        """Return the varints at these positions, and the positions after them.

        The latter is `limit` where a varint has more than 64 bits.
        """
        words = self.words[at]
        last = _last_bits(words)
        after = at + _lengths(last)
        words &= last - _ONE
        for shift, stay, move in _JOINS:
            words = (words & stay) | ((words & move) >> shift)
        self._read_long(at, last, words, after)
        return words, after

    def after_varints(self, at: Int64s) -> Int64s:
        """Return the positions after the varints at these positions, as `varints` does."""
        words = self.words[at]
        last = _last_bits(words)
        after = at + _lengths(last)
        self._read_long(at, last, None, after)
        return after

    def short_varints(self, at: Int64s, there: Flags | None = None) -> tuple[UInt64s, Int64s]:
        """Return what `varints` does, faster if almost all have one byte or two.

        With `there`, only positions where it is true have a varint; the others yield 0.
        """
        first = self.bytes.take(at)
        if there is not None:
            first *= there
        values = first.astype(np.uint64)
        after = at + 1
        goes_on = first >> 7
        if not goes_on.any():
            return values, after
        second = self.bytes.take(after) * goes_on
        values &= _SEVEN_BITS
        values += second.astype(np.uint64) << _SEVEN
        after += goes_on
        if second.max() >= 0x80:
            long = np.flatnonzero(second >= 0x80)
            values[long], after[long] = self.varints(at[long])
        return values, after

    def _read_long(self, at: Int64s, last: UInt64s, values: UInt64s | None, after: Int64s) -> None:
        """Insert the varints of 9 and 10 bytes, which are those without a last bit."""
        shorter = np.count_nonzero(last)
        if shorter == len(last):
            return
        rows = np.flatnonzero(last == 0) if shorter else slice(None)
        at = at[rows]
        ninth = self.bytes.take(at + 8)
        goes_on = ninth >> 7
        is_ten = bool(goes_on.any())
        tenth = self.bytes.take(at + 9) * goes_on if is_ten else goes_on
        if values is not None:
            values[rows] |= (ninth & 0x7F).astype(np.uint64) << np.uint64(56)
            values[rows] |= tenth.astype(np.uint64) << np.uint64(63)
        after[rows] = np.where(tenth <= 1, at + 9 + goes_on, self.limit)


def _last_bits(words: UInt64s) -> UInt64s:
    """Return the highest bit of the first byte that ends a varint; 0 if none of 8 does."""
    ends = ~words
    ends &= _CONTINUES
    ends &= np.negative(ends)
    return ends


def _lengths(last: UInt64s) -> Int64s:
    """Return the length in bytes of varints with this last bit."""
    # The exponent of 2 ** (8 n - 1) as a double is 8 n + 1022, in the bits from 52 on.
    exponents: Int64s = last.astype(np.float64).view(np.int64)
    exponents >>= 55
    exponents -= 127
    return exponents
