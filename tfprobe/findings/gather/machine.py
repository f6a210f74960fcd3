"""Gather what a process used of its machine while its steps ran, from its pulses."""

from __future__ import annotations

from collections.abc import Sequence

from tfprobe.analysis.memory.host_memory import Verdict, memory_of
from tfprobe.errors import Missing
from tfprobe.findings.signals import Machine
from tfprobe.profile.activities import Pulse
from tfprobe.profile.profile import Profile

_NS_PER_S = 1_000_000_000


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
        used_cpus=_used_cpus(pulses),
        switches_per_s=_switches_per_s(pulses),
    )


def _cpus(pulse: Pulse) -> float | Missing:
    """Return the CPUs there are for the process: by affinity, or fewer by its cgroup."""
    numbers = [each for each in (pulse.cpus, pulse.cpu_limit) if not isinstance(each, Missing)]
    return float(min(numbers)) if numbers else Missing("nobody told how many CPUs there are")


def _used_cpus(pulses: Sequence[Pulse]) -> float | Missing:
    before_ns, after_ns = _cpu_ns(pulses[0]), _cpu_ns(pulses[-1])
    wall_ns = pulses[-1].at_ns - pulses[0].at_ns
    if isinstance(before_ns, Missing) or isinstance(after_ns, Missing) or wall_ns <= 0:
        return Missing("nobody told how long its threads ran")
    return (after_ns - before_ns) / wall_ns


def _switches_per_s(pulses: Sequence[Pulse]) -> float | Missing:
    before, after = _switches(pulses[0]), _switches(pulses[-1])
    wall_ns = pulses[-1].at_ns - pulses[0].at_ns
    if isinstance(before, Missing) or isinstance(after, Missing) or wall_ns <= 0:
        return Missing("nobody told how often its threads took turns")
    return (after - before) / wall_ns * _NS_PER_S


def _switches(pulse: Pulse) -> int | Missing:
    numbers = pulse.voluntary_switches, pulse.involuntary_switches
    if isinstance(numbers[0], Missing) or isinstance(numbers[1], Missing):
        return Missing("nobody told how often its threads took turns")
    return numbers[0] + numbers[1]


def _cpu_ns(pulse: Pulse) -> int | Missing:
    if isinstance(pulse.user_ns, Missing) or isinstance(pulse.system_ns, Missing):
        return Missing("nobody told how long its threads ran")
    return pulse.user_ns + pulse.system_ns


def _throttled_ns(pulses: Sequence[Pulse]) -> int | Missing:
    first, last = pulses[0].throttled_ns, pulses[-1].throttled_ns
    if isinstance(first, Missing) or isinstance(last, Missing):
        return Missing("the cgroup did not tell how long it held the process back")
    return max(last - first, 0)
