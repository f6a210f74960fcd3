"""The steps of a work as a curve of few points, and the phases that they were in.

Many steps are put into buckets of equally many: of each the least, the median and the most are
told, so that one slow step among a million is still seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.steps.phases import Life
from tfprobe.analysis.steps.step_window import Int64s, Remembered
from tfprobe.errors import Missing

# More than a screen is wide tells nothing more.
MOST_POINTS = 2_000
# A work that changes its phase more often has a band for nearly every step.
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
class Band:
    """Steps in a row of one phase, both ends included."""

    phase: str
    first_step: int
    last_step: int


def series(
    remembered: Remembered, *, first: int = 0, end: int | None = None, points: int = MOST_POINTS
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


def usual_most_ns(remembered: Remembered) -> int | None:
    """Return where an axis of usual steps ends; None where it may reach to the longest.

    One step that took a hundred times as long would press all others flat.
    """
    if not remembered.counts.any():
        return None
    usual_ns = _USUAL_TIMES * float(np.quantile(remembered.step_ns[remembered.counts], 0.95))
    longest_ns = int(remembered.step_ns.max())
    return round(usual_ns) if longest_ns > _FAR_TIMES * usual_ns else None


def bands(remembered: Remembered, life: Life | Missing, shift_ns: int) -> tuple[Band, ...]:
    """Return the phases of the remembered steps, each by when it began; none if none is known.

    `shift_ns` turns their monotonic times into unix times.
    """
    if isinstance(life, Missing) or not len(remembered):
        return ()
    starts_ns = np.array([each.start_ns for each in life.segments], dtype=np.int64)
    at = np.searchsorted(starts_ns, remembered.start_ns + shift_ns, side="right") - 1
    names = [each.phase for each in life.segments]
    changes = np.flatnonzero(np.diff(at)) + 1
    firsts, ends = [0, *changes.tolist()], [*changes.tolist(), len(remembered)]
    found: list[Band] = []
    for begin, end in zip(firsts, ends, strict=True):
        phase = names[max(int(at[begin]), 0)]
        last = remembered.first_step + end - 1
        if found and found[-1].phase == phase:
            found[-1] = Band(phase, found[-1].first_step, last)
        else:
            found.append(Band(phase, remembered.first_step + begin, last))
    return tuple(found[:MOST_BANDS])


def _medians(values: Int64s, each: int) -> Int64s:
    whole = len(values) // each * each
    parts = np.median(values[:whole].reshape(-1, each), axis=1) if whole else np.zeros(0)
    rest = [np.median(values[whole:])] if whole < len(values) else []
    medians: Int64s = np.append(parts, rest).astype(np.int64)
    return medians
