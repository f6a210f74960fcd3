"""Reduce the steps of a loop to a curve of few points, with its phases and its trend.

Steps are grouped into equally large buckets with their minimum, median and maximum, so that one
slow step among a million is still visible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.core.statistics import Floats, slope
from tfprobe.analysis.steps.phases import Life
from tfprobe.analysis.steps.step_window import StepWindow
from tfprobe.errors import Missing
from tfprobe.profile.tables import Flags, Int64s

# More points than a screen is wide show nothing more.
MOST_POINTS = 2_000
# With more changes of phase, nearly every step would have a band of its own.
MOST_BANDS = 200
# The axis ends at so many times the 95th percentile where the longest step lies far beyond.
_USUAL_TIMES = 2.5
_FAR_TIMES = 1.5


@dataclass(frozen=True, slots=True)
class StepSeries:
    """Step times in ns by step; bucket i has `steps_each` steps from `first_steps[i]` on.

    The last bucket may have fewer. `gap_ns` is the longest gap before a step of the bucket. The
    series covers `first_step` up to `end_step`, exclusive.
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
    """Consecutive steps of one phase, both ends included."""

    phase: str
    first_step: int
    last_step: int


def series(
    window: StepWindow, *, first: int = 0, end: int | None = None, points: int = MOST_POINTS
) -> StepSeries:
    """Return the curve of the remembered steps from `first` up to `end`, exclusive."""
    begin = min(max(first - window.first_step, 0), len(window))
    last = len(window) if end is None else end - window.first_step
    rows = slice(begin, min(max(last, begin), len(window)))
    step_ns, gap_ns = window.step_ns[rows], window.gap_ns[rows]
    size = max(-(-len(step_ns) // points), 1)
    at = np.arange(0, len(step_ns), size, dtype=np.int64)
    first_step = window.first_step + begin
    return StepSeries(
        first_step=first_step,
        end_step=first_step + len(step_ns),
        steps_each=size,
        first_steps=at + first_step,
        min_ns=np.minimum.reduceat(step_ns, at) if len(at) else step_ns,
        median_ns=_medians(step_ns, size),
        max_ns=np.maximum.reduceat(step_ns, at) if len(at) else step_ns,
        gap_ns=np.maximum.reduceat(gap_ns, at) if len(at) else gap_ns,
    )


def usual_most_ns(window: StepWindow) -> int | None:
    """Return where the axis should end to show usual steps; None where the longest fits.

    A single step a hundred times longer would flatten all others.
    """
    if not window.counts.any():
        return None
    usual_ns = _USUAL_TIMES * float(np.quantile(window.step_ns[window.counts], 0.95))
    longest_ns = int(window.step_ns.max())
    return round(usual_ns) if longest_ns > _FAR_TIMES * usual_ns else None


def bands(window: StepWindow, life: Life | Missing, shift_ns: int) -> tuple[PhaseBand, ...]:
    """Return the phases of the remembered steps, by when each step began; empty if not known.

    `shift_ns` turns monotonic times into unix times.
    """
    if isinstance(life, Missing) or not len(window):
        return ()
    starts_ns = np.array([segment.start_ns for segment in life.segments], dtype=np.int64)
    at = np.searchsorted(starts_ns, window.start_ns + shift_ns, side="right") - 1
    names = [segment.phase for segment in life.segments]
    changes = np.flatnonzero(np.diff(at)) + 1
    firsts, ends = [0, *changes.tolist()], [*changes.tolist(), len(window)]
    found: list[PhaseBand] = []
    for begin, end in zip(firsts, ends, strict=True):
        phase = names[max(int(at[begin]), 0)]
        last = window.first_step + end - 1
        if found and found[-1].phase == phase:
            found[-1] = PhaseBand(phase, found[-1].first_step, last)
        else:
            found.append(PhaseBand(phase, window.first_step + begin, last))
    return tuple(found[:MOST_BANDS])


def _medians(values: Int64s, size: int) -> Int64s:
    full = len(values) // size * size
    parts = np.median(values[:full].reshape(-1, size), axis=1) if full else np.zeros(0)
    rest = [np.median(values[full:])] if full < len(values) else []
    medians: Int64s = np.append(parts, rest).astype(np.int64)
    return medians


# The number of pairs grows with the square of the blocks; 2,016 pairs take a millisecond.
MOST_BLOCKS = 64
LEAST_STEPS = 30
# Among a hundred loops without a trend, at most about one should show one.
SIGNIFICANT_P = 0.01
# Smaller changes are of no interest, however significant.
LEAST_CHANGE_RATIO = 0.02


@dataclass(frozen=True, slots=True)
class Trend:
    """The change of step times from `first_step` to `last_step`: +0.12 is 12 % slower at the end.

    It is the change of a fitted line, with its 95 % interval.
    """

    first_step: int
    last_step: int
    change_ratio: float
    low_ratio: float
    high_ratio: float
    p_value: float

    @property
    def is_significant(self) -> bool:
        """Return whether the trend is unlikely to be chance, and large enough to matter."""
        return self.p_value < SIGNIFICANT_P and abs(self.change_ratio) >= LEAST_CHANGE_RATIO


def trend(numbers: Int64s, times_ns: Int64s, counts: Flags) -> Trend | Missing:
    """Return the trend of the step times that count, or why there is none."""
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
