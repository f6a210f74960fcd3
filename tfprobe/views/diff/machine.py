"""What the processor did for a process while it ran steps: by this a slow machine is recognized."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.errors import Missing
from tfprobe.model.activities import Pulse
from tfprobe.model.profile import Profile, Work
from tfprobe.views.diff.compare import Level

# The first resource sample is of the first step, so what lies before the second is starting up.
_LEAST_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class Processor:
    """What a step of a process took, from its second resource sample to its last, in ns.

    `cpu_ns` is CPU time of all threads; `waited_ns` is how long the first thread was ready to run
    and had no CPU, and what the hypervisor took of a CPU; `others_cpus` is how many CPUs were busy
    with other processes.
    """

    wall_ns: float
    cpu_ns: float | Missing
    waited_ns: float | Missing
    others_cpus: float | Missing


def processor(profile: Profile, work: Work) -> Processor | Missing:
    """Return what the resource samples of a loop's process say, or why they say nothing."""
    samples = [
        pulse for pulse in profile.pulses if pulse.process == work.process and not pulse.at_exit
    ]
    if len(samples) < _LEAST_SAMPLES:
        return Missing("the run is too short for resource samples")
    first, last = _ends(samples)
    steps, wall_ns = last.steps - first.steps, last.at_ns - first.at_ns
    if steps <= 0 or wall_ns <= 0:
        return Missing("no step ended between two resource samples")
    cpu_ns = _sum(_grown(first.user_ns, last.user_ns), _grown(first.system_ns, last.system_ns))
    waited_ns = _grown(first.run_delay_ns, last.run_delay_ns)
    busy_ns = _grown(first.machine_busy_ns, last.machine_busy_ns)
    return Processor(
        wall_ns=wall_ns / steps,
        cpu_ns=_over(cpu_ns, steps),
        waited_ns=_over(_sum(waited_ns, _stolen_ns(first, last)), steps),
        others_cpus=_over(_sum(busy_ns, _negative(cpu_ns)), wall_ns),
    )


def fast_cpu_ns(profile: Profile, work: Work) -> float | Missing:
    """Return the CPU time of a step that a tenth of the intervals between samples stay below.

    Whoever shares a CPU or its caches only makes it more.
    """
    samples = [
        pulse for pulse in profile.pulses if pulse.process == work.process and not pulse.at_exit
    ]
    rates_ns = []
    for first, last in itertools.pairwise(samples[1:]):
        cpu_ns = _sum(_grown(first.user_ns, last.user_ns), _grown(first.system_ns, last.system_ns))
        steps = last.steps - first.steps
        if steps > 0 and not isinstance(cpu_ns, Missing) and cpu_ns > 0:
            rates_ns.append(cpu_ns / steps)
    if not rates_ns:
        return Missing("no step ended between two resource samples that tell CPU time")
    return float(np.quantile(rates_ns, Level.FAST.value or 0.0))


def _ends(samples: Sequence[Pulse]) -> tuple[Pulse, Pulse]:
    """Return the second sample and the last; of a slow /proc/stat those that have it."""
    usable = [each for each in samples[1:] if not isinstance(each.machine_busy_ns, Missing)]
    chosen = usable if len(usable) > 1 else samples[1:]
    return chosen[0], chosen[-1]


def _stolen_ns(first: Pulse, last: Pulse) -> float | Missing:
    """Return what the hypervisor took of each CPU; nothing where the system does not tell."""
    stolen_ns = _grown(first.machine_steal_ns, last.machine_steal_ns)
    cpus = 1 if isinstance(last.cpus, Missing) else max(last.cpus, 1)
    return 0.0 if isinstance(stolen_ns, Missing) else stolen_ns / cpus


def _grown(first: int | Missing, last: int | Missing) -> float | Missing:
    if isinstance(first, Missing):
        return first
    return last if isinstance(last, Missing) else float(max(last - first, 0))


def _sum(one: float | Missing, other: float | Missing) -> float | Missing:
    if isinstance(one, Missing):
        return one
    return other if isinstance(other, Missing) else one + other


def _negative(value: float | Missing) -> float | Missing:
    return value if isinstance(value, Missing) else -value


def _over(value: float | Missing, divisor: int) -> float | Missing:
    return value if isinstance(value, Missing) else max(value / divisor, 0.0)
