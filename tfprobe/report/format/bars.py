"""Draw a histogram on one line."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tfprobe.analysis.steps.step_times import Bar

_HEIGHTS = "▁▂▃▄▅▆▇█"


def sparkline(bars: Sequence[Bar], wide: int) -> str:
    """Draw counts over durations on a logarithmic axis, from the least to the longest.

    A blank is none at all; what is there is never drawn as none.
    """
    low, high = math.log(bars[0].low_ns), math.log(bars[-1].high_ns)
    wide = min(
        wide, max(len(bars), round((high - low) / math.log(bars[0].high_ns / bars[0].low_ns)))
    )
    cells = np.zeros(wide)
    for bar in bars:
        middle = (math.log(bar.low_ns) + math.log(bar.high_ns)) / 2
        cells[min(int((middle - low) / (high - low) * wide), wide - 1)] += bar.count
    return "".join(_height(count / cells.max()) for count in cells)


def _height(ratio: float) -> str:
    if not ratio:
        return " "
    return _HEIGHTS[min(int(ratio * len(_HEIGHTS)), len(_HEIGHTS) - 1)]
