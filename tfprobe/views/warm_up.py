"""Tell where a work's step times have come down to what they are later."""

from __future__ import annotations

import numpy as np

from tfprobe.errors import Missing
from tfprobe.views.remembered import Remembered
from tfprobe.views.robust import MAD_OF_NORMAL, OUTLIER_Z, spread

# Fewer have no later half to speak of.
LEAST_STEPS = 10
# So many in a row have to be fast in their middle: one fast step between slow ones is none yet.
_IN_A_ROW = 5
_LEAST_ABOVE_RATIO = 0.10


def warm_up_steps(remembered: Remembered) -> int | Missing:
    """Return how many steps a work took to get warm, the first one with it where it was slow.

    Warm is from where the median of five steps is no outlier among those of the later half, and
    not 10 % above their median. Where that never comes there is no warm-up but a trend.
    """
    if remembered.first_step > 0:
        return Missing("its first steps are forgotten")
    rows = np.flatnonzero(remembered.counts)
    if len(rows) < LEAST_STEPS:
        return Missing(f"it takes {LEAST_STEPS} steps to tell")
    times_ns = remembered.step_ns[rows]
    later = spread(times_ns[len(rows) // 2 :])
    above = max(OUTLIER_Z / MAD_OF_NORMAL * later.mad, _LEAST_ABOVE_RATIO * later.median)
    first_half = np.lib.stride_tricks.sliding_window_view(times_ns, _IN_A_ROW)[: len(rows) // 2]
    is_warm = np.median(first_half, axis=1) <= later.median + above
    if not is_warm.any():
        return 0
    # The window is warm in its middle; slow steps at its start still belong to the warm-up.
    first = int(is_warm.argmax())
    slow = np.flatnonzero(times_ns[first : first + _IN_A_ROW] > later.median + above)
    leading = int(np.argmax(np.append(slow != np.arange(len(slow)), True)))
    return int(rows[first + leading]) if first + leading else 0
