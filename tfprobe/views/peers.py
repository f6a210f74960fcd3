"""Say of each meeting who else was in it, who came last, and how long each waited for that one.

Takes times that are on one clock: see `aligned`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.model.tables import Flags, Int64s
from tfprobe.views.encounters import meeting_groups
from tfprobe.views.meeting_groups import Met, groups, in_several
from tfprobe.views.meetings import MeetingKind, Meetings


@dataclass(frozen=True, slots=True)
class Peers:
    """Columns beside those of the meetings.

    `group` is a number that all rows of one meeting share, -1 of a row that met nobody. In a
    collective `waited_ns` is how long a row was in it before all were, -1 of what is none, or met
    nobody whose clock is known; `last` is the position of the row that began last, -1 as well where
    nobody waited for it.
    """

    group: Int64s
    last: Int64s
    waited_ns: Int64s

    def of(self, group: int) -> Int64s:
        """Return the positions of the rows of one meeting."""
        found: Int64s = np.flatnonzero(self.group == group)
        return found


def peers(
    meetings: Meetings, generation: Sequence[int], *, without: frozenset[int] = frozenset()
) -> Peers:
    """Match what met; `generation` is that of each process, see `places.seats`.

    Of the processes `without` a known clock nobody can say whether they came before others.
    """
    is_collective = meetings.kind == MeetingKind.COLLECTIVE
    group = meeting_groups(meetings, generation)
    process = meetings.process.astype(np.int64)
    met = (is_collective & in_several(group, process)) | (
        ~is_collective & _is_pair(group, meetings)
    )
    last, waited_ns = _waits(meetings, group, is_collective & ~np.isin(process, list(without)))
    return Peers(np.where(met, group, -1), last, waited_ns)


def _waits(meetings: Meetings, group: Int64s, chosen: Flags) -> tuple[Int64s, Int64s]:
    """Return of the chosen collectives which row came last, and how long each waited for it."""
    at = np.flatnonzero(chosen)
    last, waited_ns = np.full(len(chosen), -1), np.full(len(chosen), -1)
    start_ns, end_ns = meetings.start_ns[at], meetings.end_ns[at]
    numbered = groups(group[at][np.newaxis])
    met = Met.of(numbered, meetings.process[at].astype(np.int64), start_ns, end_ns)
    beside, own_ns = at[met.is_matched], (end_ns - start_ns - met.moving_ns)[met.is_matched]
    waited_ns[beside] = own_ns
    longest_ns = np.zeros(len(chosen), dtype=np.int64)
    np.maximum.at(longest_ns, group[beside], own_ns)
    last[beside] = np.where(longest_ns[group[beside]] > 0, at[met.last[met.is_matched]], -1)
    return last, waited_ns


def _is_pair(group: Int64s, meetings: Meetings) -> Flags:
    """Say of each row whether its group has one send and one receive: more cannot be told apart."""
    count = int(group.max(initial=-1)) + 1
    sends = np.bincount(group[meetings.kind == MeetingKind.SEND], minlength=count)
    receives = np.bincount(group[meetings.kind == MeetingKind.RECV], minlength=count)
    found: Flags = ((sends == 1) & (receives == 1))[group]
    return found
