"""Read texts from a buffer, decoding each distinct text once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tfprobe.formats.wire.fields import Buffer, Extents, OtherForm, UInt64s
from tfprobe.profile.tables import Flags, Int32s, Int64s

# Two words of 8 bytes; the last byte is the length.
_MOST_BYTES = 15
_SLOTS = 1 << 12
_WORD_BYTES = 8
_EMPTY = np.uint64(2**64 - 1)
_MIX_LOW = np.uint64(0x9E3779B97F4A7C15)
_MIX_HIGH = np.uint64(0xC2B2AE3D27D4EB4F)
_ALL = np.uint64(2**64 - 1)


class ShortTexts:
    """Assigns each short byte string a position, which `position` computes when it is new.

    Longer strings get one, too, but take longer.
    """

    def __init__(self, position: Callable[[bytes], int]) -> None:
        """Start with no texts."""
        self._position = position
        self._known: dict[bytes, int] = {}
        # A hash table with one entry per slot; a later text replaces an earlier one.
        self._low = np.full(_SLOTS, _EMPTY, dtype=np.uint64)
        self._high = np.full(_SLOTS, _EMPTY, dtype=np.uint64)
        self._at = np.zeros(_SLOTS, dtype=np.int32)

    def positions(self, buffer: Buffer, extents: Extents) -> Int32s:
        """Return the position of the text in each extent."""
        if _are_one(buffer, extents):
            return np.full(len(extents.start), self._learn(_at(buffer, extents, 0)), dtype=np.int32)
        keys = _keys(buffer, extents)
        unknown = self._unknown(keys)
        if len(unknown):
            # Most new texts are the same few, repeated: one per slot is looked at.
            _, first = np.unique(keys.slot[unknown], return_index=True)
            for row in unknown[first].tolist():
                self._note(keys, row, self._learn(_at(buffer, extents, row)))
            unknown = self._unknown(keys)
        found = self._at[keys.slot]
        for row in unknown.tolist():
            found[row] = self._learn(_at(buffer, extents, row))
        return found

    def _unknown(self, keys: _Keys) -> Int64s:
        is_known = (self._low[keys.slot] == keys.low) & (self._high[keys.slot] == keys.high)
        return np.flatnonzero(~is_known | keys.is_long)

    def _note(self, keys: _Keys, row: int, at: int) -> None:
        if not keys.is_long[row]:
            slot = keys.slot[row]
            self._low[slot], self._high[slot], self._at[slot] = keys.low[row], keys.high[row], at

    def _learn(self, written: bytes) -> int:
        at = self._known.get(written)
        if at is None:
            at = self._known[written] = self._position(written)
        return at


class _Keys(NamedTuple):
    """Texts as two numbers, which distinguish all that are not long, and their slots."""

    low: UInt64s
    high: UInt64s
    is_long: Flags
    slot: Int64s


def _keys(buffer: Buffer, extents: Extents) -> _Keys:
    length = extents.length
    low = _masked(buffer, extents.start, length)
    high = _masked(buffer, extents.start + np.minimum(length, 8), length - 8)
    high |= length.astype(np.uint64) << np.uint64(56)
    slot = ((low * _MIX_LOW ^ high * _MIX_HIGH) >> np.uint64(52)).view(np.int64)
    return _Keys(low, high, length > _MOST_BYTES, slot)


def _are_one(buffer: Buffer, extents: Extents) -> bool:
    """Return whether all extents have the same few bytes, as names of allocators often do."""
    length = extents.length
    if not len(length) or not 0 < length[0] <= _WORD_BYTES or not (length == length[0]).all():
        return False
    words = buffer.words[extents.start]
    words &= _ALL >> np.uint64(8 * (_WORD_BYTES - int(length[0])))
    return bool((words == words[0]).all())


def _at(buffer: Buffer, extents: Extents, row: int) -> bytes:
    return buffer.content[extents.start[row] : extents.end[row]]


def texts(buffer: Buffer, extents: Extents) -> list[bytes]:
    """Return the text in each extent."""
    content = buffer.content
    places = zip(extents.start.tolist(), extents.end.tolist(), strict=True)
    return [content[start:end] for start, end in places]


def are_texts(buffer: Buffer, *columns: Extents) -> bool:
    """Return whether all of these are UTF-8; the columns are ordered as fields in a message."""
    if not len(columns[0].start):
        return True
    places = np.stack([each for column in columns for each in column], axis=1)
    # The bytes between two texts are not text.
    has_high = np.bitwise_or.reduceat(buffer.bytes, places.ravel())[::2] >= 0x80
    rows, at = np.divmod(np.flatnonzero(has_high), len(columns))
    return all(
        all(map(_is_text, texts(buffer, column.at(rows[at == number]))))
        for number, column in enumerate(columns)
    )


def _is_text(written: bytes) -> bool:
    try:
        written.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _masked(buffer: Buffer, start: Int64s, length: Int64s) -> UInt64s:
    """Return the first bytes at each position, 8 at most, as a number."""
    unused = (8 - np.clip(length, 0, 8)).astype(np.uint64) << np.uint64(3)
    words = buffer.words[start]
    # A shift by 64 has no effect, so shift twice.
    half = unused >> np.uint64(1)
    words &= (_ALL >> half) >> half
    return words


# Longer texts are looked up one by one.
_MOST_WORDS = 16
_SLOT_BITS = 16
_NOBODY = 0
# One in so many is unknown only because another text has its slot: not worth a rehash.
_FEW = 16
_MIX = np.uint64(0x9E3779B97F4A7C15)
_FOLD = np.uint64(29)


class NumberedTexts:
    """Numbers texts from 1 on, in order of first appearance."""

    def __init__(self) -> None:
        """Start with no texts."""
        self._known: dict[bytes, int] = {}
        # One slot per text by its hash; a later text replaces an earlier one.
        self._slots = np.full(1 << _SLOT_BITS, _NOBODY, dtype=np.int32)
        # By number: its length, -1 if that is not known here, and its words.
        self._length = np.full(1, -1, dtype=np.int64)
        self._words = np.zeros((_MOST_WORDS, 1), dtype=np.uint64)

    def __len__(self) -> int:
        """Return the count of numbers, including that of no text."""
        return len(self._known) + 1

    def numbers(self, buffer: Buffer, extents: Extents) -> Int32s:
        """Return the number of the text in each extent.

        Raises OtherForm if it is not UTF-8.
        """
        # Texts with the most words first: those with equally many are then contiguous and in order.
        count = np.minimum(extents.length + _WORD_BYTES - 1 >> 3, _MOST_WORDS)
        order = np.argsort(_MOST_WORDS - count.astype(np.int8), kind="stable")
        extents = extents.at(order)
        keys = _numbered_keys(buffer, extents)
        found = self._slots[keys.slot]
        unknown = self._unknown(keys, found)
        if len(unknown) * _FEW > len(found):
            # Most new texts are the same few, repeated: one per slot is looked at.
            _, first = np.unique(keys.slot[unknown], return_index=True)
            self._learn(buffer, extents, keys, unknown[np.sort(first)])
            found = self._slots[keys.slot]
            unknown = self._unknown(keys, found)
        if len(unknown):
            found[unknown] = self._one_by_one(buffer, extents.at(unknown))
        numbers = np.empty(len(order), dtype=np.int32)
        numbers[order] = found
        return numbers

    def _unknown(self, keys: _NumberedKeys, numbers: Int32s) -> Int64s:
        """Return the texts that differ, or may differ, from those with these numbers."""
        is_same = self._length[numbers] == keys.length
        for place, words in enumerate(keys.words):
            count = len(words)
            is_same[:count] &= self._words[place][numbers[:count]] == words
        return np.flatnonzero(~is_same)

    def _learn(self, buffer: Buffer, extents: Extents, keys: _NumberedKeys, rows: Int64s) -> None:
        numbers = np.array(self._one_by_one(buffer, extents.at(rows)), dtype=np.int32)
        self._grow()
        self._slots[keys.slot[rows]] = numbers
        length = keys.length[rows]
        self._length[numbers] = np.where(length > _MOST_WORDS * _WORD_BYTES, -1, length)
        for place, words in enumerate(keys.words):
            count = np.searchsorted(rows, len(words))
            self._words[place][numbers[:count]] = words[rows[:count]]

    def _one_by_one(self, buffer: Buffer, extents: Extents) -> list[int]:
        places = zip(extents.start.tolist(), extents.end.tolist(), strict=True)
        return [self._number(buffer.content[start:end]) for start, end in places]

    def _number(self, written: bytes) -> int:
        number = self._known.get(written)
        if number is None:
            try:
                written.decode("utf-8")
            except UnicodeDecodeError as exc:
                raise OtherForm from exc
            number = self._known[written] = len(self._known) + 1
        return number

    def _grow(self) -> None:
        """Make room for twice as many numbers."""
        lacking = len(self) - len(self._length)
        if lacking > 0:
            lacking += len(self)
            self._length = np.pad(self._length, (0, lacking), constant_values=-1)
            self._words = np.pad(self._words, ((0, 0), (0, lacking)))


class _NumberedKeys(NamedTuple):
    """Texts, longest first, as their lengths and words, and their slots.

    Each of `words` has eight bytes of those texts that are long enough.
    """

    length: Int64s
    words: Sequence[UInt64s]
    slot: Int64s


def _numbered_keys(buffer: Buffer, extents: Extents) -> _NumberedKeys:
    length = extents.length
    mixed = length.view(np.uint64) * _MIX
    found: list[UInt64s] = []
    for place in range(_MOST_WORDS):
        count = np.count_nonzero(length > place * _WORD_BYTES) if place else len(length)
        if not count:
            break
        words = _words(buffer, extents.at(slice(count)), place)
        found.append(words)
        mixed[:count] ^= words
        mixed[:count] *= _MIX
        mixed[:count] ^= mixed[:count] >> _FOLD
    return _NumberedKeys(length, found, (mixed >> np.uint64(64 - _SLOT_BITS)).view(np.int64))


def _words(buffer: Buffer, extents: Extents, place: int) -> UInt64s:
    """Return a word of each text: the last one ends with it, and may overlap the one before."""
    if place:
        at = extents.start + place * _WORD_BYTES
        return buffer.words[np.minimum(at, extents.end - _WORD_BYTES)]
    words = buffer.words[extents.start]
    (short,) = (extents.length < _WORD_BYTES).nonzero()
    if len(short):
        # A shift by 64 has no effect, so shift twice.
        half = (_WORD_BYTES - extents.length[short]).astype(np.uint64) << np.uint64(2)
        words[short] &= (_ALL >> half) >> half
    return words
