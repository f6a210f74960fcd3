"""Gather what a process used of its machine while its steps ran, from its pulses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tfprobe.advice.signals import Machine
from tfprobe.errors import Missing
from tfprobe.model.activities import Pulse
from tfprobe.model.profile import Profile

# With fewer there is no telling a trend from a start.
_LEAST_PULSES = 6
_NS_PER_S = 1e9
Floats = npt.NDArray[np.float64]


def machine(profile: Profile, process: int) -> Machine | Missing:
    """Return what the pulses of a process tell of it."""
    pulses = sorted(
        (each for each in profile.pulses if each.process == process), key=lambda each: each.at_ns
    )
    if len(pulses) < 2:
        return Missing("there is no second look at what the process used of its machine")
    first, last = pulses[0], pulses[-1]
    resident = _known(pulses, lambda each: each.resident_bytes)
    growth, steady = _growth(pulses)
    return Machine(
        cpus=_cpus(last),
        throttled_ns=_difference(first.throttled_ns, last.throttled_ns),
        observed_ns=last.at_ns - first.at_ns,
        involuntary_switches_per_s=_rate(pulses),
        resident_bytes=resident[-1] if resident else Missing("/proc did not tell"),
        first_resident_bytes=resident[len(resident) // 2] if resident else Missing("unknown"),
        peak_bytes=last.peak_resident_bytes,
        limit_bytes=_least(last.memory_limit_bytes, last.machine_memory_bytes),
        growth_bytes_per_step=growth,
        steady_ratio=steady,
        steps=last.steps,
    )


def _known(pulses: Sequence[Pulse], of: Callable[[Pulse], int | Missing]) -> list[int]:
    return [value for each in pulses if isinstance(value := of(each), int)]


def _cpus(pulse: Pulse) -> float | Missing:
    """Return the CPUs there are for the process: by affinity, or fewer by its cgroup."""
    numbers = [each for each in (pulse.cpus, pulse.cpu_limit) if not isinstance(each, Missing)]
    return float(min(numbers)) if numbers else Missing("nobody told how many CPUs there are")


def _least(*sizes: int | Missing) -> int | Missing:
    known = [each for each in sizes if not isinstance(each, Missing) and each > 0]
    return min(known) if known else Missing("nobody told how much memory there is")


def _difference(first: int | Missing, last: int | Missing) -> int | Missing:
    if isinstance(first, Missing) or isinstance(last, Missing):
        return Missing("the cgroup did not tell how long it held the process back")
    return max(last - first, 0)


def _rate(pulses: Sequence[Pulse]) -> float | Missing:
    first, last = pulses[0], pulses[-1]
    switches = _difference(first.involuntary_switches, last.involuntary_switches)
    if isinstance(switches, Missing) or last.at_ns <= first.at_ns:
        return Missing("/proc did not tell of context switches")
    return switches / ((last.at_ns - first.at_ns) / _NS_PER_S)


def _growth(pulses: Sequence[Pulse]) -> tuple[float | Missing, float]:
    """Return the slope of resident memory over steps in the later half, and how steady it is.

    The slope is Theil and Sen's, the median of the slopes between all pairs.
    """
    later = [each for each in pulses[len(pulses) // 2 :] if isinstance(each.resident_bytes, int)]
    steps = np.array([each.steps for each in later], dtype=np.float64)
    sizes = np.array([each.resident_bytes for each in later], dtype=np.float64)
    if len(later) < _LEAST_PULSES or steps[-1] <= steps[0]:
        return Missing("there are too few looks at the memory of the process"), 0.0
    low, high = np.triu_indices(len(steps), 1)
    apart = steps[high] > steps[low]
    slopes = (sizes[high] - sizes[low])[apart] / (steps[high] - steps[low])[apart]
    return float(np.median(slopes)), _rank_correlation(sizes)


def _rank_correlation(values: Floats) -> float:
    """Return Kendall's tau of values with their order: 1 where each is above the one before."""
    low, high = np.triu_indices(len(values), 1)
    signs = np.sign(values[high] - values[low])
    return float(signs.mean())
