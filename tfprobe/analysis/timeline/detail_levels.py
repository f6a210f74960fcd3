"""Choose the detail in which slices are drawn: neighbours too small to be seen become one block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tfprobe.profile.tables import Flags, Int64s


@dataclass(frozen=True, slots=True)
class Drawn:
    """Slices and blocks, in the order they came; a slice is a block of one.

    `longest` is the position of the longest slice of a block. A block begins with its first slice
    and ends with its last one; `busy_ns` is how much of that they take.
    """

    longest: Int64s
    start_ns: Int64s
    end_ns: Int64s
    count: Int64s
    busy_ns: Int64s


class Window(NamedTuple):
    """From when to when is drawn."""

    from_ns: int
    to_ns: int

    @property
    def length_ns(self) -> int:
        """Return how long that is."""
        return self.to_ns - self.from_ns


def drawn(row: Int64s, start_ns: Int64s, end_ns: Int64s, window: Window, *, most: int) -> Drawn:
    """Return what lies in a window, at most about `most` blocks.

    Slices come by row and start, and do not overlap within a row. One that is longer than the
    grain, which is the smallest that leaves so few blocks, is never merged; nor are those of two
    rows. At the coarsest there are a few blocks in every row, whatever `most` says.
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
    """Say which slices begin a block: all but the small ones that start in one cell of a grid.

    Nothing long lies between two of those: it would have ended in another cell.
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
