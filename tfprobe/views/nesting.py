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


def innermost(lane: Int64s, start_ns: Int64s, end_ns: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return the stretches in which each interval was the innermost of its lane: whose, from, to.

    Intervals are sorted by lane and start, the longer of two that start as one first. One that
    ends after the one around it is cut there.
    """
    found: list[tuple[int, int, int]] = []
    # The intervals that are open: which, and until when.
    stack: list[tuple[int, int]] = []
    moment = 0
    columns = zip(lane.tolist(), start_ns.tolist(), end_ns.tolist(), strict=True)
    current = None
    for at, (where, start, end) in enumerate(columns):
        if where != current:
            _close(stack, found, moment, None)
            current, moment = where, start
        moment = _close(stack, found, moment, start)
        if stack and start > moment:
            found.append((stack[-1][0], moment, start))
        moment = max(moment, start)
        stack.append((at, min(end, stack[-1][1]) if stack else end))
    _close(stack, found, moment, None)
    columns_found = np.array(found, dtype=np.int64).reshape(-1, 3)
    return columns_found[:, 0], columns_found[:, 1], columns_found[:, 2]


def _close(
    stack: list[tuple[int, int]], found: list[tuple[int, int, int]], moment: int, until: int | None
) -> int:
    """Close what has ended by a time, None for all; return up to when time is told."""
    while stack and (until is None or stack[-1][1] <= until):
        at, end = stack.pop()
        if end > moment:
            found.append((at, moment, end))
            moment = end
    return moment


def _sums(owner: Int64s, length_ns: Int64s, count: int) -> Int64s:
    own_ns = np.zeros(count, dtype=np.int64)
    owned = owner >= 0
    np.add.at(own_ns, owner[owned], length_ns[owned])
    return own_ns
