"""Arrange synchronization events by machine: which took part, when the last process of each began
and when the first was done.

Only events that bound the clocks of their members are used: collectives that need all of them, and
tensors that one process sends and one other receives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.core.collective_ops import binds_all
from tfprobe.analysis.distributed.synchronization_events import (
    SynchronizationEvents,
    SynchronizationKind,
    alike_in_all_ranks,
    groups,
    in_several,
)
from tfprobe.errors import Missing
from tfprobe.profile.profile import Process
from tfprobe.profile.tables import Flags, Int64s

Floats = npt.NDArray[np.float64]

# 160 MB per column. Of more events, every second, third ... is enough.
_MOST_CELLS = 20_000_000


@dataclass(frozen=True, slots=True)
class MachineEvents:
    """When each machine was in each event; NaN if it took no part.

    A row is an event, a column a machine: `begun_ns` is when the last process of the machine began
    it, `done_ns` when the first was done, `end_ns` the mean of their ends. A send has no `done_ns`,
    a receive no `begun_ns`, and neither has an `end_ns`. `step` is the number of its step among
    all. Times are relative to `base_ns`, each by the clock of its machine.
    """

    base_ns: int
    begun_ns: Floats
    done_ns: Floats
    end_ns: Floats
    step: Int64s

    @property
    def seen(self) -> Flags:
        """Say which machines took part in which events."""
        return ~(np.isnan(self.begun_ns) & np.isnan(self.done_ns))

    def moments_ns(self, ahead_ns: Floats) -> Floats:
        """Return the approximate time of each event, with the clocks set back by `ahead_ns`."""
        times_ns = np.where(np.isnan(self.done_ns), self.begun_ns, self.done_ns) - ahead_ns
        count = np.maximum((~np.isnan(times_ns)).sum(axis=1), 1)
        found: Floats = np.nansum(times_ns, axis=1) / count
        return found


def binding(events: SynchronizationEvents) -> Flags:
    """Say which events bound the clocks of their members."""
    texts = events.strings.values
    of_all = np.array([binds_all(text) for text in texts], dtype=np.bool_)
    is_collective = events.kind == SynchronizationKind.COLLECTIVE
    found: Flags = ~is_collective | of_all[events.op]
    return found


def event_groups(events: SynchronizationEvents, generation: Sequence[int]) -> Int64s:
    """Return a number from 0 on for each execution, the same for all of one event.

    `generation` is that of each process: a process that was started again counts its steps again.
    """
    is_collective = events.kind == SynchronizationKind.COLLECTIVE
    # A send has another name than its receive, and may be in another loop.
    within = np.stack(
        (
            is_collective.astype(np.int64),
            np.where(is_collective, events.loop, 0),
            events.step,
            np.array(generation, dtype=np.int64)[events.process],
        )
    )
    return groups(
        alike_in_all_ranks(
            within,
            name=np.where(is_collective, events.name, events.key).astype(np.int64),
            nth=events.nth,
            collective=events.collective.astype(np.int64),
            part=events.part,
        )
    )


def machine_events(
    events: SynchronizationEvents,
    generation: Sequence[int],
    machine: Sequence[int],
    shift_ns: Sequence[int],
) -> MachineEvents:
    """Return the events of several machines. `machine` is that of each process, from 0 on, and
    `shift_ns` how far its clock is ahead of its machine's.
    """
    machines = max(machine, default=-1) + 1
    group = event_groups(events, generation)
    of_row = np.array(machine, dtype=np.int64)[events.process]
    kept = binding(events) & _is_clear(events, group) & in_several(group, of_row)
    kept &= _few_enough(group, kept, machines)
    chosen = np.flatnonzero(kept)
    numbers, row = np.unique(group[chosen], return_inverse=True)
    shift = np.array(shift_ns, dtype=np.int64)[events.process[chosen]]
    start_ns, end_ns = events.start_ns[chosen] - shift, events.end_ns[chosen] - shift
    base_ns = int(start_ns.min(initial=np.iinfo(np.int64).max)) if len(chosen) else 0
    cell = row.reshape(-1) * machines + of_row[chosen]
    shape = len(numbers), machines
    kind = events.kind[chosen]
    begins, ends = kind != SynchronizationKind.RECV, kind != SynchronizationKind.SEND
    joint = kind == SynchronizationKind.COLLECTIVE
    step = np.empty(len(numbers), dtype=np.int64)
    step[row.reshape(-1)] = _steps(events)[chosen]
    return MachineEvents(
        base_ns=base_ns,
        begun_ns=_reduced(np.maximum, cell[begins], start_ns[begins] - base_ns, shape),
        done_ns=_reduced(np.minimum, cell[ends], end_ns[ends] - base_ns, shape),
        end_ns=_mean(cell[joint], end_ns[joint] - base_ns, shape),
        step=step,
    )


def _is_clear(events: SynchronizationEvents, group: Int64s) -> Flags:
    """Say which rows are of collectives, or of tensors that one process sends to one other.

    Ranks run the same program: each may send a tensor of this name between its own devices.
    """
    count = int(group.max(initial=-1)) + 1
    ends = []
    for kind in (SynchronizationKind.SEND, SynchronizationKind.RECV):
        mine = events.kind == kind
        low = np.full(count, np.iinfo(np.int64).max)
        high = np.full(count, -1, dtype=np.int64)
        np.minimum.at(low, group[mine], events.process[mine].astype(np.int64))
        np.maximum.at(high, group[mine], events.process[mine].astype(np.int64))
        ends.append(np.where(low == high, low, -1))
    one_way = (ends[0] >= 0) & (ends[1] >= 0) & (ends[0] != ends[1])
    found: Flags = (events.kind == SynchronizationKind.COLLECTIVE) | one_way[group]
    return found


def _few_enough(group: Int64s, kept: Flags, machines: int) -> Flags:
    count = len(np.unique(group[kept]))
    every = -(-count * machines // _MOST_CELLS) if count else 1
    found: Flags = group % max(every, 1) == 0
    return found


def _steps(events: SynchronizationEvents) -> Int64s:
    return groups(np.stack((events.loop.astype(np.int64), events.step)))


def _reduced(by: np.ufunc, cell: Int64s, times_ns: Int64s, shape: tuple[int, int]) -> Floats:
    """Return the largest or smallest time of each cell, NaN if there is none."""
    nothing = -np.inf if by is np.maximum else np.inf
    found = np.full(shape[0] * shape[1], nothing)
    by.at(found, cell, times_ns.astype(np.float64))
    found[np.isinf(found)] = np.nan
    return found.reshape(shape)


def _mean(cell: Int64s, times_ns: Int64s, shape: tuple[int, int]) -> Floats:
    size = shape[0] * shape[1]
    count = np.bincount(cell, minlength=size)
    total = np.bincount(cell, weights=times_ns.astype(np.float64), minlength=size)
    found: Floats = np.where(count > 0, total / np.maximum(count, 1), np.nan).reshape(shape)
    return found


# The two clocks of a process are read one after the other.
_READING_NS = 1_000


@dataclass(frozen=True, slots=True)
class Machines:
    """The machine of each process, from 0 on in the order of the processes; how far its unix times
    are ahead of those of the first process there, and the largest error of that.
    """

    machine: tuple[int, ...]
    shift_ns: tuple[int, ...]
    error_ns: tuple[int, ...]

    @property
    def count(self) -> int:
        return max(self.machine) + 1


def machine_key(process: Process) -> tuple[str, str]:
    """Return what identifies the machine of a process."""
    boot = process.boot_id
    return ("host", process.host) if isinstance(boot, Missing) else ("boot", boot)


def machines_of(
    processes: Sequence[Process], events: SynchronizationEvents, generation: Sequence[int]
) -> Machines:
    """Return the machines of processes.

    Processes of one boot read the same monotonic clock, by which their unix times are compared. But
    the wall clock may be set between the starts of two of them, and traces use the wall clock: if
    events contradict the shifts, there are none.
    """
    numbers: dict[tuple[str, str], int] = {}
    machine = [numbers.setdefault(machine_key(process), len(numbers)) for process in processes]
    firsts: dict[int, int] = {}
    wall_shift_ns = []
    for process, at in zip(processes, machine, strict=True):
        shift = process.unix_minus_monotonic_ns
        is_known = not isinstance(shift, Missing) and not isinstance(process.boot_id, Missing)
        own = shift if is_known and isinstance(shift, int) else None
        wall_shift_ns.append(0 if own is None else own - firsts.setdefault(at, own))
    agree = _agreeing(events, generation, machine, wall_shift_ns)
    shift_ns = tuple(ns if agree[at] else 0 for ns, at in zip(wall_shift_ns, machine, strict=True))
    error_ns = tuple(
        _READING_NS if agree[at] else abs(ns) + _READING_NS
        for ns, at in zip(wall_shift_ns, machine, strict=True)
    )
    return Machines(tuple(machine), shift_ns, error_ns)


def _agreeing(
    events: SynchronizationEvents,
    generation: Sequence[int],
    machine: Sequence[int],
    wall_shift_ns: Sequence[int],
) -> list[bool]:
    """Say for each machine whether its events agree with the shifts at least as well as without."""
    count = max(machine) + 1
    if not any(wall_shift_ns):
        return [True] * count
    chosen = events.only(binding(events) & (events.kind == SynchronizationKind.COLLECTIVE))
    of_row = np.array(machine, dtype=np.int64)[chosen.process]
    shift = np.array(wall_shift_ns, dtype=np.int64)[chosen.process]
    group = event_groups(chosen, generation) * count + of_row
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
