"""Describe the memory of processes on their host: resident, peak, limit and growth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from tfprobe.errors import Missing
from tfprobe.profile.activities import ResourceSample
from tfprobe.profile.profile import Process, Profile
from tfprobe.profile.tables import Int64s

NO_RESOURCE_SAMPLES = Missing(
    "no process of this recording was sampled; the agent takes a resource sample while steps run, "
    "at most once a second"
)
_AT_EXIT = Missing("it was only sampled at exit")


@dataclass(frozen=True, slots=True)
class HostMemory:
    """The resident memory of a process, measured at `at_ns` (unix), after `steps` steps.

    `in_steps_bytes` is the last measurement that was not taken at exit, when memory may have been
    freed. `limit_bytes` is the smaller of the cgroup's and the machine's.
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
        """Return the peak as a share of the limit."""
        if isinstance(self.limit_bytes, Missing):
            return self.limit_bytes
        return self.peak_bytes / self.limit_bytes


def host_memory(profile: Profile) -> tuple[HostMemory, ...] | Missing:
    """Return the memory of each process that was measured."""
    resource_samples: dict[int | None, list[ResourceSample]] = {}
    for resource_sample in profile.resource_samples:
        resource_samples.setdefault(resource_sample.process, []).append(resource_sample)
    every = (
        memory_of(process, resource_samples.get(process.index, ())) for process in profile.processes
    )
    return tuple(memory for memory in every if memory is not None) or NO_RESOURCE_SAMPLES


def memory_of(process: Process, resource_samples: Sequence[ResourceSample]) -> HostMemory | None:
    """Return the memory of one process from its resource samples, None if none has it."""
    measured = [
        (sample.at_ns, sample.steps, sample.resident_bytes, sample.at_exit)
        for sample in sorted(resource_samples, key=lambda resource_sample: resource_sample.at_ns)
        if not isinstance(sample.resident_bytes, Missing)
    ]
    if not measured:
        return None
    at_ns, steps, resident_bytes, at_exit = np.array(measured, dtype=np.int64).T
    in_steps = at_exit == 0
    peaks = [sample.peak_resident_bytes for sample in resource_samples]
    known = [peak for peak in peaks if not isinstance(peak, Missing)]
    limits = [
        limit
        for sample in resource_samples
        for limit in (sample.memory_limit_bytes, sample.machine_memory_bytes)
        if not isinstance(limit, Missing) and limit > 0
    ]
    none = Missing("neither the cgroup nor the machine reports the amount of memory")
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


# Fewer do not show what happens after the warm-up.
LEAST_POINTS = 8
# The number of pairs grows with the square; medians of neighbours are as good.
_MOST_POINTS = 200
# At first a job allocates what it keeps: pools, plans, traces. Growth in the last half of the steps
# has another cause.
_WARM_UP_RATIO = 0.5
# Growth whose slope falls below this part of the average one is coming to an end.
_GOES_ON_RATIO = 1 / 3
# 99 of 100 intervals contain the true slope if the points are independent.
_Z = 2.576
# Pages and pools fluctuate by this much: a loop of TensorFlow 1.15 without a leak grew by 1.1 %
# over the last half of its 1100 steps, as its threads took turns.
LEAST_GROWTH_BYTES = 2**20
_LEAST_GROWTH_RATIO = 0.02


class GrowthVerdict(Enum):
    """How a series of sizes develops. The value is its name in documents."""

    GROWING = "growing"
    WARMING_UP = "warming_up"
    STEADY = "steady"


@dataclass(frozen=True, slots=True)
class Growth:
    """How a size changes with steps after the warm-up, in bytes per step.

    The true slope lies between `low` and `high` with a probability of 99 %. It was computed from
    `points` points from `first_step` on.
    """

    verdict: GrowthVerdict
    bytes_per_step: float
    low: float
    high: float
    points: int
    first_step: int
    last_step: int


def _counted(count: int) -> str:
    return "1 was" if count == 1 else f"{count} were"


def growth(steps: Int64s, size_bytes: Int64s) -> Growth | Missing:
    """Return how sizes grow with steps, or why that is unknown; both are in order of time."""
    if not len(steps) or steps[-1] <= steps[0]:
        return Missing("there are no measurements at different steps")
    start = steps[0] + (steps[-1] - steps[0]) * _WARM_UP_RATIO
    late = steps >= start
    if int(late.sum()) < LEAST_POINTS:
        return Missing(
            f"it takes {LEAST_POINTS} measurements in the last half of the steps to tell a leak "
            f"from a warm-up; {_counted(int(late.sum()))} taken"
        )
    x, y = _thinned(steps[late], size_bytes[late])
    slope, low, high = _slope(x, y)
    return Growth(
        verdict=_verdict(int(size_bytes[0]), x, y, slope, low),
        bytes_per_step=slope,
        low=low,
        high=high,
        points=len(x),
        first_step=int(steps[late][0]),
        last_step=int(steps[-1]),
    )


_Floats = npt.NDArray[np.float64]


def _verdict(first_bytes: int, x: _Floats, y: _Floats, slope: float, low: float) -> GrowthVerdict:
    least_bytes = max(LEAST_GROWTH_BYTES, _LEAST_GROWTH_RATIO * float(np.median(y)))
    grows = low > 0 and slope * (x[-1] - x[0]) >= least_bytes
    half = len(x) // 2
    if grows and _slope(x[half:], y[half:])[0] >= slope * _GOES_ON_RATIO:
        return GrowthVerdict.GROWING
    whole_bytes = float(np.median(y)) - first_bytes
    return GrowthVerdict.WARMING_UP if grows or whole_bytes >= least_bytes else GrowthVerdict.STEADY


def _thinned(steps: Int64s, size_bytes: Int64s) -> tuple[_Floats, _Floats]:
    """Return at most _MOST_POINTS points, medians of neighbours."""
    parts = np.array_split(np.arange(len(steps)), min(len(steps), _MOST_POINTS))
    x = np.array([np.median(steps[part]) for part in parts], dtype=np.float64)
    y = np.array([np.median(size_bytes[part]) for part in parts], dtype=np.float64)
    return x, y


def _slope(x: _Floats, y: _Floats) -> tuple[float, float, float]:
    """Return the median slope of all pairs of points (Theil-Sen), and its bounds."""
    one, other = np.triu_indices(len(x), k=1)
    run = x[other] - x[one]
    slopes = np.sort((y[other] - y[one])[run > 0] / run[run > 0])
    if not len(slopes):
        return 0.0, 0.0, 0.0
    count = len(x)
    spread = _Z * np.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = int(np.clip((len(slopes) - spread) / 2, 0, len(slopes) - 1))
    high = int(np.clip((len(slopes) + spread) / 2, 0, len(slopes) - 1))
    return float(np.median(slopes)), float(slopes[low]), float(slopes[high])
