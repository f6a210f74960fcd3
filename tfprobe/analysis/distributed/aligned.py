"""Put the events of all processes of a run on one clock, that of the reference.

A process whose offset is unknown stays on its own clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfprobe.analysis.distributed import synchronization_events
from tfprobe.analysis.distributed.clocks import Clock, Clocks, clocks
from tfprobe.analysis.distributed.rank_slots import rank_slots
from tfprobe.analysis.distributed.synchronization_events import (
    MatchedRuns,
    SynchronizationEvents,
    SynchronizationKind,
    groups,
    in_several,
)
from tfprobe.analysis.distributed.synchronization_matrix import event_groups
from tfprobe.errors import Missing
from tfprobe.profile.profile import Profile
from tfprobe.profile.tables import Flags, Int64s


@dataclass(frozen=True, slots=True)
class Aligned:
    """A profile and its events, on the clock of the reference or `as_recorded`.

    `peers` are always computed on the clock of the reference.
    """

    profile: Profile
    events: SynchronizationEvents
    clocks: Clocks
    peers: Peers
    as_recorded: bool

    def clock(self, process: int) -> Clock:
        """Return the clock of a process, by its index in the profile."""
        return self.clocks.clocks[process]


def align(profile: Profile, *, as_recorded: bool = False) -> Aligned:
    """Estimate the clocks of the processes, and move captures and their rows by them.

    Activities, gaps and resource samples are not moved: they are drawn for one process at a time.
    """
    events = synchronization_events.find_events(profile)
    return aligned(profile, events, clocks(profile.processes, events), as_recorded=as_recorded)


def aligned(
    profile: Profile, found: SynchronizationEvents, by: Clocks, *, as_recorded: bool = False
) -> Aligned:
    """Move a profile and its events by the clocks of its processes."""
    process = found.process.astype(np.int64)
    moved = replace(
        found,
        start_ns=on_reference(by, process, found.start_ns),
        end_ns=on_reference(by, process, found.end_ns),
    )
    generation = [slot.matched_by for slot in rank_slots(profile.processes)]
    met = peers(moved, generation, without=unknown(by))
    if as_recorded:
        return Aligned(profile, found, by, met, as_recorded)
    return Aligned(_moved(profile, by), moved, by, met, as_recorded)


def unknown(by: Clocks) -> frozenset[int]:
    """Return the processes whose clocks are unknown."""
    return frozenset(clock.process for clock in by.clocks if isinstance(clock.offset_ns, Missing))


def on_reference(by: Clocks, process: Int64s, unix_ns: Int64s) -> Int64s:
    """Return unix times of these processes on the clock of the reference, if that is known."""
    order = np.argsort(process, kind="stable")
    edges = np.searchsorted(process[order], np.arange(len(by.clocks) + 1)).tolist()
    aligned_ns = unix_ns.copy()
    for clock, begin, end in zip(by.clocks, edges, edges[1:], strict=False):
        mine = order[begin:end]
        times = clock.on_reference(unix_ns[mine]) if len(mine) else unix_ns[mine]
        if not isinstance(times, Missing):
            aligned_ns[mine] = times
    return aligned_ns


def _moved(profile: Profile, by: Clocks) -> Profile:
    of_capture = np.array([capture.process for capture in profile.captures], dtype=np.int64)
    starts_ns = np.array([capture.start_ns for capture in profile.captures], dtype=np.int64)
    moved_ns = on_reference(by, of_capture, starts_ns).tolist()
    rows, spans = profile.executions, profile.spans
    return replace(
        profile,
        captures=tuple(
            replace(capture, start_ns=start_ns)
            for capture, start_ns in zip(profile.captures, moved_ns, strict=True)
        ),
        executions=replace(
            rows, start_ns=on_reference(by, of_capture[rows.capture], rows.start_ns)
        ),
        spans=replace(spans, start_ns=on_reference(by, of_capture[spans.capture], spans.start_ns)),
    )


@dataclass(frozen=True, slots=True)
class Peers:
    """Further columns of the synchronization events.

    `group` is the number of the event, -1 for a row without a counterpart in another process.
    `waited_ns` is how long a row was in a collective before all processes were; it is -1 if the row
    is of no collective, or has no counterpart with a known clock. `last` is the position of the row
    that began last; it is also -1 if no process waited for it.
    """

    group: Int64s
    last: Int64s
    waited_ns: Int64s

    def of(self, group: int) -> Int64s:
        """Return the positions of the rows of an event."""
        places: Int64s = np.flatnonzero(self.group == group)
        return places


def peers(
    events: SynchronizationEvents,
    generation: Sequence[int],
    *,
    without: frozenset[int] = frozenset(),
) -> Peers:
    """Match the rows of each event; `generation` is `RankSlot.matched_by` of each process.

    For processes `without` a known clock it is unknown whether they came before others.
    """
    is_collective = events.kind == SynchronizationKind.COLLECTIVE
    group = event_groups(events, generation)
    process = events.process.astype(np.int64)
    met = (is_collective & in_several(group, process)) | (~is_collective & _is_pair(group, events))
    last, waited_ns = _waits(events, group, is_collective & ~np.isin(process, list(without)))
    return Peers(np.where(met, group, -1), last, waited_ns)


def _waits(events: SynchronizationEvents, group: Int64s, chosen: Flags) -> tuple[Int64s, Int64s]:
    """Return for the chosen collectives which row came last, and how long each waited for it."""
    at = np.flatnonzero(chosen)
    last, waited_ns = np.full(len(chosen), -1), np.full(len(chosen), -1)
    start_ns, end_ns = events.start_ns[at], events.end_ns[at]
    numbered = groups(group[at][np.newaxis])
    met = MatchedRuns.of(numbered, events.process[at].astype(np.int64), start_ns, end_ns)
    matched, own_ns = at[met.is_matched], (end_ns - start_ns - met.moving_ns)[met.is_matched]
    waited_ns[matched] = own_ns
    longest_ns = np.zeros(len(chosen), dtype=np.int64)
    np.maximum.at(longest_ns, group[matched], own_ns)
    last[matched] = np.where(longest_ns[group[matched]] > 0, at[met.last[met.is_matched]], -1)
    return last, waited_ns


def _is_pair(group: Int64s, events: SynchronizationEvents) -> Flags:
    """Say for each row whether its group has one send and one receive: more cannot be matched."""
    count = int(group.max(initial=-1)) + 1
    sends = np.bincount(group[events.kind == SynchronizationKind.SEND], minlength=count)
    receives = np.bincount(group[events.kind == SynchronizationKind.RECV], minlength=count)
    found: Flags = ((sends == 1) & (receives == 1))[group]
    return found
