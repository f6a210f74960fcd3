"""Tell which processes ran on one machine, and how their unix times differ there.

Processes of one boot of a machine share its clocks, whatever hosts they name: containers have names
of their own. Machines may share a name; that they are others shows in their boot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.errors import Missing
from tfprobe.model.profile import Process
from tfprobe.views.encounters import binding, meeting_groups
from tfprobe.views.meetings import MeetingKind, Meetings

# Both clocks of a process are read one after the other.
_READING_NS = 1_000


@dataclass(frozen=True, slots=True)
class Machines:
    """The machine of each process, from 0 on in the order of the processes; how far the unix times
    of a process are ahead of those of the first one there, and how wrong that may be.
    """

    machine: tuple[int, ...]
    shift_ns: tuple[int, ...]
    error_ns: tuple[int, ...]

    @property
    def count(self) -> int:
        return max(self.machine) + 1


def machine_key(process: Process) -> tuple[str, str]:
    """Return what tells the machine of a process from others."""
    boot = process.boot_id
    return ("host", process.host) if isinstance(boot, Missing) else ("boot", boot)


def machines_of(
    processes: Sequence[Process], meetings: Meetings, generation: Sequence[int]
) -> Machines:
    """Return the machines of processes.

    Processes of one boot read the same monotonic clock: what their unix times differ beside it is
    how they differ. But a wall clock may be set between the starts of two of them, and traces are
    told by the wall clock: where meetings contradict the shifts, there is none.
    """
    numbers: dict[tuple[str, str], int] = {}
    machine = [numbers.setdefault(machine_key(each), len(numbers)) for each in processes]
    firsts: dict[int, int] = {}
    told = []
    for each, at in zip(processes, machine, strict=True):
        shift = each.unix_minus_monotonic_ns
        is_known = not isinstance(shift, Missing) and not isinstance(each.boot_id, Missing)
        own = shift if is_known and isinstance(shift, int) else None
        told.append(0 if own is None else own - firsts.setdefault(at, own))
    agree = _agreeing(meetings, generation, machine, told)
    shift_ns = tuple(ns if agree[at] else 0 for ns, at in zip(told, machine, strict=True))
    error_ns = tuple(
        _READING_NS if agree[at] else abs(ns) + _READING_NS
        for ns, at in zip(told, machine, strict=True)
    )
    return Machines(tuple(machine), shift_ns, error_ns)


def _agreeing(
    meetings: Meetings, generation: Sequence[int], machine: Sequence[int], told: Sequence[int]
) -> list[bool]:
    """Say of each machine whether its processes meet no worse with their shifts than without."""
    count = max(machine) + 1
    if not any(told):
        return [True] * count
    chosen = meetings.only(binding(meetings) & (meetings.kind == MeetingKind.COLLECTIVE))
    of_row = np.array(machine, dtype=np.int64)[chosen.process]
    shift = np.array(told, dtype=np.int64)[chosen.process]
    group = meeting_groups(chosen, generation) * count + of_row
    _, group = np.unique(group, return_inverse=True)
    missed = []
    for offset in (shift, np.zeros_like(shift)):
        begun = np.full(int(group.max(initial=-1)) + 1, np.iinfo(np.int64).min)
        done = np.full(len(begun), np.iinfo(np.int64).max)
        np.maximum.at(begun, group, chosen.start_ns - offset)
        np.minimum.at(done, group, chosen.end_ns - offset)
        late_ns = np.maximum(begun - done, 0).astype(np.float64)
        at = np.zeros(len(begun), dtype=np.int64)
        at[group] = of_row
        missed.append(np.bincount(at, weights=late_ns, minlength=count))
    return [bool(each) for each in (missed[0] <= missed[1])]
