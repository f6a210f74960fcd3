"""The steps of a work as a curve of few points, and the phases that they were in.

Many steps are put into buckets of equally many: of each the least, the median and the most are
told, so that one slow step among a million is still seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.core.statistics import Floats, slope
from tfprobe.analysis.steps.phases import Life
from tfprobe.analysis.steps.step_window import StepWindow
from tfprobe.errors import Missing
from tfprobe.profile.tables import Flags, Int64s

# More than a screen is wide tells nothing more.
MOST_POINTS = 2_000
# A loop that changes its phase more often has a band for nearly every step.
MOST_BANDS = 200
# An axis ends at so many times the 95th percentile, where the longest lies far beyond.
_USUAL_TIMES = 2.5
_FAR_TIMES = 1.5


@dataclass(frozen=True, slots=True)
class StepSeries:
    """Step times in ns by step; bucket i has `steps_each` steps from `first_steps[i]` on.

    The last bucket may have fewer. `gap_ns` is the longest gap before a step of the bucket.
    `first_step` and `end_step` are what was looked at, `end_step` exclusive.
    """

    first_step: int
    end_step: int
    steps_each: int
    first_steps: Int64s
    min_ns: Int64s
    median_ns: Int64s
    max_ns: Int64s
    gap_ns: Int64s


@dataclass(frozen=True, slots=True)
class PhaseBand:
    """Steps in a row of one phase, both ends included."""

    phase: str
    first_step: int
    last_step: int


def series(
    remembered: StepWindow, *, first: int = 0, end: int | None = None, points: int = MOST_POINTS
) -> StepSeries:
    """Return the curve of the remembered steps from `first` up to `end`, which is exclusive."""
    begin = min(max(first - remembered.first_step, 0), len(remembered))
    last = len(remembered) if end is None else end - remembered.first_step
    rows = slice(begin, min(max(last, begin), len(remembered)))
    step_ns, gap_ns = remembered.step_ns[rows], remembered.gap_ns[rows]
    each = max(-(-len(step_ns) // points), 1)
    at = np.arange(0, len(step_ns), each, dtype=np.int64)
    first_step = remembered.first_step + begin
    return StepSeries(
        first_step=first_step,
        end_step=first_step + len(step_ns),
        steps_each=each,
        first_steps=at + first_step,
        min_ns=np.minimum.reduceat(step_ns, at) if len(at) else step_ns,
        median_ns=_medians(step_ns, each),
        max_ns=np.maximum.reduceat(step_ns, at) if len(at) else step_ns,
        gap_ns=np.maximum.reduceat(gap_ns, at) if len(at) else gap_ns,
    )


def usual_most_ns(remembered: StepWindow) -> int | None:
    """Return where an axis of usual steps ends; None where it may reach to the longest.

    One step that took a hundred times as long would press all others flat.
    """
    if not remembered.counts.any():
        return None
    usual_ns = _USUAL_TIMES * float(np.quantile(remembered.step_ns[remembered.counts], 0.95))
    longest_ns = int(remembered.step_ns.max())
    return round(usual_ns) if longest_ns > _FAR_TIMES * usual_ns else None


def bands(remembered: StepWindow, life: Life | Missing, shift_ns: int) -> tuple[PhaseBand, ...]:
    """Return the phases of the remembered steps, each by when it began; none if none is known.

    `shift_ns` turns their monotonic times into unix times.
    """
    if isinstance(life, Missing) or not len(remembered):
        return ()
    starts_ns = np.array([segment.start_ns for segment in life.segments], dtype=np.int64)
    at = np.searchsorted(starts_ns, remembered.start_ns + shift_ns, side="right") - 1
    names = [segment.phase for segment in life.segments]
    changes = np.flatnonzero(np.diff(at)) + 1
    firsts, ends = [0, *changes.tolist()], [*changes.tolist(), len(remembered)]
    found: list[PhaseBand] = []
    for begin, end in zip(firsts, ends, strict=True):
        phase = names[max(int(at[begin]), 0)]
        last = remembered.first_step + end - 1
        if found and found[-1].phase == phase:
            found[-1] = PhaseBand(phase, found[-1].first_step, last)
        else:
            found.append(PhaseBand(phase, remembered.first_step + begin, last))
    return tuple(found[:MOST_BANDS])


def _medians(values: Int64s, each: int) -> Int64s:
    whole = len(values) // each * each
    parts = np.median(values[:whole].reshape(-1, each), axis=1) if whole else np.zeros(0)
    rest = [np.median(values[whole:])] if whole < len(values) else []
    medians: Int64s = np.append(parts, rest).astype(np.int64)
    return medians


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
