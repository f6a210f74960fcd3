"""Whether the steps of a work get slower or faster over the run.

Steps are put into blocks, in order, and a robust line is laid through the medians of the blocks,
so that neither a slow step here and there nor what repeats within a block tilts it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.core.robust_statistics import Floats, slope
from tfprobe.analysis.steps.step_window import Flags, Int64s
from tfprobe.errors import Missing

# Pairs of blocks grow with the square; 2,016 of them take a millisecond.
MOST_BLOCKS = 64
LEAST_STEPS = 30
# Somebody who looks at a hundred works should not see a trend where there is none.
SIGNIFICANT_P = 0.01
# What is less nobody looks for, however sure it is.
LEAST_CHANGE_RATIO = 0.02


@dataclass(frozen=True, slots=True)
class Trend:
    """How step times change from `first_step` to `last_step`: +0.12 is 12 % slower at the end.

    The change is that of a straight line, with its 95 % interval.
    """

    first_step: int
    last_step: int
    change_ratio: float
    low_ratio: float
    high_ratio: float
    p_value: float

    @property
    def is_significant(self) -> bool:
        """Say whether it is no chance, and worth a word."""
        return self.p_value < SIGNIFICANT_P and abs(self.change_ratio) >= LEAST_CHANGE_RATIO


def trend(numbers: Int64s, times_ns: Int64s, counts: Flags) -> Trend | Missing:
    """Return the trend of those step times that count, or why none can be told."""
    numbers, times_ns = numbers[counts], times_ns[counts]
    if len(numbers) < LEAST_STEPS:
        return Missing(f"a trend takes {LEAST_STEPS} steps")
    x, y = _blocks(numbers, times_ns)
    line = slope(x, y)
    if line.at_first <= 0:
        return Missing("the steps are too uneven for a straight line")
    length = float(x[-1] - x[0])
    return Trend(
        first_step=int(numbers[0]),
        last_step=int(numbers[-1]),
        change_ratio=line.slope * length / line.at_first,
        low_ratio=line.low * length / line.at_first,
        high_ratio=line.high * length / line.at_first,
        p_value=line.p_value,
    )


def _blocks(numbers: Int64s, times_ns: Int64s) -> tuple[Floats, Floats]:
    """Return the middle step and the median time of each block."""
    count = min(MOST_BLOCKS, len(numbers) // 2)
    parts = zip(np.array_split(numbers, count), np.array_split(times_ns, count), strict=True)
    points = [(float(np.median(number)), float(np.median(time))) for number, time in parts]
    x, y = np.array(points, dtype=np.float64).T
    return x, y
