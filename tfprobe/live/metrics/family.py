"""What a metric family is and what its series hold. Knows neither runs nor formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from tfprobe.errors import Missing
from tfprobe.printable import replaced
from tfprobe.profile.profile import BUCKETS_PER_OCTAVE, Durations

# Long enough for the fetches of most sessions; `tfprobe report` has all of it.
LONGEST_LABEL = 120
_LOST = "\N{REPLACEMENT CHARACTER}"


class FamilyKind(Enum):
    """How the values of a family behave over time."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: `name` with its unit and, for a counter, `_total`, for texts, `_info`.

    `labels` are all its labels, those of its subject first. `help` is one sentence.
    """

    name: str
    kind: FamilyKind
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Cumulative counts below each bound of `histogram.BOUNDS_NS`, and of all; their sum in s."""

    cumulative: tuple[int, ...]
    sum_s: float

    @property
    def count(self) -> int:
        return self.cumulative[-1]


Value = int | float | Histogram


@dataclass(frozen=True, slots=True)
class Series:
    """One value and the texts of its labels. A counter counts from `since_unix_ns`."""

    labels: tuple[str, ...]
    value: Value
    since_unix_ns: int


@dataclass(frozen=True, slots=True)
class Exposed:
    """A family with all its series at one moment; no two of them have the same labels."""

    family: Family
    series: tuple[Series, ...]


def label(text: str, *, longest: int = LONGEST_LABEL) -> str:
    """Return a text as every format can carry it: valid UTF-8, no control characters, cut.

    Some parsers take a NUL for the end of the text, and others know no escapes but their own.
    """
    whole = replaced(text, _LOST)
    return whole if len(whole) <= longest else f"{whole[: longest - 1]}…"


_COUNTING = (FamilyKind.COUNTER, FamilyKind.HISTOGRAM)


class MonotonicCounter:
    """What each counting series showed last."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, tuple[str, ...]], Value] = {}

    def raise_to_last(self, families: Iterable[Exposed]) -> tuple[Exposed, ...]:
        """Return the families with no counter lower than in the answer before.

        Series that are not in an answer are forgotten with it.
        """
        shown: dict[tuple[str, tuple[str, ...]], Value] = {}
        exposed_families = tuple(self._raised(family, shown) for family in families)
        self._shown = shown
        return exposed_families

    def _raised(self, exposed: Exposed, shown: dict[tuple[str, tuple[str, ...]], Value]) -> Exposed:
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


NS_PER_S = 1_000_000_000
# 131 us to 1100 s: below, a step is hardly more than the call; above, nobody waits for the next.
_OCTAVES = range(17, 41)
_HALF_OCTAVE = BUCKETS_PER_OCTAVE // 2
_FIRST = _OCTAVES.start * BUCKETS_PER_OCTAVE
_LAST = (_OCTAVES.stop - 1) * BUCKETS_PER_OCTAVE
# Each is the lower bound of a bucket of ours: 2^k ns or 1.5 * 2^k ns. A quantile interpolated
# between two of them is off by less than half; twice as many series would halve that.
_BUCKETS = np.arange(_FIRST, _LAST + 1, _HALF_OCTAVE)
BOUNDS_NS: tuple[int, ...] = tuple(
    (2 + bucket % BUCKETS_PER_OCTAVE // _HALF_OCTAVE) << (bucket // BUCKETS_PER_OCTAVE - 1)
    for bucket in _BUCKETS.tolist()
)
BOUNDS_S: tuple[float, ...] = tuple(bound / NS_PER_S for bound in BOUNDS_NS)
# More steps than this no process has lived to make, and their sum still fits 64 bits.
_MOST_STEPS = 1 << 53


def histogram(parts: Sequence[Durations]) -> Histogram | Missing:
    """Return the histogram of some durations together.

    A duration of exactly a bound, to the ns, counts above it: buckets of ours end before theirs.
    """
    if sum(float(part.buckets.sum(dtype=np.float64)) for part in parts) > _MOST_STEPS:
        return Missing("the counts in steps.bin are inconsistent")
    buckets = sum((part.buckets for part in parts), start=np.zeros(1, dtype=np.int64))
    below = np.cumsum(buckets)[_BUCKETS - 1]
    sum_ns = sum(max(part.sum_ns, 0) for part in parts)
    return Histogram((*below.tolist(), int(buckets.sum())), sum_ns / NS_PER_S)
