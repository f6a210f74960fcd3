"""Read the stats of planes and events: facts by name, numbers that fit into columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfprobe.formats.columns import int64s, signed
from tfprobe.profile.tables import Int64s

PS_PER_NS = 1000


def stat_values(plane: Any, stats: Any) -> dict[str, Any]:
    """Return stats by name, references followed. Any: XStats and what they hold."""
    values: dict[str, Any] = {}
    for stat in stats:
        kind = stat.WhichOneof("value")
        if kind is None:
            continue
        value = getattr(stat, kind)
        if kind == "ref_value":
            value = plane.stat_metadata[value].name
        values[plane.stat_metadata[stat.metadata_id].name] = value
    return values


def number(value: object) -> int:
    """Return a stat as a number with a sign, 0 where it is none."""
    return signed(value) if isinstance(value, int) else 0


def times_ns(line: Any, events: Sequence[Any]) -> tuple[Int64s, Int64s]:
    """Return starts and durations of events of a line."""
    # Lists, because a generator takes a third longer.
    start_ns = line.timestamp_ns + int64s([event.offset_ps for event in events]) // PS_PER_NS
    return start_ns, int64s([event.duration_ps for event in events]) // PS_PER_NS
