"""Gather what a process used of its machine while its steps ran, from its pulses."""

from __future__ import annotations

from collections.abc import Sequence

from tfprobe.advice.signals import Machine
from tfprobe.errors import Missing
from tfprobe.model.activities import Pulse
from tfprobe.model.profile import Profile
from tfprobe.views.memory.growth import Verdict
from tfprobe.views.memory.host import memory_of


def machine(profile: Profile, process: int) -> Machine | Missing:
    """Return what the pulses of a process tell of it."""
    pulses = sorted(
        (each for each in profile.pulses if each.process == process), key=lambda each: each.at_ns
    )
    if len(pulses) < 2:
        return Missing("there is no second look at what the process used of its machine")
    told = memory_of(profile.processes[process], pulses)
    memory = told or Missing("/proc did not tell how much memory the process had")
    growth = memory if isinstance(memory, Missing) else memory.growth
    known = not isinstance(growth, Missing)
    return Machine(
        cpus=_cpus(pulses[-1]),
        throttled_ns=_throttled_ns(pulses),
        resident_bytes=memory if isinstance(memory, Missing) else memory.in_steps_bytes,
        peak_bytes=memory if isinstance(memory, Missing) else memory.peak_bytes,
        limit_bytes=memory if isinstance(memory, Missing) else memory.limit_bytes,
        growth_bytes_per_step=growth if isinstance(growth, Missing) else growth.bytes_per_step,
        grows=known and not isinstance(growth, Missing) and growth.verdict is Verdict.GROWING,
        watched_steps=0 if isinstance(growth, Missing) else growth.last_step - growth.first_step,
        steps=pulses[-1].steps,
    )


def _cpus(pulse: Pulse) -> float | Missing:
    """Return the CPUs there are for the process: by affinity, or fewer by its cgroup."""
    numbers = [each for each in (pulse.cpus, pulse.cpu_limit) if not isinstance(each, Missing)]
    return float(min(numbers)) if numbers else Missing("nobody told how many CPUs there are")


def _throttled_ns(pulses: Sequence[Pulse]) -> int | Missing:
    first, last = pulses[0].throttled_ns, pulses[-1].throttled_ns
    if isinstance(first, Missing) or isinstance(last, Missing):
        return Missing("the cgroup did not tell how long it held the process back")
    return max(last - first, 0)
