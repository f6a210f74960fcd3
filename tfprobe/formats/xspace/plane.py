"""A plane of the host as all who decode it ask: what events are called, and where which are."""

from __future__ import annotations

from collections.abc import Collection
from operator import attrgetter
from typing import Any

import numpy as np

from tfprobe.formats.columns import signed
from tfprobe.formats.xspace.facts import EventNames
from tfprobe.formats.xspace.stats import PS_PER_NS
from tfprobe.profile.tables import Flags, Int32s, Int64s


class Plane:
    """One XPlane whose names and events were read once into columns: messages are slow to ask.

    `names` are those of events by their ids, as `metadata_id` has them, and `numbers` those of
    these names. Any: XPlane, XLine, XEvent.
    """

    def __init__(self, message: Any, names: EventNames) -> None:
        """Read names and ids; the clock of its lines has been set."""
        self.message = message
        self.lines: tuple[Any, ...] = tuple(message.lines)
        self.names: dict[int, str] = {at: each.name for at, each in message.event_metadata.items()}
        self.numbers = names.numbers(list(self.names.values()))
        ids = np.fromiter(self.names, dtype=np.int64, count=len(self.names))
        order = np.argsort(ids)
        self._known = ids[order], self.numbers[order]
        self._numbers = [self._numbers_of(line) for line in self.lines]
        self._times: dict[int, tuple[Int64s, Int64s]] = {}
        self._stats: dict[str, set[int]] = {}

    def name_of(self, event: Any) -> str:
        """Return what an event is called, "" where the plane does not say."""
        return self.names.get(event.metadata_id, "")

    def events(self, line: int, numbers: Collection[int]) -> list[Any]:
        """Return the events of a line, by its place, whose names have these numbers."""
        if not numbers:
            return []
        wanted = np.fromiter(numbers, dtype=np.int32, count=len(numbers))
        return self.events_at(line, np.flatnonzero(np.isin(self._numbers[line], wanted)))

    def events_at(self, line: int, places: Int64s) -> list[Any]:
        """Return the events of a line at these places."""
        events = self.lines[line].events
        return [events[at] for at in places.tolist()]

    def places(self, line: int, is_wanted: Flags) -> Int64s:
        """Return the places of the events whose names' numbers are wanted."""
        return np.flatnonzero(is_wanted[self._numbers[line]])

    def numbers_at(self, line: int, places: Int64s) -> Int32s:
        """Return the numbers of the names of events."""
        return self._numbers[line][places]

    def times_ns(self, line: int, places: Int64s) -> tuple[Int64s, Int64s]:
        """Return starts and durations of events of a line by their places.

        No event is held meanwhile: a million of them take more memory than all their columns.
        """
        if not len(places):
            return places, places
        if line not in self._times:
            message = self.lines[line]
            start_ns = message.timestamp_ns + _column(message, "offset_ps") // PS_PER_NS
            self._times[line] = start_ns, _column(message, "duration_ps") // PS_PER_NS
        start_ns, duration_ns = self._times[line]
        return start_ns[places], duration_ns[places]

    def stat_ids(self, name: str) -> set[int]:
        """Return the ids of the stats with this name."""
        if name not in self._stats:
            known = self.message.stat_metadata.items()
            self._stats[name] = {at for at, each in known if each.name == name}
        return self._stats[name]

    def integer(self, event: Any, name: str) -> int:
        """Return a stat of an event as `stats.number` does, 0 where it has none."""
        ids = self.stat_ids(name)
        for stat in event.stats if ids else ():
            if stat.metadata_id in ids:
                # At most one of them is set; the others are 0, and so is what is no number.
                return stat.int64_value or signed(stat.uint64_value or stat.ref_value)
        return 0

    def _numbers_of(self, line: Any) -> Int32s:
        ids, numbers = self._known
        wanted = _column(line, "metadata_id")
        if not len(ids):
            return np.zeros(len(wanted), dtype=np.int32)
        at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        return np.where(ids[at] == wanted, numbers[at], np.int32(0))


def _column(line: Any, name: str) -> Int64s:
    """Return one field of all events of a line. Any: an XLine."""
    events = line.events
    return np.fromiter(map(attrgetter(name), events), dtype=np.int64, count=len(events))
