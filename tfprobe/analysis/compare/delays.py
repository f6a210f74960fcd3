"""Whether a part of a job is on its critical path: the slope of a unit's time over a delay of it.

A part that is slowed down by d makes each unit d longer if everything waits for it (slope 1), and
no longer while something else takes the time (slope 0). The time of a unit is convex in the time of
a part, so what is saved in the part saves at most slope x its share of a unit. That is a bound,
measured, for parts that no fix reaches.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.compare.several_runs import quantile
from tfprobe.analysis.compare.trials import Interval
from tfprobe.errors import Missing

# Above this slope, most of what is saved in a part is won; if the whole interval lies below the
# other one, next to nothing.
CRITICAL_SLOPE = 0.5
SLACK_SLOPE = 0.25


class Criticality(Enum):
    """What a delay says of a part. The value is its word in documents and texts."""

    CRITICAL = "critical"
    PARTLY = "partly critical"
    SLACK = "slack"
    UNKNOWN = "cannot be told"
    NOT_APPLIED = "not applied"


@dataclass(frozen=True, slots=True)
class DelayMarks:
    """What a part and its delays took so far in one process, and when: arrays of one length."""

    mono_ns: npt.NDArray[np.int64]
    part_ns: npt.NDArray[np.int64]
    delay_ns: npt.NDArray[np.int64]

    def between(self, first_ns: int, last_ns: int) -> tuple[float, float]:
        """Return the time of the part and of its delays from `first_ns` to `last_ns`, in ns."""
        edges = [first_ns, last_ns]
        return tuple(
            float(np.diff(np.interp(edges, self.mono_ns, column, left=0.0))[0])
            for column in (self.part_ns, self.delay_ns)
        )  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class DelayedProcess:
    """One process: its round, the wished delay as a ratio of the part, times of a unit in ns."""

    round: int
    level: float
    unit_ns: float
    part_ns: float
    delay_ns: float


@dataclass(frozen=True, slots=True)
class DelayLevel:
    """Means over the processes with one wished delay, in ns of a unit."""

    level: float
    delay_ns: float
    unit_ns: float
    processes: int


@dataclass(frozen=True, slots=True)
class DelaySlope:
    """How a unit follows a delay of a part.

    `slope` is the growth of a unit over the delay; `share_ratio` is the part's time over that of a
    unit, above 1 if it runs in parallel with itself. `most` is the bound of the gain. `error_ratio`
    is the largest difference between two processes without delay, 0 where they ran at once.
    """

    verdict: Criticality
    slope: Interval
    share_ratio: float
    most: Interval
    error_ratio: float
    levels: tuple[DelayLevel, ...]
    why: str = ""


def delay_slope(
    processes: Sequence[DelayedProcess], *, error_ratio: float, comparisons: int = 1
) -> DelaySlope | Missing:
    """Fit the slope within the rounds, so that a load that changes between them decides nothing.

    The processes of a round are compared with each other alone. `comparisons` is how many slopes
    are judged together. Missing with the reason if there are too few processes, or no delay.
    """
    rounds: Mapping[int, list[DelayedProcess]] = defaultdict(list)
    for process in processes:
        rounds[process.round].append(process)
    bases = [process for process in processes if process.level == 0]
    degrees = len(processes) - len(rounds) - 1
    if not bases or degrees < 1 or all(process.level == 0 for process in processes):
        return Missing("not enough was measured")
    delays, units = _centred(list(rounds.values()), fmean(base.unit_ns for base in bases))
    squares = float(delays @ delays)
    if not squares:
        return Missing("no delay was long enough to be seen")
    ratio = float(delays @ units) / squares
    left = units - ratio * delays
    error = math.sqrt(float(left @ left) / degrees / squares)
    width = quantile(1 - 0.05 / max(comparisons, 1), degrees) * error
    slope = Interval(ratio, ratio - width, ratio + width)
    share = fmean(base.part_ns / base.unit_ns for base in bases)
    levels = _levels(processes)
    verdict, why = _judged(slope, levels, error_ratio)
    return DelaySlope(verdict, slope, share, _bound(slope, share), error_ratio, levels, why)


def _centred(
    rounds: Sequence[Sequence[DelayedProcess]], unit_ns: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return delays and times of a unit without the mean of their round, as ratios of its base."""
    delays: list[float] = []
    units: list[float] = []
    for processes in rounds:
        bases = [process.unit_ns for process in processes if process.level == 0]
        scale = fmean(bases) if bases else unit_ns
        for column, name in ((delays, "delay_ns"), (units, "unit_ns")):
            values = [getattr(process, name) for process in processes]
            column += [(value - fmean(values)) / scale for value in values]
    return np.array(delays), np.array(units)


def _levels(processes: Sequence[DelayedProcess]) -> tuple[DelayLevel, ...]:
    found = []
    for level in sorted({process.level for process in processes}):
        those = [process for process in processes if process.level == level]
        delay_ns = fmean(process.delay_ns for process in those)
        unit_ns = fmean(process.unit_ns for process in those)
        found.append(DelayLevel(level, delay_ns, unit_ns, len(those)))
    return tuple(found)


def _bound(slope: Interval, share: float) -> Interval:
    """Return the gain if a part takes no time any more: never less than 0, nor more than all."""
    # Whatever waits for a part gets at most as much longer as the part does.
    ends = (min(1.0, max(0.0, end)) for end in (slope.ratio, slope.low_ratio, slope.high_ratio))
    return Interval(*(min(1.0, end * share) for end in ends))


def _judged(
    slope: Interval, levels: Sequence[DelayLevel], error_ratio: float
) -> tuple[Criticality, str]:
    """Judge a slope; the longest delay must be longer than what separates two bases."""
    longest = max(level.delay_ns for level in levels) / levels[0].unit_ns
    if longest <= error_ratio:
        return Criticality.UNKNOWN, "the longest delay is no longer than two bases differ"
    if slope.high_ratio < SLACK_SLOPE:
        return Criticality.SLACK, ""
    if slope.low_ratio * longest > error_ratio:
        is_critical = slope.ratio > CRITICAL_SLOPE
        return (Criticality.CRITICAL if is_critical else Criticality.PARTLY), ""
    return Criticality.UNKNOWN, "the interval of the slope is too wide"
