"""Compare two series of measurements, with a confidence interval of the difference.

The interval comes from a block bootstrap on logarithms (Künsch 1989, with blocks that do not
overlap), as neighbouring measurements are correlated. That alone would only cover *these* two
recordings: the medians of a job recorded twice differ by more than their intervals, as another
memory layout or a busier machine shifts a whole recording (Mytkowicz et al. 2009; Kalibera and
Jones 2013). One recording per side does not show by how much. The shift is assumed to be as large
as the differences between its blocks, by their MAD: each replicate is shifted by a draw from
Student's t of that width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.core.statistics import MAD_OF_NORMAL
from tfprobe.errors import Missing

Floats = npt.NDArray[np.float64]

MOST_BLOCKS = 16
# Fewer blocks do not show a spread.
LEAST_BLOCKS = 4
# A logarithm needs a positive value: a time of 0 ns is below the resolution of the clock.
NOTHING = 1.0
_REPLICATES = 10_000
# Fixed, so that the same recordings give the same answer.
_SEED = 20_261_120
# Beyond this, the tail would consist of a few replicates.
_SUREST = 0.999
# A smaller change is not reported, however significant.
LEAST_CHANGE_RATIO = 0.02


class MeasuredLevel(Enum):
    """The statistic of a series. Disturbances only lengthen steps and affect FAST least."""

    MEDIAN = 0.50
    # A tenth of the steps are faster. The minimum would depend on a single step.
    FAST = 0.10
    MEAN = None


@dataclass(frozen=True, slots=True)
class MeasuredSample:
    """A series as its level, the levels of its blocks in order, and how much those differ.

    `scatter` is the standard deviation of the logarithms of the levels of blocks, estimated from
    their MAD: a disturbance of a few blocks does not count.
    """

    count: int
    level: float
    blocks: Floats
    scatter: float
    takes_mean: bool


@dataclass(frozen=True, slots=True)
class Change:
    """The change from `before` to `after`: `ratio` is +0.12 if that is 12 % more.

    `confidence` is that of the interval: 0.95 for all comparisons made together (Bonferroni).
    """

    before: float
    after: float
    ratio: float
    low_ratio: float
    high_ratio: float
    confidence: float

    @property
    def is_significant(self) -> bool:
        """Return whether the interval excludes no change, and the change is worth reporting."""
        outside = self.low_ratio > 0 or self.high_ratio < 0
        return outside and abs(self.ratio) >= LEAST_CHANGE_RATIO

    @property
    def least_growth_ratio(self) -> float:
        """Return the least growth that would have been significant."""
        return max((1 + self.ratio) / (1 + self.low_ratio) - 1, LEAST_CHANGE_RATIO)


def sample(
    values: npt.NDArray[np.int64], *, block_size: int, level: MeasuredLevel = MeasuredLevel.MEDIAN
) -> MeasuredSample:
    """Summarize measurements in the order they were made, in blocks of at least `block_size`."""
    if not len(values):
        return MeasuredSample(0, 0.0, np.zeros(0), 0.0, takes_mean=False)
    blocks = np.array_split(values.astype(np.float64), _blocks(len(values), block_size))
    levels = _levels(blocks, level)
    scatter = _scatter(levels)
    if level is MeasuredLevel.MEAN:
        # The means of a few blocks can agree by chance although steps vary.
        scatter = max(scatter, _scatter(_levels(blocks, MeasuredLevel.MEDIAN)))
    return MeasuredSample(
        count=len(values),
        level=float(_levels([values], level)[0]),
        blocks=levels,
        scatter=scatter,
        takes_mean=level is MeasuredLevel.MEAN,
    )


def _levels(blocks: Sequence[npt.NDArray[Any]], level: MeasuredLevel) -> Floats:
    found = [
        float(block.mean() if level.value is None else np.quantile(block, level.value))
        for block in blocks
    ]
    levels: Floats = np.maximum(np.array(found), NOTHING)
    return levels


def _scatter(levels: Floats) -> float:
    logs = np.log(levels)
    return float(np.median(np.abs(logs - np.median(logs)))) / MAD_OF_NORMAL


def _blocks(count: int, block_size: int) -> int:
    return max(min(count // block_size, MOST_BLOCKS), 1)


def compare(before: MeasuredSample, after: MeasuredSample, *, comparisons: int) -> Change | Missing:
    """Return the change between two samples, one of `comparisons` made together."""
    if min(len(before.blocks), len(after.blocks)) < LEAST_BLOCKS:
        return Missing("too few to decide")
    if min(before.level, after.level) <= NOTHING:
        return Missing("most steps have none of it")
    random = np.random.default_rng(_SEED)
    shifts = _replicates(after, random) - _replicates(before, random)
    confidence = min(1 - 0.05 / max(comparisons, 1), _SUREST)
    tail = (1 - confidence) / 2
    low, high = np.quantile(shifts, [tail, 1 - tail])
    found = math.log(after.level / before.level)
    return Change(
        before=before.level,
        after=after.level,
        ratio=math.exp(found) - 1,
        low_ratio=math.exp(found + low) - 1,
        high_ratio=math.exp(found + high) - 1,
        confidence=confidence,
    )


def _replicates(one: MeasuredSample, random: np.random.Generator) -> Floats:
    """Return possible errors of the logarithm of a level, one per replicate."""
    count = len(one.blocks)
    drawn = one.blocks[random.integers(0, count, (_REPLICATES, count))]
    if one.takes_mean:
        levels = np.log(drawn.mean(axis=1)) - math.log(one.blocks.mean())
    else:
        levels = np.log(np.median(drawn, axis=1)) - math.log(np.median(one.blocks))
    found: Floats = levels + one.scatter * random.standard_t(count - 1, _REPLICATES)
    return found
