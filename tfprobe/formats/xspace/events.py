"""Read an XSpace: events and their stats into columns, everything else as messages.

A capture may have millions of events with several stats each, and few of anything else. Bytes in a
form that protobuf writers do not produce, and damaged ones, first go through the protobuf library,
which refuses them or rewrites them, so that the result does not depend on the form.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tfprobe.errors import UnreadableInput
from tfprobe.formats.schema import message_class, parse
from tfprobe.formats.wire import (
    Buffer,
    Extents,
    Fields,
    NumberedTexts,
    OtherForm,
    Repeated,
    are_texts,
    texts,
)
from tfprobe.profile.tables import Flags, Int32s, Int64s, int64s, signed

_XSPACE = "tfprobe.xplane.XSpace"
PS_PER_NS = 1000


def read_planes(content: bytes) -> tuple[EventPlane, ...]:
    """Return the planes of an XSpace.

    Raises UnreadableInput if the bytes are not one.
    """
    try:
        return _planes(content)
    except OtherForm:
        space = parse(content, _XSPACE)
        space.DiscardUnknownFields()
    try:
        return _planes(space.SerializeToString())
    except OtherForm as exc:
        raise UnreadableInput("an XSpace that no protobuf writer produces") from exc


def holds_planes(content: bytes) -> bool:
    """Return whether the bytes are an XSpace with lines, as far as can be told without its events.

    A plane of a capture is named like a path.
    """
    try:
        found = _outline(Buffer((content,)))
        names = [found.buffer.content[at : at + 1] for at in found.name.start.tolist()]
        owners = found.lines.owner.tolist()
    except OtherForm:
        try:
            planes = parse(content, _XSPACE).planes
        except UnreadableInput:
            return False
        names = [each.name[:1].encode() for each in planes]
        owners = [at for at, each in enumerate(planes) if each.lines]
    return any(names[at] == b"/" for at in owners)


class EventPlane:
    """A plane. Any: `message` is its XPlane without lines."""

    def __init__(self, message: Any) -> None:
        """Start without lines."""
        self.message = message
        self.name = str(message.name)
        self.lines: tuple[EventLine, ...] = ()
        self.stat_names = {at: str(each.name) for at, each in message.stat_metadata.items()}

    def stat_ids(self, *names: str) -> set[int]:
        """Return the ids of the stats with one of these names."""
        return {at for at, name in self.stat_names.items() if name in names}

    def event_name(self, number: int) -> str:
        """Return the name of the events with this id, "" if the plane does not have it."""
        known = self.message.event_metadata
        return str(known[number].name) if number in known else ""


class EventLine:
    """A line of a plane: its own fields and its events, which are numbered from 0."""

    def __init__(self, plane: EventPlane, fields: LineFields, events: _Events, rows: slice) -> None:
        """Take these rows of the events of the file."""
        self.id, self.name, self.display_name, self.timestamp_ns = fields
        self._plane = plane
        self._events = events
        self._rows = rows
        self.ids: Int64s = events.ids[rows]

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.ids)

    def every(self) -> Int64s:
        """Return the numbers of all events."""
        return np.arange(len(self))

    def times_ns(self, places: Int64s) -> tuple[Int64s, Int64s]:
        """Return starts and durations of events."""
        offset_ps = self._events.offset_ps[self._rows][places]
        duration_ps = self._events.duration_ps[self._rows][places]
        return self.timestamp_ns + offset_ps // PS_PER_NS, duration_ps // PS_PER_NS

    def have(self, stat_ids: Collection[int], places: Int64s) -> Flags:
        """Return which events have one of these stats."""
        return self._stat_rows(stat_ids, places) >= 0

    def integers(self, stat_ids: Collection[int], places: Int64s) -> Int64s:
        """Return a stat of each event as a signed number, 0 if it has none or no number."""
        rows = self._stat_rows(stat_ids, places)
        stats = self._events.stats
        found = np.zeros(len(rows), dtype=np.int64)
        (there,) = (rows >= 0).nonzero()
        there = there[np.isin(stats.kind[rows[there]], _NUMBERS)]
        found[there] = stats.value[rows[there]].view(np.int64)
        return found

    def stats(self, places: Int64s) -> list[dict[str, Any]]:
        """Return the stats of events by name, with references resolved. Any: their values."""
        first, after = (each[places] for each in self._stat_bounds())
        count = after - first
        rows = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
        named = iter(self._named_values(rows))
        return [
            {name: value for name, value in (next(named) for _ in range(each)) if name is not None}
            for each in count.tolist()
        ]

    def alike(self, stat_ids: Iterable[Collection[int]], places: Int64s) -> EventKinds:
        """Divide events into kinds: those of one kind have the same id and the same stats."""
        codes, count = dense(self.ids[places])
        for ids in stat_ids:
            rows = self._stat_rows(ids, places)
            if (rows >= 0).any():
                values, several = dense(self._values(rows))
                codes, count = dense(codes * several + values)
        first = np.full(count, len(places))
        # Of equal indices the last one counts.
        first[codes[::-1]] = np.arange(len(places))[::-1]
        return EventKinds(codes, places[first])

    def _values(self, rows: Int64s) -> Int64s:
        """Return a number for each stat, -1 for none; numbers are equal if kind and value are."""
        found = np.full(len(rows), -1)
        (there,) = (rows >= 0).nonzero()
        rows, stats = rows[there], self._events.stats
        kinds = stats.kind[rows].astype(np.int64)
        values, several = dense(stats.value[rows].view(np.int64))
        (written,) = np.isin(kinds, (_TEXT, _BYTES)).nonzero()
        if len(written):
            values[written] = self._numbered(stats.extents(rows[written]))
            several = max(several, int(values.max()) + 1)
        found[there] = kinds * several + values
        return found

    def _numbered(self, extents: Extents) -> Int64s:
        """Return numbers of texts or bytes, equal where these are."""
        try:
            return NumberedTexts().numbers(self._events.buffer, extents).astype(np.int64)
        except OtherForm:  # bytes that are no text
            known: dict[bytes, int] = {}
            every = texts(self._events.buffer, extents)
            return int64s(known.setdefault(each, len(known)) for each in every)

    def _stat_rows(self, stat_ids: Collection[int], places: Int64s) -> Int64s:
        """Return the row of the last of these stats that each event has, -1 if it has none."""
        stats = self._events.stats
        first = self._events.first_stat[self._rows.start : self._rows.stop + 1]
        mine = slice(int(first[0]), int(first[-1])) if len(first) else slice(0)
        found = np.full(len(self), -1)
        for at in stat_ids:
            (rows,) = (stats.ids[mine] == at).nonzero()
            rows += mine.start
            owners = stats.owner[rows] - self._rows.start
            found[owners] = np.maximum(found[owners], rows)
        return found[places]

    def _stat_bounds(self) -> tuple[Int64s, Int64s]:
        first = self._events.first_stat[self._rows.start : self._rows.stop + 1]
        return first[:-1], first[1:]

    def _named_values(self, rows: Int64s) -> Iterable[tuple[str | None, Any]]:
        stats, names = self._events.stats, self._plane.stat_names
        columns = (stats.ids, stats.kind, stats.value, stats.length)
        for at, kind, value, length in zip(*(each[rows].tolist() for each in columns), strict=True):
            yield (names.get(at, "") if kind else None), self._value(kind, value, length)

    def _value(self, kind: int, value: int, length: int) -> Any:
        if kind == _SIGNED:
            return signed(value)
        if kind == _REFERENCE:
            return self._plane.stat_names.get(value, "")
        if kind in (_TEXT, _BYTES):
            written = self._events.buffer.content[value : value + length]
            return written.decode() if kind == _TEXT else written
        return float(np.uint64(value).view(np.float64)) if kind == _DOUBLE else value


class EventKinds(NamedTuple):
    """Kinds of events: the kind of each event, from 0 on, and the first event of each kind."""

    kinds: Int64s
    examples: Int64s


class LineFields(NamedTuple):
    """What a line says of itself; `timestamp_ns` is what its events count from."""

    id: int
    name: str
    display_name: str
    timestamp_ns: int


def dense(values: Int64s) -> tuple[Int64s, int]:
    """Return numbers from 0 on that are equal where values are, and how many there are."""
    if not len(values):
        return values, 0
    least, most = int(values.min()), int(values.max())
    if most - least < 2 * len(values):
        is_there = np.zeros(most - least + 1, dtype=np.bool_)
        is_there[values - least] = True
        return (np.cumsum(is_there) - 1)[values - least], int(np.count_nonzero(is_there))
    distinct, codes = np.unique(values, return_inverse=True)
    return codes, len(distinct)


# The fields of an XStat that hold its value.
_NONE, _DOUBLE, _UNSIGNED, _SIGNED, _TEXT, _BYTES, _REFERENCE = 0, 2, 3, 4, 5, 6, 7
_NUMBERS = (_UNSIGNED, _SIGNED, _REFERENCE)


@dataclass(frozen=True, slots=True)
class _Stats:
    """Stats in columns, those of one event together; `owner` is their event.

    `kind` is the field of the value. `value` is its bits, or where in the buffer a text begins.
    """

    owner: Int64s
    ids: Int64s
    kind: npt.NDArray[np.uint8]
    value: npt.NDArray[np.uint64]
    length: Int32s

    def extents(self, rows: Int64s) -> Extents:
        start = self.value[rows].view(np.int64)
        return Extents(start, start + self.length[rows])


@dataclass(frozen=True, slots=True)
class _Events:
    """The events of a file in columns, line by line; stats of one begin at `first_stat`."""

    buffer: Buffer
    ids: Int64s
    offset_ps: Int64s
    duration_ps: Int64s
    first_stat: Int64s
    stats: _Stats


class _Outline(NamedTuple):
    """The planes of a file and their lines; what a plane says beside these is around `between`."""

    buffer: Buffer
    planes: Extents
    name: Extents
    between: Extents
    lines: Repeated


def _outline(buffer: Buffer) -> _Outline:
    """Return where planes are. Raises OtherForm if the form is not that of writers."""
    size = len(buffer)
    space = Fields(buffer, Extents(np.zeros(1, dtype=np.int64), np.array([size])))
    planes = space.repeated(1).extents
    notes = [space.repeated(field).extents for field in (2, 3, 4)]
    _end(space)
    if not all(are_texts(buffer, each) for each in notes):
        raise OtherForm
    fields = Fields(buffer, planes)
    fields.skip_numbers(1, are_long=True)
    name, before = fields.extents(2), fields.at
    lines = fields.repeated(3)
    return _Outline(buffer, planes, name, Extents(before, fields.at), lines)


def _planes(content: bytes) -> tuple[EventPlane, ...]:
    """Return the planes. Raises OtherForm if the form is not that of writers."""
    outline = _outline(Buffer((content,)))
    buffer, lines = outline.buffer, outline.lines
    ends = (*outline.planes, *outline.between)
    found = [
        EventPlane(_message(buffer.content[start:head] + buffer.content[tail:end]))
        for start, end, head, tail in zip(*(each.tolist() for each in ends), strict=True)
    ]
    written, owner, events = _lines(buffer, lines.extents)
    bounds = np.searchsorted(owner, np.arange(len(written) + 1)).tolist()
    made: list[list[EventLine]] = [[] for _ in found]
    for at, plane in enumerate(lines.owner.tolist()):
        rows = slice(bounds[at], bounds[at + 1])
        made[plane].append(EventLine(found[plane], written[at], events, rows))
    for each, its_lines in zip(found, made, strict=True):
        each.lines = tuple(its_lines)
    return tuple(found)


def _message(content: bytes) -> Any:
    """Return the XPlane without its lines. Any: the class is made at run time."""
    message = message_class("tfprobe.xplane.XPlane")()
    try:
        message.ParseFromString(content)
    except Exception as exc:  # protobuf's DecodeError has no base class common to all versions
        raise OtherForm from exc
    if message.lines:
        raise OtherForm
    return message


def _lines(buffer: Buffer, lines: Extents) -> tuple[list[LineFields], Int64s, _Events]:
    """Return lines, the line of each event, and the events."""
    fields = Fields(buffer, lines)
    ids, name, timestamp_ns = fields.integers(1), fields.extents(2), fields.integers(3)
    events = fields.repeated(4)
    fields.skip_numbers(9, 10, are_long=True)
    shown = fields.extents(11)
    _end(fields)
    if not are_texts(buffer, name, shown):
        raise OtherForm
    columns = (ids.tolist(), _texts(buffer, name), _texts(buffer, shown), timestamp_ns.tolist())
    written = [LineFields(*line) for line in zip(*columns, strict=True)]
    return written, events.owner, _events(buffer, events.extents)


def _texts(buffer: Buffer, extents: Extents) -> Sequence[str]:
    places = zip(extents.start.tolist(), extents.end.tolist(), strict=True)
    return [buffer.content[start:end].decode() for start, end in places]


def _events(buffer: Buffer, events: Extents) -> _Events:
    fields = Fields(buffer, events)
    ids = fields.integers(1)
    offset_ps = fields.integers(2, are_long=True)
    duration_ps = fields.integers(3, are_long=True)
    stats = fields.repeated(4)
    before = fields.at
    fields.skip_numbers(5)
    if ((fields.at != before) & (offset_ps != 0)).any():
        raise OtherForm  # of an offset and a number of occurrences, the last one counts
    _end(fields)
    count = np.bincount(stats.owner, minlength=len(ids))
    first = np.concatenate(([0], np.cumsum(count)))
    read = _stats(buffer, stats.owner, stats.extents)
    return _Events(buffer, ids, offset_ps, duration_ps, first, read)


def _stats(buffer: Buffer, owner: Int64s, stats: Extents) -> _Stats:
    fields = Fields(buffer, stats)
    ids = fields.integers(1)
    at = fields.at
    kind = np.where(at < stats.end, buffer.bytes[at] >> 3, np.uint8(_NONE))
    value = np.zeros(len(ids), dtype=np.uint64)
    length = np.zeros(len(ids), dtype=np.int32)
    for field in np.flatnonzero(np.bincount(kind)).tolist():
        (rows,) = (kind == field).nonzero()
        # Of several values the last one counts: with more than one, not all is read.
        fields = Fields(buffer, Extents(at[rows], stats.end[rows]))
        if field == _DOUBLE:
            value[rows] = fields.fixed64(field)
        elif field in _NUMBERS:
            value[rows] = fields.numbers(field)
        elif field in (_TEXT, _BYTES):
            extents = fields.extents(field)
            value[rows], length[rows] = extents.start.view(np.uint64), extents.length
            if field == _TEXT and not are_texts(buffer, extents):
                raise OtherForm
        _end(fields)
    return _Stats(owner, ids, kind, value, length)


def _end(fields: Fields) -> None:
    if not fields.are_done():
        raise OtherForm
