"""Set arithmetic on time: a set is disjoint intervals, sorted, in ns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tfprobe.profile.tables import Int64s


class Intervals(NamedTuple):
    """Disjoint intervals by start; each goes from `start_ns` up to `end_ns`, exclusive."""

    start_ns: Int64s
    end_ns: Int64s

    @property
    def length_ns(self) -> int:
        """Return their total length."""
        return int((self.end_ns - self.start_ns).sum())


NONE = Intervals(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def one(start_ns: int, end_ns: int) -> Intervals:
    """Return a set of one interval, or the empty set where the interval is empty."""
    if end_ns <= start_ns:
        return NONE
    return Intervals(np.array([start_ns], dtype=np.int64), np.array([end_ns], dtype=np.int64))


def union(start_ns: Int64s, end_ns: Int64s) -> Intervals:
    """Return the moments that lie in any of these intervals, which may overlap."""
    real = end_ns > start_ns
    start_ns, end_ns = start_ns[real], end_ns[real]
    if not len(start_ns):
        return NONE
    order = np.argsort(start_ns, kind="stable")
    starts, ends = start_ns[order], np.maximum.accumulate(end_ns[order])
    is_new = np.concatenate([[True], starts[1:] > ends[:-1]])
    last = np.concatenate([np.flatnonzero(is_new)[1:] - 1, [len(starts) - 1]])
    return Intervals(starts[is_new], ends[last])


def joined(*sets: Intervals) -> Intervals:
    """Return the moments that lie in any of these sets."""
    return union(
        np.concatenate([intervals.start_ns for intervals in sets]),
        np.concatenate([intervals.end_ns for intervals in sets]),
    )


def intersection(one_set: Intervals, other: Intervals) -> Intervals:
    """Return the moments that lie in both sets."""
    return _where_depth(one_set, other, weight=1, depth=2)


def difference(one_set: Intervals, other: Intervals) -> Intervals:
    """Return the moments of the first set that are not in the second."""
    return _where_depth(one_set, other, weight=2, depth=1)


def clipped(intervals: Intervals, start_ns: int, end_ns: int) -> Intervals:
    """Return the moments of a set between two times."""
    return union(
        np.clip(intervals.start_ns, start_ns, end_ns), np.clip(intervals.end_ns, start_ns, end_ns)
    )


def within_ns(intervals: Intervals, start_ns: Int64s, end_ns: Int64s) -> Int64s:
    """Return how much of each interval from `start_ns` to `end_ns` a set covers."""
    lengths_ns = np.concatenate([[0], np.cumsum(intervals.end_ns - intervals.start_ns)])
    before_ns, after_ns = (_until_ns(intervals, at, lengths_ns) for at in (start_ns, end_ns))
    covered: Int64s = after_ns - before_ns
    return covered


def _until_ns(intervals: Intervals, at_ns: Int64s, lengths_ns: Int64s) -> Int64s:
    """Return how much is covered before each time; the first n intervals last `lengths_ns[n]`."""
    begun = np.searchsorted(intervals.start_ns, at_ns, side="right")
    covered: Int64s = lengths_ns[begun]
    # The last interval that began before a time may end after it.
    inside = np.flatnonzero(begun)
    covered[inside] -= np.maximum(intervals.end_ns[begun[inside] - 1] - at_ns[inside], 0)
    return covered


def lasting(intervals: Intervals, least_ns: int) -> Intervals:
    """Return the intervals of at least this length."""
    long = intervals.end_ns - intervals.start_ns >= least_ns
    return Intervals(intervals.start_ns[long], intervals.end_ns[long])


def _where_depth(one_set: Intervals, other: Intervals, *, weight: int, depth: int) -> Intervals:
    """Return the moments where the number of sets that cover them, `other` weighted, is `depth`."""
    if not len(one_set.start_ns):
        return NONE
    if not len(other.start_ns):
        return one_set if depth == 1 else NONE
    count, others = len(one_set.start_ns), len(other.start_ns)
    at = np.concatenate([*one_set, *other])
    change = np.repeat([1, -1, weight, -weight], [count, count, others, others])
    order = np.argsort(at, kind="stable")
    at, covering = at[order], np.cumsum(change[order])
    # Of several changes at one moment, only the state after the last lasts any time.
    chosen = (covering[:-1] == depth) & (at[1:] > at[:-1])
    return union(at[:-1][chosen], at[1:][chosen])


class Nesting(NamedTuple):
    """For each interval, how long it was the innermost, and which interval it began in (-1: none).

    The `own_ns` of all intervals sum to the length of their union.
    """

    own_ns: Int64s
    parent: Int64s


def nest(start_ns: Int64s, end_ns: Int64s) -> Nesting:
    """Charge each moment to the interval that started last; of equal starts, to the shorter.

    Intervals may overlap without one containing the other, as those of a generator do.
    """
    moments = np.unique(np.concatenate([start_ns, end_ns]))
    firsts, lasts = np.searchsorted(moments, start_ns), np.searchsorted(moments, end_ns)
    owner = np.full(max(len(moments) - 1, 0), -1, dtype=np.int64)
    parent = np.full(len(start_ns), -1, dtype=np.int64)
    # Each overwrites those that started before it. A Python loop is fast enough for activities and
    # remembered steps.
    for index in np.lexsort((-end_ns, start_ns)).tolist():
        first, last = int(firsts[index]), int(lasts[index])
        if first < last:
            parent[index] = owner[first]
            owner[first:last] = index
    return Nesting(_sums(owner, np.diff(moments), len(start_ns)), parent)


def innermost(lane: Int64s, start_ns: Int64s, end_ns: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return when each interval was the innermost of its lane: its index, start and end.

    Intervals are sorted by lane and start; of equal starts, the longer comes first. One that ends
    after the one around it is cut there.
    """
    rows: list[tuple[int, int, int]] = []
    # The index and the end of each open interval.
    stack: list[tuple[int, int]] = []
    moment = 0
    columns = zip(lane.tolist(), start_ns.tolist(), end_ns.tolist(), strict=True)
    current = None
    for index, (where, start, end) in enumerate(columns):
        if where != current:
            _close(stack, rows, moment, None)
            current, moment = where, start
        moment = _close(stack, rows, moment, start)
        if stack and start > moment:
            rows.append((stack[-1][0], moment, start))
        moment = max(moment, start)
        stack.append((index, min(end, stack[-1][1]) if stack else end))
    _close(stack, rows, moment, None)
    which, starts, ends = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return which, starts, ends


def _close(
    stack: list[tuple[int, int]], rows: list[tuple[int, int, int]], moment: int, until: int | None
) -> int:
    """Close the intervals that end by a time, or all; return the time up to which rows reach."""
    while stack and (until is None or stack[-1][1] <= until):
        index, end = stack.pop()
        if end > moment:
            rows.append((index, moment, end))
            moment = end
    return moment


def _sums(owner: Int64s, length_ns: Int64s, count: int) -> Int64s:
    own_ns = np.zeros(count, dtype=np.int64)
    owned = owner >= 0
    np.add.at(own_ns, owner[owned], length_ns[owned])
    return own_ns


def busy_ns_by_group(group: Int64s, count: int, start_ns: Int64s, end_ns: Int64s) -> Int64s:
    """Return for each of `count` groups how long at least one of its rows ran.

    One sort handles all groups, which are put on one time axis, one after another.
    """
    busy_ns = np.zeros(count, dtype=np.int64)
    if not len(group):
        return busy_ns
    base_ns = int(start_ns.min())
    span_ns = int(end_ns.max()) - base_ns + 1
    used = np.flatnonzero(np.bincount(group))
    numbers = np.zeros(count, dtype=np.int64)
    numbers[used] = np.arange(len(used))
    rank = numbers[group]
    start = start_ns - base_ns + rank * span_ns
    end = np.maximum(end_ns, start_ns) - base_ns + rank * span_ns
    order = np.argsort(start, kind="stable")
    start, end, rank = start[order], end[order], rank[order]
    reached = np.concatenate([start[:1], np.maximum.accumulate(end)[:-1]])
    np.add.at(busy_ns, used[rank], np.maximum(end - np.maximum(start, reached), 0))
    return busy_ns
