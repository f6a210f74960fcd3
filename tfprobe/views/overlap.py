"""Measure how much of each of many intervals lies inside a set of moments."""

from __future__ import annotations

import numpy as np

from tfprobe.model.tables import Int64s
from tfprobe.views.intervals import Intervals


def covered_ns(start_ns: Int64s, end_ns: Int64s, held: Intervals) -> Int64s:
    """Return for each interval how long it lies in `held`. The intervals may overlap."""
    before = np.concatenate(([0], np.cumsum(held.end_ns - held.start_ns)))

    def until(moment_ns: Int64s) -> Int64s:
        """Return how much of `held` lies before each moment."""
        count = np.searchsorted(held.start_ns, moment_ns, side="right")
        if not len(held.end_ns):
            return np.zeros(len(moment_ns), dtype=np.int64)
        behind = np.where(count > 0, held.end_ns[np.maximum(count - 1, 0)] - moment_ns, 0)
        found: Int64s = before[count] - np.maximum(behind, 0)
        return found

    return until(end_ns) - until(start_ns)
