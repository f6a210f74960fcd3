"""What a metric family is and what its series hold. Knows neither runs nor formats."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tfprobe.printable import replaced

# Long enough for the fetches of most sessions; whoever wants all of it asks `tfprobe report`.
LONGEST_LABEL = 120
_LOST = "\N{REPLACEMENT CHARACTER}"


class Kind(Enum):
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
    kind: Kind
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
