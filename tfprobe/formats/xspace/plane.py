"""A plane of the host as its decoders need it: the names of events, and where events are."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tfprobe.formats.xspace.events import EventLine, EventPlane
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.tables import Flags, Int32s, Int64s, signed


class Plane:
    """A plane of the host: its lines, and numbers for the names of its events.

    `numbers` are the numbers of all names of the plane.
    """

    def __init__(self, plane: EventPlane, names: EventNames) -> None:
        """Number the names; the clock of the lines has been set."""
        self.name = plane.name
        self.lines = plane.lines
        self._plane = plane
        known = plane.message.event_metadata
        self.numbers = names.numbers([each.name for each in known.values()])
        ids = np.fromiter(known, dtype=np.int64, count=len(known))
        order = np.argsort(ids)
        self._known = ids[order], self.numbers[order]
        self._texts = names.texts
        self._numbers = [self._numbers_of(line) for line in self.lines]

    def places(self, line: int, is_wanted: Flags) -> Int64s:
        """Return the indices of the events whose names' numbers are wanted."""
        return np.flatnonzero(is_wanted[self._numbers[line]])

    def named(self, is_wanted: Callable[[str], bool]) -> Iterator[tuple[int, Int64s]]:
        """Yield the lines, by their numbers, and the indices of their events with such names."""
        found = {at for at in self.numbers.tolist() if is_wanted(self._texts[at])}
        wanted = np.fromiter(found, dtype=np.int32, count=len(found))
        for at, numbers in enumerate(self._numbers if found else ()):
            yield at, np.flatnonzero(np.isin(numbers, wanted))

    def numbers_at(self, line: int, places: Int64s) -> Int32s:
        """Return the numbers of the names of events."""
        return self._numbers[line][places]

    def names_at(self, line: int, places: Int64s) -> list[str]:
        """Return the names of events, "" where the plane does not have it."""
        return [self._texts[at] for at in self._numbers[line][places].tolist()]

    def times_ns(self, line: int, places: Int64s) -> tuple[Int64s, Int64s]:
        """Return starts and durations of events of a line by their indices."""
        return self.lines[line].times_ns(places)

    def stat_ids(self, *names: str) -> set[int]:
        """Return the ids of the stats with one of these names."""
        return self._plane.stat_ids(*names)

    def integers(self, line: int, places: Int64s, name: str) -> Int64s:
        """Return a stat of events as `number` does, 0 where they have none."""
        return self.lines[line].integers(self.stat_ids(name), places)

    def stats(self, line: int, places: Int64s) -> list[dict[str, Any]]:
        """Return the stats of events by name, with references resolved. Any: their values."""
        return self.lines[line].stats(places)

    def _numbers_of(self, line: EventLine) -> Int32s:
        ids, numbers = self._known
        if not len(ids):
            return np.zeros(len(line), dtype=np.int32)
        at = np.minimum(np.searchsorted(ids, line.ids), len(ids) - 1)
        return np.where(ids[at] == line.ids, numbers[at], np.int32(0))


HOST = "/host:CPU"
# Driver calls, before they are merged into the lines of HOST when a trace is exported.
DRIVER = "/host:CUPTI"
# The prefix of the name of a tf.data GetNext; the rest is its path.
ITERATOR = "Iterator::"
_GPU_PLANE = re.compile(r"/device:GPU:\d+")
# Lines of a GPU plane that repeat the streams, derived when the trace was exported.
_DERIVED_LINES = (
    "Framework Name Scope",
    "Framework Ops",
    "Launch Stats",
    "Source code",
    "Steps",
    "TensorFlow Name Scope",
    "TensorFlow Ops",
    "XLA Modules",
    "XLA Ops",
)
# Lines of a GPU plane that are not streams: tracing overhead, and counters.
_LINES_OF_THE_TRACER = ("CUPTI overhead", "_counters_")
_TF_DATA_THREADS = ("tf_data_private_threadpool", "tf_data_iterator_resource")
# Names as TensorFlow's own parser accepts them (tsl/profiler/utils/tf_op_utils.cc).
_OP = re.compile(r"(?P<name>[A-Za-z0-9._][\w.\\/>\-]*):(?P<type>[A-Z_]\w*)\Z")
# "MemcpyH2D" in an XSpace, "MEMCPYHtoD" in older tracers; without a direction, a device's own.
_COPY = re.compile(r"\Amem(?:cpy|set)(?:(?P<from>[HDP])(?:to|2)(?P<to>[HDP]))?", re.IGNORECASE)
_ENDS = re.compile(r"kind_src:(?P<from>\w+) kind_dst:(?P<to>\w+)")
_HOST_MEMORY = ("pageable", "pinned")
_COPY_SIZE = re.compile(r"(?:num_bytes|size):(\d+)")


def is_gpu(plane: str) -> bool:
    """Return whether a plane contains a GPU's activity."""
    return _GPU_PLANE.match(plane) is not None


def line_name(line: EventLine) -> str:
    """Return the name of a line."""
    return line.display_name or line.name


def is_derived(line: str) -> bool:
    """Return whether a line of a GPU repeats the contents of its streams."""
    return line.startswith(_DERIVED_LINES)


def is_stream(line: str) -> bool:
    """Return whether a line of a GPU is a stream: neither derived nor the tracer's own."""
    if is_derived(line) or line.startswith(_LINES_OF_THE_TRACER):
        return False
    # A line of numbers of CUDA graphs and their nodes.
    return line.startswith("Stream") or "graph" not in line.lower()


def is_background(thread: str) -> bool:
    """Return whether a thread prepares later steps."""
    return thread.startswith(_TF_DATA_THREADS)


@functools.lru_cache(maxsize=2**16)
def op_of(event: str) -> tuple[str, str] | None:
    """Return node and op of an event name such as "scope/name:Type"; None if it is not an op."""
    op = _OP.match(event)
    return None if op is None else (op["name"], op["type"])


def place_of(kernel: str, details: str = "") -> Place:
    """Return the direction of a copy, from its name or its details; else ACCELERATOR."""
    copy = _COPY.match(kernel)
    if copy is None:
        return Place.ACCELERATOR
    if copy["from"]:
        return _direction(f"{copy['from']}{copy['to']}".upper())
    ends = _ENDS.search(details)
    if ends is None:
        return Place.DEVICE_TO_DEVICE
    return _direction("".join("H" if ends[at] in _HOST_MEMORY else "D" for at in ("from", "to")))


def copy_bytes(details: str) -> int:
    """Return the size of a copy or a memset from its details, 0 if they do not contain it."""
    size = _COPY_SIZE.search(details)
    return int(size[1]) if size else 0


def _direction(ends: str) -> Place:
    places = {"HD": Place.HOST_TO_DEVICE, "DH": Place.DEVICE_TO_HOST}
    return places.get(ends, Place.DEVICE_TO_DEVICE)


class EventNames:
    """The names of events in the captures so far, each with a number; 0 means no name."""

    def __init__(self) -> None:
        """Start with no names."""
        self.texts: list[str] = [""]
        self._numbers: dict[str, int] = {"": 0}

    def numbers(self, texts: list[str]) -> Int32s:
        """Return the numbers of names."""
        known = self._numbers
        for text in texts:
            if text not in known:
                known[text] = len(self.texts)
                self.texts.append(text)
        return np.fromiter(map(known.__getitem__, texts), dtype=np.int32, count=len(texts))


class EventFacts:
    """What names mean: `find` turns a name into numbers, equally many for each name."""

    def __init__(self, names: EventNames, find: Callable[[str], Iterable[int]]) -> None:
        """Start with the empty name only."""
        self._names = names
        self._find = find
        self._rows = np.array([[*find("")]], dtype=np.int32)

    def columns(self) -> tuple[Int32s, ...]:
        """Return the columns of what all names mean, by their numbers."""
        new = [[*self._find(text)] for text in self._names.texts[len(self._rows) :]]
        if new:
            self._rows = np.concatenate((self._rows, np.array(new, dtype=np.int32)))
        return tuple(self._rows.T)


def stat_values(plane: Any, stats: Any) -> dict[str, Any]:
    """Return stats by name, with references resolved. Any: XStats and their values."""
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
    """Return a stat as a signed number, 0 if it is not a number."""
    return signed(value) if isinstance(value, int) else 0
