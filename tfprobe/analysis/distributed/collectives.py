"""Measure how long each collective took, and how much of that moved bytes or waited for peers.

A rank that comes early to a collective waits in it for the last one. If several ranks traced the
same step, the time in which all of them were inside the same execution moves bytes, and the rest of
each rank's time is waiting: the definition of torch_tb_profiler, which takes the shortest of the
ranks. With one rank, the two cannot be separated.

Ranks on one machine have one clock. The clocks of others are compared by synchronization events
(`clocks`); the largest error of that is part of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.core.source_lines import Origins
from tfprobe.analysis.core.tensor_sizes import outputs_bytes
from tfprobe.analysis.distributed.clocks import clocks
from tfprobe.analysis.distributed.synchronization_events import (
    MatchedRuns,
    SynchronizationEvents,
    alike_in_all_ranks,
    find_events,
    groups,
    in_several,
)
from tfprobe.analysis.distributed.synchronization_matrix import machine_key
from tfprobe.analysis.transfers.bus_transfers import BusyTime
from tfprobe.analysis.transfers.collective_runs import CollectiveRuns, collective_runs, overlap
from tfprobe.errors import Missing
from tfprobe.profile.profile import Process, Profile
from tfprobe.profile.tables import Int64s

ONE_RANK = Missing(
    "only one rank recorded these steps, and waiting is only visible across ranks: record all of "
    "them with the same --every or --steps"
)
_S = 1e9


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective of one op, over traced steps and ranks.

    `time_ns` is summed over all executions; `moving_ns` and `waiting_ns` over those `matched` with
    other ranks'. `queued_ns` is the time from launch to start, summed over the `queued` executions
    for which it is known. `bytes` are those of the tensors of the `sized` executions, which took
    `sized_ns`.
    """

    op: str
    op_type: str
    layer: str
    count: int
    sized: int
    bytes: int
    time_ns: int
    sized_ns: int
    queued: int
    queued_ns: int
    matched: int
    moving_ns: int
    waiting_ns: int
    moved_bytes: int

    @property
    def bytes_per_s(self) -> float | Missing:
        """Return the "algorithm bandwidth" of NCCL: bytes by the time that moved them if it is
        known, else by all of the time.
        """
        if self.moved_bytes and self.moving_ns:
            return self.moved_bytes / self.moving_ns * _S
        if not self.sized_ns:
            return Missing("neither the recording nor the graph has the sizes of these tensors")
        return self.bytes / self.sized_ns * _S


@dataclass(frozen=True, slots=True)
class Rank:
    """What a rank did in the collectives that were matched with those of other ranks.

    `last` is the number of those to which it came last, so that all others waited for it.
    """

    process: int
    rank: int | None
    host: str
    matched: int
    moving_ns: int
    waiting_ns: int
    last: int


@dataclass(frozen=True, slots=True)
class Collectives:
    """The collectives of the traced steps, the longest first, and the ranks.

    `ranks` is Missing if waiting is unknown. The clocks of the ranks are wrong by at most
    `clock_error_ns`, None if all are of one machine.
    """

    steps: int
    kinds: tuple[Collective, ...]
    busy: BusyTime
    ranks: tuple[Rank, ...] | Missing
    clock_error_ns: int | None


def collectives(profile: Profile, origins: Origins) -> Collectives | Missing:
    """Return the collectives of the traced steps, or why there are none.

    The captures of the profile are those of one loop, in all ranks.
    """
    rows = profile.executions
    if not profile.captures:
        return Missing("no step was traced")
    runs = collective_runs(profile)
    if not runs.found.any():
        return Missing("the traced steps have no collective")
    met, clock_error_ns = _matched(profile, runs)
    return Collectives(
        steps=len(profile.captures),
        kinds=_kinds(profile, runs, met.moving_ns, origins),
        busy=overlap(rows, runs),
        ranks=_ranks(profile, runs, met),
        clock_error_ns=clock_error_ns,
    )


def _matched(profile: Profile, runs: CollectiveRuns) -> tuple[MatchedRuns, int | None]:
    """Return how executions match those of other ranks, and the largest error of the clocks."""
    rows = profile.executions
    capture = rows.capture[runs.row]
    process = _of_captures([traced.process for traced in profile.captures])[capture]
    step = _of_captures([traced.step for traced in profile.captures])[capture]
    group = groups(
        alike_in_all_ranks(
            step[np.newaxis],
            name=rows.name[runs.row].astype(np.int64),
            nth=runs.nth,
            collective=rows.collective[runs.row].astype(np.int64),
            part=runs.part,
        )
    )
    return on_one_clock(
        profile.processes, lambda: find_events(profile), group, process, runs.start_ns, runs.end_ns
    )


def on_one_clock(
    processes: Sequence[Process],
    events: Callable[[], SynchronizationEvents],
    group: Int64s,
    process: Int64s,
    start_ns: Int64s,
    end_ns: Int64s,
) -> tuple[MatchedRuns, int | None]:
    """Return how executions match those of their group in other processes, on one clock, and the
    largest error of the clocks: None if all are of one machine.

    The `events` are those of the same steps, with the same numbers of processes.
    """
    seen = np.unique(process[in_several(group, process)]).tolist()
    if len({machine_key(processes[index]) for index in seen}) < 2:
        return MatchedRuns.of(group, process, start_ns, end_ns), None
    group, start_ns, end_ns = group.copy(), start_ns.copy(), end_ns.copy()
    machine_clocks = clocks(processes, events())
    error_ns = 0
    for clock in (machine_clocks.clocks[index] for index in seen):
        mine = process == clock.process
        if isinstance(clock.error_ns, Missing):
            # Its times cannot be compared: each of its executions is a group of its own.
            group[mine] = len(group) + np.flatnonzero(mine)
            continue
        start_ns[mine] = clock.on_reference(start_ns[mine])
        end_ns[mine] = clock.on_reference(end_ns[mine])
        error_ns = max(error_ns, clock.error_ns)
    return MatchedRuns.of(groups(group[np.newaxis]), process, start_ns, end_ns), error_ns


def _of_captures(values: Sequence[int]) -> Int64s:
    return np.array(values, dtype=np.int64)


def _kinds(
    profile: Profile, runs: CollectiveRuns, moving_ns: Int64s, origins: Origins
) -> tuple[Collective, ...]:
    rows = profile.executions
    size = _sizes(profile, runs, origins)
    duration_ns = runs.duration_ns
    found = []
    for name in np.unique(rows.name[runs.row]).tolist():
        mine = rows.name[runs.row] == name
        matched, sized = mine & (moving_ns >= 0), mine & (size > 0)
        queued = mine & (runs.queued_ns >= 0)
        origin = origins.of(rows.strings[name])
        both = matched & sized
        found.append(
            Collective(
                op=origin.op,
                op_type=rows.strings[rows.op_type[runs.row[mine]][0]],
                layer=origin.layer,
                count=int(mine.sum()),
                sized=int(sized.sum()),
                bytes=int(size[sized].sum()),
                time_ns=int(duration_ns[mine].sum()),
                sized_ns=int(duration_ns[sized].sum()),
                queued=int(queued.sum()),
                queued_ns=int(runs.queued_ns[queued].sum()),
                matched=int(matched.sum()),
                moving_ns=int(moving_ns[matched].sum()),
                waiting_ns=int((duration_ns - moving_ns)[matched].sum()),
                moved_bytes=int(size[both].sum()) if (both == matched).all() else 0,
            )
        )
    return tuple(sorted(found, key=lambda collective: (-collective.time_ns, collective.op)))


def _sizes(profile: Profile, runs: CollectiveRuns, origins: Origins) -> Int64s:
    """Return the bytes of each execution: as recorded, else by its shape; 0 if unknown."""
    rows = profile.executions
    recorded = np.maximum(rows.output_bytes[runs.row], 0)
    by_name: dict[int, int] = {}
    for name in np.unique(rows.name[runs.row[recorded == 0]]).tolist():
        node = origins.node(rows.strings[name])
        by_name[name] = (outputs_bytes(node, origins.shapes) if node else None) or 0
    shaped = np.array([by_name.get(at, 0) for at in rows.name[runs.row].tolist()], dtype=np.int64)
    return np.where(recorded > 0, recorded, shaped)


def _ranks(profile: Profile, runs: CollectiveRuns, met: MatchedRuns) -> tuple[Rank, ...] | Missing:
    if not met.is_matched.any():
        return ONE_RANK
    return tuple(_each_rank(profile, runs, met))


def _each_rank(profile: Profile, runs: CollectiveRuns, met: MatchedRuns) -> Iterator[Rank]:
    rows = profile.executions
    processes = _of_captures([capture.process for capture in profile.captures])
    process = processes[rows.capture[runs.row]]
    known: Mapping[int, tuple[int | None, str]] = {
        each.index: (each.rank, each.host) for each in profile.processes
    }
    for each in np.unique(process[met.is_matched]).tolist():
        mine = (process == each) & met.is_matched
        yield Rank(
            process=each,
            rank=known[each][0],
            host=known[each][1],
            matched=int(mine.sum()),
            moving_ns=int(met.moving_ns[mine].sum()),
            waiting_ns=int((runs.duration_ns - met.moving_ns)[mine].sum()),
            last=int(met.is_last[mine].sum()),
        )
