"""Measure how long any of a group of rows ran: unions, for many groups at once."""

from __future__ import annotations

import numpy as np

from tfprobe.profile.tables import Int64s


def busy_ns(group: Int64s, count: int, start_ns: Int64s, end_ns: Int64s) -> Int64s:
    """Return for each of `count` groups how long at least one of its rows ran.

    All groups are handled in one sort: each is put behind the one before it on one axis of time.
    """
    found = np.zeros(count, dtype=np.int64)
    if not len(group):
        return found
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
    np.add.at(found, used[rank], np.maximum(end - np.maximum(start, reached), 0))
    return found
