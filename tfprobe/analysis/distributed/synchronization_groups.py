"""Set executions of one collective in several processes beside each other: who waited, how long.

Takes times that are on one clock, and looks after no clock itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tfprobe.profile.tables import Flags, Int64s


@dataclass(frozen=True, slots=True)
class Met:
    """Of each execution: whether others of its group were seen, and what it did beside them.

    `moving_ns` is the time in which all of a group were inside, -1 where an execution is not
    `is_matched`; `is_last` says that none of its group began later; `last` is the position of one
    that began last.
    """

    is_matched: Flags
    moving_ns: Int64s
    is_last: Flags
    last: Int64s

    @classmethod
    def of(cls, group: Int64s, process: Int64s, start_ns: Int64s, end_ns: Int64s) -> Met:
        """Return how the executions of each group, numbered from 0, lie to each other."""
        is_matched = in_several(group, process)
        count = int(group.max(initial=-1)) + 1
        first_ns = np.full(count, np.iinfo(np.int64).min)
        last_ns = np.full(count, np.iinfo(np.int64).max)
        shortest_ns = np.full(count, np.iinfo(np.int64).max)
        np.maximum.at(first_ns, group, start_ns)
        np.minimum.at(last_ns, group, end_ns)
        np.minimum.at(shortest_ns, group, end_ns - start_ns)
        common_ns = last_ns - first_ns
        # None ends before all have begun. Where the clocks say so they are wrong, and the rank that
        # took the least time is the best there is.
        moving_ns = np.where(common_ns > 0, common_ns, shortest_ns)[group]
        is_last = start_ns == first_ns[group]
        last = np.zeros(count, dtype=np.int64)
        last[group[is_last]] = np.flatnonzero(is_last)
        return cls(
            is_matched=is_matched,
            moving_ns=np.where(is_matched, np.minimum(moving_ns, end_ns - start_ns), -1),
            is_last=is_matched & is_last,
            last=last[group],
        )


def groups(columns: Int64s) -> Int64s:
    """Return numbers from 0 on, the same one for all that are alike in these columns."""
    found: Int64s = np.unique(columns, axis=1, return_inverse=True)[1].reshape(-1)
    return found


def in_several(group: Int64s, process: Int64s) -> Flags:
    """Say of each execution whether its group has others of another process."""
    processes = np.zeros(int(group.max(initial=-1)) + 1, dtype=np.int64)
    pairs = np.unique(np.stack((group, process)), axis=1)
    np.add.at(processes, pairs[0], 1)
    found: Flags = (processes > 1)[group]
    return found
