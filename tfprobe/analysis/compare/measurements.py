"""Compare two series of measurements, and say how sure the difference is.

The interval is a bootstrap's, on logarithms, of blocks of measurements in order (Künsch 1989, with
blocks that do not overlap), for neighbours are alike. That alone would be the interval of *these*
two recordings: of a job recorded twice, medians differ by more than their intervals, as another
layout of memory or a busier machine moves a whole recording (Mytkowicz et al. 2009; Kalibera and
Jones 2013). One recording a side does not tell by how much. It is taken to be as much as its blocks
differ from each other, by their MAD: each replicate is moved by a draw of Student's t so wide.
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
# Fewer blocks have no spread to speak of.
LEAST_BLOCKS = 4
# A logarithm needs something: a time of 0 ns is one below the clock's resolution.
NOTHING = 1.0
_REPLICATES = 10_000
# Any number: the same recordings have the same answer.
_SEED = 20_261_120
# Surer than this, the tail of the replicates would be of a few.
_SUREST = 0.999
# A smaller change is not worth a word, however sure it is.
LEAST_CHANGE_RATIO = 0.02


class MeasuredLevel(Enum):
    """What is taken of measurements. What disturbs a step only makes it longer: FAST is least."""

    MEDIAN = 0.50
    # A tenth of the steps are faster than this. The minimum would be one step's luck.
    FAST = 0.10
    MEAN = None


@dataclass(frozen=True, slots=True)
class MeasuredSample:
    """Measurements as a level, that of each block in turn, and how far blocks are from each other.

    `scatter` is the deviation of logarithms of the levels of blocks as the MAD tells it: what
    disturbed a few blocks is none of the recording's.
    """

    count: int
    level: float
    blocks: Floats
    scatter: float
    takes_mean: bool


@dataclass(frozen=True, slots=True)
class Change:
    """From `before` to `after`, which is +0.12 where that is 12 % more, with its interval.

    `confidence` is that of the interval, 0.95 divided up among all that was asked at once.
    """

    before: float
    after: float
    ratio: float
    low_ratio: float
    high_ratio: float
    confidence: float

    @property
    def is_significant(self) -> bool:
        """Say whether no change is outside the interval, and the change worth a word."""
        outside = self.low_ratio > 0 or self.high_ratio < 0
        return outside and abs(self.ratio) >= LEAST_CHANGE_RATIO

    @property
    def least_growth_ratio(self) -> float:
        """Return how much larger B would have had to be for that to be significant."""
        return max((1 + self.ratio) / (1 + self.low_ratio) - 1, LEAST_CHANGE_RATIO)


def sample(
    values: npt.NDArray[np.int64], *, each_block: int, level: MeasuredLevel = MeasuredLevel.MEDIAN
) -> MeasuredSample:
    """Return measurements in the order in which they were made, at least `each_block` a block."""
    if not len(values):
        return MeasuredSample(0, 0.0, np.zeros(0), 0.0, takes_mean=False)
    blocks = np.array_split(values.astype(np.float64), _blocks(len(values), each_block))
    levels = _levels(blocks, level)
    scatter = _scatter(levels)
    if level is MeasuredLevel.MEAN:
        # Means of a few blocks may agree by luck where steps do not.
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


def _blocks(count: int, each_block: int) -> int:
    return max(min(count // each_block, MOST_BLOCKS), 1)


def compare(before: MeasuredSample, after: MeasuredSample, *, asked: int) -> Change | Missing:
    """Return the change between two samples, one of `asked` that are looked at together."""
    if min(len(before.blocks), len(after.blocks)) < LEAST_BLOCKS:
        return Missing("too few to decide")
    if min(before.level, after.level) <= NOTHING:
        return Missing("most steps have none of it")
    random = np.random.default_rng(_SEED)
    shifts = _replicates(after, random) - _replicates(before, random)
    confidence = min(1 - 0.05 / max(asked, 1), _SUREST)
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
    """Return by how much the logarithm of a level may be off, again and again."""
    count = len(one.blocks)
    drawn = one.blocks[random.integers(0, count, (_REPLICATES, count))]
    if one.takes_mean:
        levels = np.log(drawn.mean(axis=1)) - math.log(one.blocks.mean())
    else:
        levels = np.log(np.median(drawn, axis=1)) - math.log(np.median(one.blocks))
    found: Floats = levels + one.scatter * random.standard_t(count - 1, _REPLICATES)
    return found
