"""Tell which of the intervals of a thread is the innermost at each moment."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


class Nesting(NamedTuple):
    """By interval: how long it was the innermost, and which one was so when it began, -1 for none.

    The `own_ns` of all intervals sum to the length of their union.
    """

    own_ns: Int64s
    parent: Int64s


def nest(start_ns: Int64s, end_ns: Int64s) -> Nesting:
    """Charge each moment to the interval that started last; of two that start as one, the shorter.

    Intervals may overlap without one being inside the other, as those of a generator do.
    """
    moments = np.unique(np.concatenate([start_ns, end_ns]))
    firsts, lasts = np.searchsorted(moments, start_ns), np.searchsorted(moments, end_ns)
    owner = np.full(max(len(moments) - 1, 0), -1, dtype=np.int64)
    parent = np.full(len(start_ns), -1, dtype=np.int64)
    # Each covers what those that started before it have painted: a loop, but of activities and
    # remembered steps, not of the rows of captures.
    for at in np.lexsort((-end_ns, start_ns)).tolist():
        first, last = int(firsts[at]), int(lasts[at])
        if first < last:
            parent[at] = owner[first]
            owner[first:last] = at
    return Nesting(_sums(owner, np.diff(moments), len(start_ns)), parent)


def _sums(owner: Int64s, length_ns: Int64s, count: int) -> Int64s:
    own_ns = np.zeros(count, dtype=np.int64)
    owned = owner >= 0
    np.add.at(own_ns, owner[owned], length_ns[owned])
    return own_ns
