"""A plane of the host as all who decode it ask: what events are called, and where which are."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from operator import attrgetter
from typing import Any

import numpy as np

from tfprobe.ingest.xspace.stats import PS_PER_NS
from tfprobe.model.tables import Int64s


class Plane:
    """One XPlane whose names, and ids of its events, were read once: messages are slow to ask.

    `names` are those of events by their ids, as `metadata_id` has them. Any: XPlane, XLine, XEvent.
    """

    def __init__(self, message: Any) -> None:
        """Read names and ids; the clock of its lines has been set."""
        self.message = message
        self.lines: tuple[Any, ...] = tuple(message.lines)
        self.names: dict[int, str] = {at: each.name for at, each in message.event_metadata.items()}
        self._ids = [_column(line, "metadata_id") for line in self.lines]

    def name_of(self, event: Any) -> str:
        """Return what an event is called, "" where the plane does not say."""
        return self.names.get(event.metadata_id, "")

    def events(self, line: int, ids: Collection[int]) -> list[Any]:
        """Return the events of a line, by its place, that have these ids; in their order."""
        if not ids:
            return []
        events = self.lines[line].events
        wanted = np.fromiter(ids, dtype=np.int64, count=len(ids))
        return [events[at] for at in self.places(line, wanted).tolist()]

    def places(self, line: int, ids: Int64s) -> Int64s:
        """Return the places of those events among all of their line."""
        return np.flatnonzero(np.isin(self._ids[line], ids))

    def ids_at(self, line: int, places: Int64s) -> Int64s:
        """Return the ids of events of a line by their places."""
        return self._ids[line][places]

    def times_ns(self, line: int, places: Int64s) -> tuple[Int64s, Int64s]:
        """Return starts and durations of events of a line by their places.

        No event is held meanwhile: a million of them take more memory than all their columns.
        """
        if not len(places):
            return places, places
        message = self.lines[line]
        start_ns = message.timestamp_ns + _column(message, "offset_ps")[places] // PS_PER_NS
        return start_ns, _column(message, "duration_ps")[places] // PS_PER_NS

    def first_events(self, line: int) -> Iterator[tuple[int, int]]:
        """Give each id of a line's events with the place of its first event, by that place."""
        ids, places = np.unique(self._ids[line], return_index=True)
        order = np.argsort(places)
        yield from zip(ids[order].tolist(), places[order].tolist(), strict=True)


def _column(line: Any, name: str) -> Int64s:
    """Return one field of all events of a line. Any: an XLine."""
    events = line.events
    return np.fromiter(map(attrgetter(name), events), dtype=np.int64, count=len(events))
