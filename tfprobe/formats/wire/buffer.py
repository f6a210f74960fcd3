"""Hold bytes of protobuf messages, and read the varints at many places of them at once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tfprobe.profile.tables import Flags, Int64s

UInt64s = npt.NDArray[np.uint64]

# More than any place that is read lies behind the end of what is read there: a tag, a varint of
# 10 bytes, and the 8 bytes from its last on. A zero is no tag, so nothing is found there.
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
    """The bytes are not as writers of protobuf write them, or no message at all."""


class Buffer:
    """Bytes of messages with room behind them; `limit` is behind the end of every message."""

    __slots__ = ("bytes", "content", "limit", "words")

    def __init__(self, parts: Iterable[bytes]) -> None:
        """Join the parts, which are one behind the other then."""
        self.content = b"".join((*parts, bytes(_PADDING)))
        self.limit = len(self.content) - _PADDING + 16
        self.bytes = np.frombuffer(self.content, dtype=np.uint8)
        # The 8 bytes from each place on; the copy that a choice of them makes is aligned.
        self.words: UInt64s = np.ndarray(
            (len(self.content) - 7,), dtype="<u8", buffer=self.content, strides=(1,)
        )

    def varints(self, at: Int64s) -> tuple[UInt64s, Int64s]:
        """Return the varints at these places, and the places after them.

        That is `limit` where more than 64 bits are written.
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
        """Return the places after the varints at these places, as `varints` does."""
        words = self.words[at]
        last = _last_bits(words)
        after = at + _lengths(last)
        self._read_long(at, last, None, after)
        return after

    def short_varints(self, at: Int64s, there: Flags | None = None) -> tuple[UInt64s, Int64s]:
        """Return what `varints` does, sooner where next to all have one byte or two.

        With `there` only the places where it is true hold any; at the others 0 is found.
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
        """Put the varints of 9 and 10 bytes in their places: those without a last bit."""
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
    """Return the highest bit of the first byte that ends a varint; 0 where none of 8 does."""
    ends = ~words
    ends &= _CONTINUES
    ends &= np.negative(ends)
    return ends


def _lengths(last: UInt64s) -> Int64s:
    """Return in bytes how long varints with this last bit are."""
    # The exponent of 2 ** (8 n - 1) as a double is 8 n + 1022, in the bits from 52 on.
    exponents: Int64s = last.astype(np.float64).view(np.int64)
    exponents >>= 55
    exponents -= 127
    return exponents
