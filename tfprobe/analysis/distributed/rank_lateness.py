"""Say which rank comes last to collectives, and how long ranks wait in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.distributed import synchronization_events
from tfprobe.analysis.distributed.collectives import on_one_clock
from tfprobe.analysis.distributed.synchronization_events import (
    Met,
    SynchronizationEvents,
    SynchronizationKind,
    groups,
)
from tfprobe.profile.profile import Process, Profile
from tfprobe.profile.tables import Int64s

# Of fewer, one of two equal ranks is last in nearly all by chance.
_LEAST_MATCHED = 5
_Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RankLateness:
    """What a rank did in the collectives that were seen in other ranks, too.

    `last_ratio` is the share of them to which it came last, `waiting_ns` what it waited in one.
    """

    matched: int
    last_ratio: float
    waiting_ns: float


def lateness_of_loops(profile: Profile) -> dict[_Key, RankLateness]:
    """Return the lateness of each loop of a rank in a run, by its process and number."""
    loops = [((loop.process, loop.index), f"{loop.kind} {loop.name}") for loop in profile.loops]
    return rank_lateness(loops, profile.processes, synchronization_events.part(profile))


def rank_lateness(
    loops: Iterable[tuple[_Key, str]], processes: Sequence[Process], events: SynchronizationEvents
) -> dict[_Key, RankLateness]:
    """Return the lateness of loops, each given by its process and number, with its kind and name.

    Loops of one kind and name are compared that ranks of one job run. Where too few collectives
    were seen in several ranks there is nothing to compare.
    """
    alike: dict[tuple[str, int], list[_Key]] = {}
    for key, name in loops:
        process = processes[key[0]]
        if process.rank is not None:
            alike.setdefault((name, process.group), []).append(key)
    found: dict[_Key, RankLateness] = {}
    for (name, _), keys in alike.items():
        found |= _of_group(processes, events, name, keys)
    return found


def _of_group(
    processes: Sequence[Process], events: SynchronizationEvents, name: str, keys: Sequence[_Key]
) -> dict[_Key, RankLateness]:
    if name not in events.strings.values:
        return {}
    of_loop = events.loop == events.strings.values.index(name)
    own = events.only(of_loop & np.isin(events.process, [key[0] for key in keys]))
    rows = own.only(own.kind == SynchronizationKind.COLLECTIVE)
    group = groups(np.stack((rows.step, rows.name.astype(np.int64), rows.nth)))
    process = rows.process.astype(np.int64)
    met, _ = on_one_clock(processes, lambda: own, group, process, rows.start_ns, rows.end_ns)
    by_process = _by_process(process, met, rows.end_ns - rows.start_ns)
    return {
        key: by_process[key[0]]
        for key in keys
        if key[0] in by_process and by_process[key[0]].matched >= _LEAST_MATCHED
    }


def _by_process(process: Int64s, met: Met, took_ns: Int64s) -> dict[int, RankLateness]:
    found = {}
    for index in np.unique(process[met.is_matched]).tolist():
        own = (process == index) & met.is_matched
        matched, last = int(own.sum()), int(met.is_last[own].sum())
        waiting_ns = int((took_ns - met.moving_ns)[own].sum())
        found[index] = RankLateness(matched, last / matched, waiting_ns / matched)
    return found
