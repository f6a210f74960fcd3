"""Write gains that trials measured."""

from __future__ import annotations

from tfprobe.analysis.compare.trials import Interval
from tfprobe.report.format import numbers


def cpu_text(gain: Interval) -> str:
    """Say how CPU time changed: `CPU time per step fell by 63.0 % [60, 66]`."""
    if gain.ratio < 0:
        rise = numbers.gain(-gain.ratio, -gain.high_ratio, -gain.low_ratio)
        return f"CPU time per step rose by {rise.removeprefix('+')}"
    fall = numbers.gain(gain.ratio, gain.low_ratio, gain.high_ratio)
    return f"CPU time per step fell by {fall.removeprefix('+')}"
