"""Put what several processes were measured at, each at its own moments, on one axis for a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

# A chart beside others has about so many pixels.
MOST_MOMENTS = 600


@dataclass(frozen=True, slots=True)
class Measured:
    """Amounts at some moments, in order."""

    at_ns: Int64s
    values: Float64s


def on_one_axis(
    every: Sequence[Measured], *, most: int = MOST_MOMENTS
) -> tuple[list[int], list[list[float | None]]]:
    """Return moments, and the amounts of each at them; None before its first and after its last.

    A moment is the end of a part of the time; the amount is the most in that part, and where
    nothing was measured in it the one before. Nothing of one alone is joined if it needs not be.
    """
    told = [each for each in every if len(each.at_ns)]
    if not told:
        return [], [[] for _ in every]
    whole: Int64s = np.unique(np.concatenate([each.at_ns for each in told]))
    parts = min(len(whole), max(most, 1))
    if len(told) > 1:
        # As many as the one with most: moments of others are hardly ever the very same.
        parts = min(parts, max(len(each.at_ns) for each in told))
    if parts == len(whole):
        ends = whole
    else:
        ends = whole[0] + (np.arange(1, parts + 1) * (whole[-1] - whole[0])) // parts
    return ends.tolist(), [_at(each, ends) for each in every]


def _at(each: Measured, ends: Int64s) -> list[float | None]:
    if not len(each.at_ns):
        return [None] * len(ends)
    part = np.searchsorted(ends, each.at_ns, side="left")
    most = np.full(len(ends), -np.inf)
    np.maximum.at(most, part, each.values)
    here = np.flatnonzero(np.isfinite(most))
    before = here[np.maximum(np.searchsorted(here, np.arange(len(ends)), side="right") - 1, 0)]
    filled = most[before].tolist()
    return [value if here[0] <= number <= here[-1] else None for number, value in enumerate(filled)]
