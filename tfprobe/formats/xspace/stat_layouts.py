"""Read the same few stats of very many events.

Events of one kind have the same stats in the same order, so where a stat is need be looked up only
once for each order.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NamedTuple

from tfprobe.formats.xspace.plane import number

_IDS = attrgetter("metadata_id")
# An event's key: its name, the order of its stats, and the values of some of them.
Key = tuple[object, ...]


class StatReader:
    """Reads two groups of stats by name: those that tell what an event is, and numbers of its own.

    Any: XEvents and their planes, whose classes are made at run time.
    """

    def __init__(self, plane: Any, kinds: Iterable[str], numbers: Iterable[str]) -> None:
        """Look up the ids of the names."""
        of_name: dict[str, set[int]] = {}
        for at, metadata in plane.stat_metadata.items():
            of_name.setdefault(metadata.name, set()).add(at)
        self._kinds = set[int]().union(*(of_name.get(name, set()) for name in kinds))
        self._numbers = [of_name.get(name, set()) for name in numbers]
        self._layouts: dict[tuple[int, ...], _Layout] = {}

    def read(self, event: Any) -> tuple[Key, tuple[int, ...]]:
        """Return what is equal for events of one kind, and the numbers of this one, 0 unknown."""
        stats = event.stats
        order = tuple(map(_IDS, stats))
        layout = self._layouts.get(order)
        if layout is None:
            layout = self._layouts[order] = self._layout(order)
        key = [event.metadata_id, layout.number]
        key += [_value(stats[at]) for at in layout.kinds]
        return tuple(key), tuple(
            0 if at is None else number(_value(stats[at])) for at in layout.numbers
        )

    def _layout(self, order: tuple[int, ...]) -> _Layout:
        kinds = tuple(at for at, stat in enumerate(order) if stat in self._kinds)
        places = (
            [at for at, stat in enumerate(order) if stat in wanted] for wanted in self._numbers
        )
        numbers = tuple(found[-1] if found else None for found in places)
        return _Layout(len(self._layouts), kinds, numbers)


class _Layout(NamedTuple):
    """An order of stats, numbered, and where in it those that are wanted are."""

    number: int
    kinds: tuple[int, ...]
    numbers: tuple[int | None, ...]


def _value(stat: Any) -> Any:
    """Return the value of a stat, a reference by its number. Any: an XStat and its value."""
    return stat.ref_value or stat.uint64_value or stat.int64_value or stat.str_value
