"""Follow the memory of processes on their host: resident, peak, limit and growth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.errors import Missing
from tfprobe.model.activities import Pulse
from tfprobe.model.profile import Process, Profile
from tfprobe.model.tables import Int64s
from tfprobe.views.memory.growth import Growth, growth

NO_PULSES = Missing(
    "no process of this recording was measured, which the agent does while steps run, at most once "
    "a second"
)
_AT_EXIT = Missing("it was measured at its exit alone")


@dataclass(frozen=True, slots=True)
class HostMemory:
    """The resident memory of a process: measured at `at_ns` (unix), after so many `steps`.

    `in_steps_bytes` is what it held as the last step began that was measured, before it gave back
    what steps kept. `limit_bytes` is the smaller of the cgroup's and the machine's.
    """

    process: Process
    at_ns: Int64s
    steps: Int64s
    resident_bytes: Int64s
    in_steps_bytes: int | Missing
    peak_bytes: int
    limit_bytes: int | Missing
    growth: Growth | Missing

    @property
    def used_ratio(self) -> float | Missing:
        """Return how much of its limit the process had at its peak."""
        if isinstance(self.limit_bytes, Missing):
            return self.limit_bytes
        return self.peak_bytes / self.limit_bytes


def host_memory(profile: Profile) -> tuple[HostMemory, ...] | Missing:
    """Return the memory of each process of which there are measurements."""
    pulses: dict[int | None, list[Pulse]] = {}
    for pulse in profile.pulses:
        pulses.setdefault(pulse.process, []).append(pulse)
    every = (memory_of(each, pulses.get(each.index, ())) for each in profile.processes)
    return tuple(each for each in every if each is not None) or NO_PULSES


def memory_of(process: Process, pulses: Sequence[Pulse]) -> HostMemory | None:
    """Return the memory of one process by its pulses, None where they tell nothing of it."""
    told = [
        (each.at_ns, each.steps, each.resident_bytes, each.at_exit)
        for each in sorted(pulses, key=lambda pulse: pulse.at_ns)
        if not isinstance(each.resident_bytes, Missing)
    ]
    if not told:
        return None
    at_ns, steps, resident_bytes, at_exit = np.array(told, dtype=np.int64).T
    in_steps = at_exit == 0
    peaks = [each.peak_resident_bytes for each in pulses]
    known = [each for each in peaks if not isinstance(each, Missing)]
    limits = [
        limit
        for each in pulses
        for limit in (each.memory_limit_bytes, each.machine_memory_bytes)
        if not isinstance(limit, Missing) and limit > 0
    ]
    none = Missing("neither the cgroup nor the machine told how much memory there is")
    return HostMemory(
        process=process,
        at_ns=at_ns,
        steps=steps,
        resident_bytes=resident_bytes,
        in_steps_bytes=int(resident_bytes[in_steps][-1]) if in_steps.any() else _AT_EXIT,
        peak_bytes=max([int(resident_bytes.max()), *known]),
        limit_bytes=min(limits) if limits else none,
        growth=growth(steps[in_steps], resident_bytes[in_steps]),
    )
