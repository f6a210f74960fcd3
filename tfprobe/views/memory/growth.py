"""Tell a leak from a warm-up: a robust slope, how sure it is, and whether it goes on.

The slope is Theil and Sen's, the median of the slopes between all pairs of points, which a few
outliers do not move; its bounds are Sen's (1968), from the variance of Kendall's statistic.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from tfprobe.errors import Missing
from tfprobe.model.tables import Int64s

# Fewer tell nothing about what goes on after the warm-up.
LEAST_POINTS = 8
# Pairs grow with the square; medians of neighbours say as much.
_MOST_POINTS = 200
# A job allocates at first what it keeps: pools, plans, traces. What still grows in the last half
# of the steps is another thing.
_WARM_UP_RATIO = 0.5
# What slows down to less than this part of its slope comes to an end.
_GOES_ON_RATIO = 1 / 3
# 99 of 100 intervals hold the true slope, were the points independent.
_Z = 2.576
# Pages and pools come and go by as much: a tidy loop of TensorFlow 1.15 has been seen to take 1.1 %
# more over the last half of its 1100 steps, as its threads took turns.
LEAST_GROWTH_BYTES = 2**20
_LEAST_GROWTH_RATIO = 0.02


class Verdict(Enum):
    """What a series of sizes does. The value is its name in documents."""

    GROWING = "growing"
    WARMING_UP = "warming_up"
    STEADY = "steady"


@dataclass(frozen=True, slots=True)
class Growth:
    """How a size changes with steps, in bytes a step, after the warm-up.

    The true slope lies from `low` to `high` with a probability of 99 %. `points` were looked at,
    from `first_step` on.
    """

    verdict: Verdict
    bytes_per_step: float
    low: float
    high: float
    points: int
    first_step: int
    last_step: int


def _counted(count: int) -> str:
    return "1 was" if count == 1 else f"{count} were"


def growth(steps: Int64s, size_bytes: Int64s) -> Growth | Missing:
    """Return how sizes grow with steps, or why that cannot be told; both in order of time."""
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


def _verdict(first_bytes: int, x: _Floats, y: _Floats, slope: float, low: float) -> Verdict:
    least_bytes = max(LEAST_GROWTH_BYTES, _LEAST_GROWTH_RATIO * float(np.median(y)))
    grows = low > 0 and slope * (x[-1] - x[0]) >= least_bytes
    half = len(x) // 2
    if grows and _slope(x[half:], y[half:])[0] >= slope * _GOES_ON_RATIO:
        return Verdict.GROWING
    whole_bytes = float(np.median(y)) - first_bytes
    return Verdict.WARMING_UP if grows or whole_bytes >= least_bytes else Verdict.STEADY


def _thinned(steps: Int64s, size_bytes: Int64s) -> tuple[_Floats, _Floats]:
    """Return at most so many points: the medians of neighbours."""
    parts = np.array_split(np.arange(len(steps)), min(len(steps), _MOST_POINTS))
    x = np.array([np.median(steps[part]) for part in parts], dtype=np.float64)
    y = np.array([np.median(size_bytes[part]) for part in parts], dtype=np.float64)
    return x, y


def _slope(x: _Floats, y: _Floats) -> tuple[float, float, float]:
    """Return the median slope of all pairs of points, and its bounds."""
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
