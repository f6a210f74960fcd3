"""Place what all processes of a run did on one clock, that of its reference.

A process whose offset is not known stays on its own clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tfprobe.errors import Missing
from tfprobe.model.profile import Profile
from tfprobe.model.tables import Int64s
from tfprobe.views import meetings
from tfprobe.views.clocks import Clock, Clocks, clocks
from tfprobe.views.meetings import Meetings
from tfprobe.views.peers import Peers, peers
from tfprobe.views.places import seats


@dataclass(frozen=True, slots=True)
class Aligned:
    """A profile and its meetings, on the clock of the reference or `as_recorded`.

    `peers` are found on the clock of the reference in any case.
    """

    profile: Profile
    meetings: Meetings
    clocks: Clocks
    peers: Peers
    as_recorded: bool

    def clock(self, process: int) -> Clock:
        """Return the clock of a process, by its place in the profile."""
        return self.clocks.clocks[process]


def align(profile: Profile, *, as_recorded: bool = False) -> Aligned:
    """Estimate the clocks of a profile's processes, and move captures and their rows by them.

    Activities, gaps and pulses stay where they are: they are drawn for one process at a time.
    """
    found = meetings.part(profile)
    return aligned(profile, found, clocks(profile.processes, found), as_recorded=as_recorded)


def aligned(profile: Profile, found: Meetings, by: Clocks, *, as_recorded: bool = False) -> Aligned:
    """Move a profile and its meetings by the clocks of its processes."""
    process = found.process.astype(np.int64)
    moved = replace(
        found,
        start_ns=on_reference(by, process, found.start_ns),
        end_ns=on_reference(by, process, found.end_ns),
    )
    generation = [each.matched_by for each in seats(profile.processes)]
    met = peers(moved, generation, without=unknown(by))
    if as_recorded:
        return Aligned(profile, found, by, met, as_recorded)
    return Aligned(_moved(profile, by), moved, by, met, as_recorded)


def unknown(by: Clocks) -> frozenset[int]:
    """Return the processes whose clocks nobody can tell from the reference's."""
    return frozenset(each.process for each in by.clocks if isinstance(each.offset_ns, Missing))


def on_reference(by: Clocks, process: Int64s, unix_ns: Int64s) -> Int64s:
    """Return unix times of these processes on the clock of the reference, where that is known."""
    order = np.argsort(process, kind="stable")
    edges = np.searchsorted(process[order], np.arange(len(by.clocks) + 1)).tolist()
    found = unix_ns.copy()
    for clock, begin, end in zip(by.clocks, edges, edges[1:], strict=False):
        mine = order[begin:end]
        times = clock.on_reference(unix_ns[mine]) if len(mine) else unix_ns[mine]
        if not isinstance(times, Missing):
            found[mine] = times
    return found


def _moved(profile: Profile, by: Clocks) -> Profile:
    of_capture = np.array([each.process for each in profile.captures], dtype=np.int64)
    starts_ns = np.array([each.start_ns for each in profile.captures], dtype=np.int64)
    moved_ns = on_reference(by, of_capture, starts_ns).tolist()
    rows, spans = profile.executions, profile.spans
    return replace(
        profile,
        captures=tuple(
            replace(each, start_ns=start_ns)
            for each, start_ns in zip(profile.captures, moved_ns, strict=True)
        ),
        executions=replace(
            rows, start_ns=on_reference(by, of_capture[rows.capture], rows.start_ns)
        ),
        spans=replace(spans, start_ns=on_reference(by, of_capture[spans.capture], spans.start_ns)),
    )
