"""Assign the intervals of one thread or stream to rows, so that none covers another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tfprobe.profile.tables import Flags, Int64s


class Lanes:
    """The lanes of one thread or stream: boxes in a lane are disjoint or nested."""

    def __init__(self, last: int) -> None:
        """Start after lane `last` of the device."""
        self._first = last + 1
        self._open_ends_ns: list[list[int]] = []

    @property
    def last(self) -> int:
        return self._first + len(self._open_ends_ns) - 1

    def place(self, start_ns: int, end_ns: int) -> tuple[int, bool]:
        """Return the lane of a box and whether it is new; boxes come by their start."""
        for at, ends_ns in enumerate(self._open_ends_ns):
            while ends_ns and ends_ns[-1] <= start_ns:
                ends_ns.pop()
            if not ends_ns or end_ns <= ends_ns[-1]:
                ends_ns.append(end_ns)
                return self._first + at, False
        self._open_ends_ns.append([end_ns])
        return self.last, True


def rows(start_ns: Int64s, end_ns: Int64s, *, most: int) -> Int64s:
    """Return the row of each interval from 0 on, or `most` if it does not fit into that many rows.

    Intervals come in the order of their starts; of two with one start, the longer comes first. An
    interval inside another is in a row below it, and intervals of a row do not overlap.
    """
    lasts = end_ns > start_ns
    ends_ns = np.sort(end_ns[lasts])
    # If all are nested, whatever began before and has not ended encloses it.
    began: Int64s = np.cumsum(lasts) - lasts
    ended = np.searchsorted(ends_ns, start_ns, side="right")
    row: Int64s = np.minimum(began - ended, most)
    meets = _touching(row, start_ns, end_ns, most)
    if meets.any():
        # Only intervals connected with such a pair are placed one by one, which is slow.
        group = np.cumsum(np.append(True, start_ns[1:] >= np.maximum.accumulate(end_ns)[:-1]))
        chosen = np.isin(group, np.unique(group[meets]))
        row[chosen] = _first_free(start_ns[chosen], end_ns[chosen], most)
    return row


def _touching(row: Int64s, start_ns: Int64s, end_ns: Int64s, most: int) -> Flags:
    """Say which intervals overlap with the one before them in their row."""
    order = np.argsort(row, kind="stable")
    row, start_ns, end_ns = row[order], start_ns[order], end_ns[order]
    meets = (row[1:] == row[:-1]) & (start_ns[1:] < end_ns[:-1]) & (row[1:] < most)
    found = np.zeros(len(row), dtype=np.bool_)
    found[order[1:]] = meets
    return found


def _first_free(start_ns: Int64s, end_ns: Int64s, most: int) -> list[int]:
    """Return the first free row for each, below all intervals that enclose it."""
    free_from_ns: list[int] = []
    found = []
    for start, end in zip(start_ns.tolist(), end_ns.tolist(), strict=True):
        row = -1
        for at, until in enumerate(free_from_ns):
            if until > start:
                row = -1 if until >= end else row
            elif row < 0:
                row = at
        row = row if row >= 0 else len(free_from_ns)
        if row < most:
            free_from_ns[row : row + 1] = [end]
        found.append(min(row, most))
    return found


@dataclass(frozen=True, slots=True)
class Drawn:
    """Blocks of slices, in their order; a block may be a single slice.

    `longest` is the position of the longest slice of a block. A block begins with its first slice
    and ends with its last one; `busy_ns` is how much of that the slices take.
    """

    longest: Int64s
    start_ns: Int64s
    end_ns: Int64s
    count: Int64s
    busy_ns: Int64s


class Window(NamedTuple):
    """The range of time that is drawn."""

    from_ns: int
    to_ns: int

    @property
    def length_ns(self) -> int:
        """Return its length."""
        return self.to_ns - self.from_ns


def drawn(row: Int64s, start_ns: Int64s, end_ns: Int64s, window: Window, *, most: int) -> Drawn:
    """Return the slices in a window, merged to about `most` blocks.

    Slices come by row and start, and do not overlap within a row. Slices longer than the grain, the
    smallest that leaves so few blocks, are never merged, nor are slices of two rows. At the
    coarsest grain, every row has a few blocks, whatever `most` is.
    """
    inside = np.flatnonzero((start_ns <= window.to_ns) & (end_ns >= window.from_ns))
    row, start_ns, end_ns = row[inside], start_ns[inside], end_ns[inside]
    is_first = np.ones(len(inside), dtype=np.bool_)
    grain_ns = max(window.length_ns // max(most, 1), 1)
    while is_first.sum() > most and grain_ns <= 2 * window.length_ns:
        is_first = _first_of_blocks(row, start_ns, end_ns, grain_ns)
        grain_ns *= 2
    return _blocks(inside, is_first, start_ns, end_ns)


def _first_of_blocks(row: Int64s, start_ns: Int64s, end_ns: Int64s, grain_ns: int) -> Flags:
    """Say which slices begin a block: all but small ones that start in one cell of a grid.

    No long slice is between two of those: it would have ended in another cell.
    """
    is_small = end_ns - start_ns < grain_ns
    cell = start_ns // grain_ns
    joins = is_small[1:] & is_small[:-1] & (row[1:] == row[:-1]) & (cell[1:] == cell[:-1])
    return np.concatenate([np.ones(min(len(row), 1), dtype=np.bool_), ~joins])


def _blocks(inside: Int64s, is_first: Flags, start_ns: Int64s, end_ns: Int64s) -> Drawn:
    firsts = np.flatnonzero(is_first)
    if not len(firsts):
        nothing = np.empty(0, dtype=np.int64)
        return Drawn(nothing, nothing, nothing, nothing, nothing)
    length_ns = end_ns - start_ns
    count = np.diff(np.append(firsts, len(inside)))
    longest_ns = np.maximum.reduceat(length_ns, firsts)
    candidates = np.flatnonzero(length_ns == np.repeat(longest_ns, count))
    _, chosen = np.unique(np.cumsum(is_first)[candidates], return_index=True)
    return Drawn(
        longest=inside[candidates[chosen]],
        start_ns=start_ns[firsts],
        end_ns=np.maximum.reduceat(end_ns, firsts),
        count=count,
        busy_ns=np.add.reduceat(length_ns, firsts),
    )
