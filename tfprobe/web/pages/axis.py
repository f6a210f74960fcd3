"""Put what several processes were measured at, each at its own moments, on one axis for a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.core.series import silences

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
    """Return moments, and the amounts of each at them; None before its first, after its last, and
    in its silences.

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
        ends = np.unique(np.concatenate([whole, *(_silent_ns(each) for each in told)]))
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
    known = np.zeros(len(ends), dtype=np.bool_)
    known[here[0] : here[-1] + 1] = True
    last, begin_ns = silences(each.at_ns)
    for begin, end in zip(begin_ns.tolist(), each.at_ns[last + 1].tolist(), strict=True):
        known &= (ends < begin) | (ends >= end) | np.isfinite(most)
    return [value if is_known else None for value, is_known in zip(filled, known, strict=True)]


def _silent_ns(each: Measured) -> Int64s:
    """Return a moment in each silence, so that a chart has a place to break its line."""
    return silences(each.at_ns)[1]
