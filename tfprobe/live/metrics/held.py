"""Keep counters from going down between two answers.

A step that raises is noted before it is counted, the cost of hooks is a mean times a count, and a
file may be read anew or be garbage. To Prometheus a counter that goes down is a process that was
started anew, and all it ever counted is added once more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tfprobe.live.metrics.family import Exposed, Histogram, Kind, Series, Value

_COUNTING = (Kind.COUNTER, Kind.HISTOGRAM)


class Held:
    """What each counting series showed last."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, tuple[str, ...]], Value] = {}

    def hold(self, families: Iterable[Exposed]) -> tuple[Exposed, ...]:
        """Return the families with no counter lower than in the answer before.

        Series that are not in an answer are forgotten with it.
        """
        shown: dict[tuple[str, tuple[str, ...]], Value] = {}
        held = tuple(self._held(each, shown) for each in families)
        self._shown = shown
        return held

    def _held(self, exposed: Exposed, shown: dict[tuple[str, tuple[str, ...]], Value]) -> Exposed:
        if exposed.family.kind not in _COUNTING:
            return exposed
        series: list[Series] = []
        for each in exposed.series:
            key = (exposed.family.name, each.labels)
            value = higher(self._shown.get(key, each.value), each.value)
            shown[key] = value
            series.append(replace(each, value=value))
        return replace(exposed, series=tuple(series))


def higher(before: Value, now: Value) -> Value:
    """Return the higher of two values of a counter; of histograms, bucket by bucket."""
    if isinstance(before, Histogram) and isinstance(now, Histogram):
        # The highest of two rising rows rises, too, and ends with the highest of both counts.
        counts = map(max, before.cumulative, now.cumulative)
        return Histogram(tuple(counts), max(before.sum_s, now.sum_s))
    assert not isinstance(before, Histogram)
    assert not isinstance(now, Histogram)
    return max(before, now)
