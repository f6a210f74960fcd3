"""Sum up what a process used of its machine while its steps ran: CPUs and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfprobe.analysis.memory.host_memory import Growth, memory_of
from tfprobe.errors import Missing
from tfprobe.profile.activities import ResourceSample
from tfprobe.profile.profile import Profile

_NS_PER_S = 1_000_000_000
_NOT_MEASURED = Missing("it was not measured")


@dataclass(frozen=True, slots=True)
class MachineUse:
    """What a process used of its machine while its steps ran.

    `used_cpus` is how many CPUs it kept busy on average, of the `cpus` it may use, and
    `others_cpus` how many other processes of the machine and the hypervisor did. `switches_per_s`
    counts how often its threads gave up or lost a CPU.
    """

    cpus: float | Missing
    throttled_ns: int | Missing
    resident_bytes: int | Missing
    peak_bytes: int | Missing
    limit_bytes: int | Missing
    growth: Growth | Missing
    steps: int
    used_cpus: float | Missing = _NOT_MEASURED
    switches_per_s: float | Missing = _NOT_MEASURED
    others_cpus: float | Missing = _NOT_MEASURED


def machine_use(profile: Profile, process: int) -> MachineUse | Missing:
    """Return what the resource samples of a process say."""
    resource_samples = sorted(
        (sample for sample in profile.resource_samples if sample.process == process),
        key=lambda sample: sample.at_ns,
    )
    if len(resource_samples) < 2:
        return Missing("there is only one resource sample of the process")
    known = memory_of(profile.processes[process], resource_samples)
    memory = known or Missing("/proc has no memory data of the process")
    return MachineUse(
        cpus=_cpus(resource_samples[-1]),
        throttled_ns=_throttled_ns(resource_samples),
        resident_bytes=memory if isinstance(memory, Missing) else memory.in_steps_bytes,
        peak_bytes=memory if isinstance(memory, Missing) else memory.peak_bytes,
        limit_bytes=memory if isinstance(memory, Missing) else memory.limit_bytes,
        growth=memory if isinstance(memory, Missing) else memory.growth,
        steps=resource_samples[-1].steps,
        used_cpus=_used_cpus(resource_samples),
        switches_per_s=_switches_per_s(resource_samples),
        others_cpus=others_cpus(resource_samples),
    )


def _cpus(resource_sample: ResourceSample) -> float | Missing:
    """Return the number of CPUs the process may use: by its affinity, or less by its cgroup."""
    limits = (resource_sample.cpus, resource_sample.cpu_limit)
    known = [limit for limit in limits if not isinstance(limit, Missing)]
    return float(min(known)) if known else Missing("the number of CPUs is unknown")


def _used_cpus(resource_samples: Sequence[ResourceSample]) -> float | Missing:
    before_ns, after_ns = _cpu_ns(resource_samples[0]), _cpu_ns(resource_samples[-1])
    wall_ns = resource_samples[-1].at_ns - resource_samples[0].at_ns
    if isinstance(before_ns, Missing) or isinstance(after_ns, Missing) or wall_ns <= 0:
        return Missing("the CPU time of its threads is unknown")
    return (after_ns - before_ns) / wall_ns


def others_cpus(resource_samples: Sequence[ResourceSample]) -> float | Missing:
    """Return how many CPUs of the machine others kept busy, on average: processes, a hypervisor.

    `resource_samples` are those of one process, by time.
    """
    known = [
        (resource_sample.at_ns, used_ns)
        for resource_sample in resource_samples
        if not isinstance(used_ns := _others_ns(resource_sample), Missing)
    ]
    if len(known) < 2 or known[-1][0] <= known[0][0]:
        return Missing("how busy the machine was is unknown")
    (first_ns, before_ns), (last_ns, after_ns) = known[0], known[-1]
    return max(after_ns - before_ns, 0) / (last_ns - first_ns)


def _others_ns(resource_sample: ResourceSample) -> int | Missing:
    """Return the time of all CPUs since boot that was not idle, without that of the process."""
    busy_ns, stolen_ns = resource_sample.machine_busy_ns, resource_sample.machine_steal_ns
    own_ns = _cpu_ns(resource_sample)
    if (
        isinstance(busy_ns, Missing)
        or isinstance(stolen_ns, Missing)
        or isinstance(own_ns, Missing)
    ):
        return Missing("how busy the machine was is unknown")
    return busy_ns + stolen_ns - own_ns


def _switches_per_s(resource_samples: Sequence[ResourceSample]) -> float | Missing:
    before, after = _switches(resource_samples[0]), _switches(resource_samples[-1])
    wall_ns = resource_samples[-1].at_ns - resource_samples[0].at_ns
    if isinstance(before, Missing) or isinstance(after, Missing) or wall_ns <= 0:
        return Missing("the number of context switches is unknown")
    return (after - before) / wall_ns * _NS_PER_S


def _switches(resource_sample: ResourceSample) -> int | Missing:
    numbers = resource_sample.voluntary_switches, resource_sample.involuntary_switches
    if isinstance(numbers[0], Missing) or isinstance(numbers[1], Missing):
        return Missing("the number of context switches is unknown")
    return numbers[0] + numbers[1]


def _cpu_ns(resource_sample: ResourceSample) -> int | Missing:
    if isinstance(resource_sample.user_ns, Missing) or isinstance(
        resource_sample.system_ns, Missing
    ):
        return Missing("the CPU time of its threads is unknown")
    return resource_sample.user_ns + resource_sample.system_ns


def _throttled_ns(resource_samples: Sequence[ResourceSample]) -> int | Missing:
    first, last = resource_samples[0].throttled_ns, resource_samples[-1].throttled_ns
    if isinstance(first, Missing) or isinstance(last, Missing):
        return Missing("the cgroup has no throttling data")
    return max(last - first, 0)
