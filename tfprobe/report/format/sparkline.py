"""Draw a series of numbers in one line of text."""

from __future__ import annotations

from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(
    values: Sequence[float], *, width: int, least: float | None = None, most: float | None = None
) -> str:
    """Return a bar for each value, from `least` (default: the smallest) to `most` (the largest).

    What is below `least` has the lowest bar, what is above `most` the highest. Of more values than
    there is room for, each bar is the largest of its neighbours.
    """
    if not values or width < 1:
        return ""
    parts = min(len(values), width)
    tops = [
        max(values[at * len(values) // parts : (at + 1) * len(values) // parts])
        for at in range(parts)
    ]
    low = min(values) if least is None else least
    high = max(tops) if most is None else most
    span = high - low
    if span <= 0:
        return _BARS[0] * parts
    last = len(_BARS) - 1
    return "".join(_BARS[round(min(max(top - low, 0) / span, 1) * last)] for top in tops)
