"""A plane of the host as all who decode it ask: what events are called, and where which are."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

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
        self._ids: list[Int64s] = [
            np.array([event.metadata_id for event in line.events], dtype=np.int64)
            for line in self.lines
        ]

    def name_of(self, event: Any) -> str:
        """Return what an event is called, "" where the plane does not say."""
        return self.names.get(event.metadata_id, "")

    def events(self, line: int, ids: Collection[int]) -> list[Any]:
        """Return the events of a line, by its place, that have these ids; in their order."""
        if not ids:
            return []
        wanted = np.fromiter(ids, dtype=np.int64, count=len(ids))
        found = np.flatnonzero(np.isin(self._ids[line], wanted))
        events = self.lines[line].events
        return [events[at] for at in found.tolist()]

    def first_events(self, line: int) -> Iterator[tuple[int, int]]:
        """Give each id of a line's events with the place of its first event, by that place."""
        ids, places = np.unique(self._ids[line], return_index=True)
        order = np.argsort(places)
        yield from zip(ids[order].tolist(), places[order].tolist(), strict=True)
