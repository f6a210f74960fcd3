"""Gather which rank comes last to the collectives that ranks meet in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tfprobe.analysis.distributed import synchronization_events
from tfprobe.analysis.distributed.collectives import on_one_clock
from tfprobe.analysis.distributed.synchronization_events import MeetingKind, Meetings
from tfprobe.analysis.distributed.synchronization_groups import Met, groups
from tfprobe.findings.finding import Subject
from tfprobe.findings.gather.processes import subject_of
from tfprobe.findings.signals import Turns
from tfprobe.profile.profile import Process, Profile
from tfprobe.profile.tables import Int64s

# Of fewer, one of two equal ranks is last in nearly all by chance.
_LEAST_MATCHED = 5
_Key = tuple[int, int]
_Attending = tuple[_Key, Subject]


def turns(profile: Profile) -> dict[_Key, Turns]:
    """Return the turns of each work of a rank, by its process and number; see `met`."""
    return met(_attending(profile), profile.processes, synchronization_events.part(profile))


def met(
    attending: Iterable[_Attending], processes: Sequence[Process], found: Meetings
) -> dict[_Key, Turns]:
    """Return the turns of works, each given by its process and number, and whose it is.

    Works of ranks of one job that are of one kind and name are compared. Where too few collectives
    were seen in several ranks there is nothing to compare.
    """
    works: dict[tuple[str, int], list[_Attending]] = {}
    for key, subject in attending:
        if subject.rank is not None:
            alike = f"{subject.kind} {subject.name}", processes[key[0]].group
            works.setdefault(alike, []).append((key, subject))
    told: dict[_Key, Turns] = {}
    for (name, _), group in works.items():
        told |= _of_group(processes, found, name, group)
    return told


def _attending(profile: Profile) -> Iterator[_Attending]:
    for work in profile.works:
        owner = profile.processes[work.process]
        yield (work.process, work.index), subject_of(owner, work.kind, work.name)


def _of_group(
    processes: Sequence[Process], found: Meetings, name: str, works: Sequence[_Attending]
) -> dict[_Key, Turns]:
    if name not in found.strings.values:
        return {}
    mine = found.work == found.strings.values.index(name)
    own = found.only(mine & np.isin(found.process, [key[0] for key, _ in works]))
    rows = own.only(own.kind == MeetingKind.COLLECTIVE)
    group = groups(np.stack((rows.step, rows.name.astype(np.int64), rows.nth)))
    process = rows.process.astype(np.int64)
    all_met, _ = on_one_clock(processes, lambda: own, group, process, rows.start_ns, rows.end_ns)
    by_process = _by_process(process, all_met, rows.end_ns - rows.start_ns)
    return {
        key: by_process[key[0]]
        for key, _ in works
        if key[0] in by_process and by_process[key[0]].matched >= _LEAST_MATCHED
    }


def _by_process(process: Int64s, all_met: Met, took_ns: Int64s) -> dict[int, Turns]:
    told = {}
    for each in np.unique(process[all_met.is_matched]).tolist():
        mine = (process == each) & all_met.is_matched
        matched, last = int(mine.sum()), int(all_met.is_last[mine].sum())
        waiting_ns = int((took_ns - all_met.moving_ns)[mine].sum())
        told[each] = Turns(matched, last / matched, waiting_ns / matched)
    return told
