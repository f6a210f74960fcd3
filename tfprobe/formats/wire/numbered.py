"""Number texts that lie in a buffer: each has its number whenever it comes again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tfprobe.formats.wire.buffer import Buffer, OtherForm, UInt64s
from tfprobe.formats.wire.fields import Extents
from tfprobe.profile.tables import Int32s, Int64s

# Longer texts are looked up one by one.
_MOST_WORDS = 16
_WORD_BYTES = 8
_SLOT_BITS = 16
_NOBODY = 0
# One in so many is unknown only because another has its place: not worth to begin anew for.
_FEW = 16
_MIX = np.uint64(0x9E3779B97F4A7C15)
_FOLD = np.uint64(29)
_ALL = np.uint64(2**64 - 1)


class NumberedTexts:
    """Numbers texts from 1 on, in the order in which they are met."""

    def __init__(self) -> None:
        """Know none."""
        self._known: dict[bytes, int] = {}
        # A place for each text by its hash; who comes later to a place takes it.
        self._slots = np.full(1 << _SLOT_BITS, _NOBODY, dtype=np.int32)
        # By number: how long it is, -1 where that is not known here, and its words.
        self._length = np.full(1, -1, dtype=np.int64)
        self._words = np.zeros((_MOST_WORDS, 1), dtype=np.uint64)

    def __len__(self) -> int:
        """Return how many numbers there are, with that of no text."""
        return len(self._known) + 1

    def numbers(self, buffer: Buffer, extents: Extents) -> Int32s:
        """Return the number of what lies in each extent.

        Raises OtherForm where it is not UTF-8.
        """
        # Those of most words first: then those with so many stand together, and as they lie.
        count = np.minimum(extents.length + _WORD_BYTES - 1 >> 3, _MOST_WORDS)
        order = np.argsort(_MOST_WORDS - count.astype(np.int8), kind="stable")
        extents = extents.at(order)
        keys = _keys(buffer, extents)
        found = self._slots[keys.slot]
        unknown = self._unknown(keys, found)
        if len(unknown) * _FEW > len(found):
            # Most of what is new is the same again and again: one for each place is looked at.
            _, first = np.unique(keys.slot[unknown], return_index=True)
            self._learn(buffer, extents, keys, unknown[np.sort(first)])
            found = self._slots[keys.slot]
            unknown = self._unknown(keys, found)
        if len(unknown):
            found[unknown] = self._one_by_one(buffer, extents.at(unknown))
        numbers = np.empty(len(order), dtype=np.int32)
        numbers[order] = found
        return numbers

    def _unknown(self, keys: _Keys, numbers: Int32s) -> Int64s:
        """Return which are other texts than those with these numbers, or may be."""
        is_same = self._length[numbers] == keys.length
        for place, words in enumerate(keys.words):
            count = len(words)
            is_same[:count] &= self._words[place][numbers[:count]] == words
        return np.flatnonzero(~is_same)

    def _learn(self, buffer: Buffer, extents: Extents, keys: _Keys, rows: Int64s) -> None:
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
        """Make room for all numbers, and for as many again."""
        lacking = len(self) - len(self._length)
        if lacking > 0:
            lacking += len(self)
            self._length = np.pad(self._length, (0, lacking), constant_values=-1)
            self._words = np.pad(self._words, ((0, 0), (0, lacking)))


class _Keys(NamedTuple):
    """Texts, the longest first, as their lengths and words, and the places they have.

    Each of `words` has eight bytes of as many of the texts as are longer.
    """

    length: Int64s
    words: Sequence[UInt64s]
    slot: Int64s


def _keys(buffer: Buffer, extents: Extents) -> _Keys:
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
    return _Keys(length, found, (mixed >> np.uint64(64 - _SLOT_BITS)).view(np.int64))


def _words(buffer: Buffer, extents: Extents, place: int) -> UInt64s:
    """Return a word of each text: the last ends with it, and may repeat what was before."""
    if place:
        at = extents.start + place * _WORD_BYTES
        return buffer.words[np.minimum(at, extents.end - _WORD_BYTES)]
    words = buffer.words[extents.start]
    (short,) = (extents.length < _WORD_BYTES).nonzero()
    if len(short):
        # By 64 nothing is shifted, so in two goes.
        half = (_WORD_BYTES - extents.length[short]).astype(np.uint64) << np.uint64(2)
        words[short] &= (_ALL >> half) >> half
    return words
