"""Read the events of a trace of PyTorch's profiler into columns.

Categories are those of libkineto (libkineto/src/output_json.cpp, ActivityType.cpp).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from math import prod
from typing import Any

import numpy as np
import orjson

from tfprobe.errors import UnreadableInput
from tfprobe.formats.kineto.documents import documents, without_collecting
from tfprobe.profile.tables import Int64s, Interner


class Kind(IntEnum):
    """What a box stands for."""

    OP = 0
    # An annotation that has ops in it; one that marks a step; a frame of Python.
    ANNOTATION = 1
    STEP = 2
    FRAME = 3
    CALL = 4
    KERNEL = 5
    COPY = 6
    MEMSET = 7


# Current categories, and those used until PyTorch 1.12.
_CATEGORIES: Mapping[object, Kind] = {
    **dict.fromkeys(("cpu_op", "Operator"), Kind.OP),
    "user_annotation": Kind.ANNOTATION,
    **dict.fromkeys(("python_function", "PythonFunction", "Python"), Kind.FRAME),
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "Runtime"), Kind.CALL),
    **dict.fromkeys(("kernel", "Kernel"), Kind.KERNEL),
    **dict.fromkeys(("gpu_memcpy", "Memcpy"), Kind.COPY),
    **dict.fromkeys(("gpu_memset", "Memset"), Kind.MEMSET),
}
# What only such a trace has.
_TELLING = (
    rb"cpu_op|Operator|cuda_runtime|cuda_driver|Runtime|kernel|Kernel|gpu_memcpy|Memcpy"
    rb"|gpu_memset|Memset"
)
_IS_KINETO = re.compile(rb'"cat"\s*:\s*"(?:' + _TELLING + rb')"')
_STEP = re.compile(r"ProfilerStep\s*#(\d+)\Z")
# Annotations that are host work rather than calls around ops: collectives of its CPUs.
_ON_HOST = "gloo:"
# Between two ranks, as c10d names it.
_ONE_TO_ONE = re.compile(r"send|recv")
_MEMORY = "[memory]"
# What the agent adds to the traces that it takes.
_CALLS, _OF_CALLS = "tfprobe_calls", ("files", "start_ns", "file", "line")
_FLOWS = ("fwdbwd", "forward_backward")
# Ops whose arguments must be known besides shapes, to count what they compute.
_WITH_VALUES = re.compile(r"aten::(?:\w*(?:conv|pool|batch_norm)\w*|sum|mean|linalg_vector_norm)\Z")
_UNKNOWN = -1
_MOST_ELEMENTS = 2**48
# The year 2116: half of what fits, so that two can be added.
_LATEST_NS = 2**62
_NS_PER_US = 1000


def is_kineto(content: bytes) -> bool:
    """Return whether JSON is such a trace: its events have Kineto's categories."""
    return _IS_KINETO.search(content) is not None


@dataclass(slots=True)
class KinetoEvents:
    """The events of a trace. Columns of boxes have one row per box; texts are positions.

    `lane` is a position in `lanes`. `correlation` of a kernel or copy is that of its call.
    `external` is the number of the op, which its kernels have, too. `size` is in bytes, that of a
    copy or memset. `sequence` and `forward` are the number that an op of the backward pass shares
    with the op that it differentiates, and that op's thread, -1 and 0 if unknown. `message` are the
    bytes that a collective moves, `group` is the name of its group, -1 if unknown; `collective` is
    what it is called in all ranks of the group, -1 if they do not number theirs. `signature` are
    the shapes and types of arguments, a position in `signatures`, -1 if unknown. `call` is the line
    that called a function, a position in `call_lines`, -1 if unknown.
    """

    head: dict[str, Any] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    lanes: list[tuple[str, str]] = field(default_factory=list)
    lane_names: dict[tuple[str, str], str] = field(default_factory=dict)
    signatures: list[tuple[Any, Any, Any]] = field(default_factory=list)
    call_lines: list[tuple[str, int]] = field(default_factory=list)
    kind: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    name: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    lane: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    start_ns: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    duration_ns: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    correlation: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    external: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    device: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    size: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    sequence: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    forward: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    message: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    group: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    collective: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    signature: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    call: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    # Allocations: time, lane, address, bytes, and what was allocated and reserved then; the type
    # and the number of the device.
    memory: tuple[Int64s, ...] = ()
    # Both ends of links from an op to the one that differentiates it: number, whether it is the
    # end, lane, time.
    links: tuple[Int64s, ...] = ()

    def lane_name(self, lane: int) -> str:
        """Return the name of a thread or stream, else its number."""
        key = self.lanes[lane]
        return self.lane_names.get(key, key[1])


def text_positions(interner: Interner, texts: list[str], column: Int64s) -> Int64s:
    """Return a column of numbers of texts as positions in an interner, -1 as that of ""."""
    found = np.zeros(len(texts) + 1, dtype=np.int64)
    for number in np.unique(column).tolist():
        found[number] = interner.position(texts[number]) if number != _UNKNOWN else 0
    positions: Int64s = found[column]
    return positions


def read_events(content: bytes) -> KinetoEvents:
    """Return the events of a trace.

    Raises UnreadableInput if the bytes are not JSON, contain no trace events or invalid times.
    """
    reader = _Reader()
    with without_collecting():
        for document in documents(content):
            found = document.pop("traceEvents", None)
            if not isinstance(found, list):
                raise UnreadableInput("JSON without trace events")
            reader.add(found)
            reader.head |= document
    return reader.events()


class _Reader:
    """Gathers events into columns."""

    def __init__(self) -> None:
        self.head: dict[str, Any] = {}
        self._texts: dict[str, int] = {}
        self._lanes: dict[tuple[Any, Any], int] = {}
        self._lane_names: dict[tuple[str, str], str] = {}
        self._signatures: dict[bytes, int] = {}
        self._known: list[tuple[Any, Any, Any]] = []
        self._integers = {name: array("q") for name in _INTEGERS}
        self._us = {name: array("d") for name in ("start", "duration")}
        self._memory = [array("q") for _ in range(6)]
        self._memory_us, self._memory_lane = array("d"), array("q")
        self._links = [array("q") for _ in range(3)]
        self._links_us = array("d")

    def add(self, events: Iterable[Any]) -> None:
        """Add events. Any: JSON."""
        for event in events:
            if not isinstance(event, dict):
                continue
            phase = event.get("ph")
            if phase == "X":
                self._add_box(event)
            elif phase == "i":
                if event.get("name") == _MEMORY:
                    self._add_memory(event)
            elif phase in ("s", "f"):
                if event.get("cat") in _FLOWS:
                    self._add_link(event, phase)
            elif phase == "M" and event.get("name") == "thread_name":
                key = str(event.get("pid")), str(event.get("tid"))
                self._lane_names[key] = str(_args(event).get("name", "")).strip()

    def _add_box(self, event: dict[str, Any]) -> None:
        category = event.get("cat")
        if not isinstance(category, str):
            return
        kind = _CATEGORIES.get(category)
        if kind is None:
            return
        name = str(event.get("name", ""))
        if kind <= Kind.ANNOTATION:
            if name.startswith("ProfilerStep") and _STEP.match(name):
                kind = Kind.STEP
            elif kind is Kind.ANNOTATION and name.startswith(_ON_HOST):
                kind = Kind.OP
        try:
            self._us["start"].append(event["ts"])
            self._us["duration"].append(event["dur"])
        except (KeyError, TypeError, OverflowError) as exc:
            raise UnreadableInput(f"a box without a start and a duration ({event})") from exc
        args = _args(event)
        get, columns = args.get, self._integers
        columns["kind"].append(kind)
        columns["name"].append(self._text(name))
        columns["lane"].append(self._lane(event))
        columns["correlation"].append(_integer(get("correlation")))
        columns["external"].append(_integer(get("External id", get("external id"))))
        columns["device"].append(_integer(get("device")))
        columns["size"].append(_integer(get("bytes")) or _integer(get("size")))
        columns["sequence"].append(_integer(get("Sequence number"), _UNKNOWN))
        columns["forward"].append(_integer(get("Fwd thread id")))
        is_collective = "Collective name" in args
        message = _message(args) if is_collective or name.startswith(_ON_HOST) else 0
        columns["message"].append(message)
        group = get("Process Group Name") if is_collective else None
        columns["group"].append(self._text(group) if isinstance(group, str) else _UNKNOWN)
        collective = _collective(args) if is_collective else None
        columns["collective"].append(self._text(collective) if collective else _UNKNOWN)
        columns["signature"].append(self._signature(name, args) if kind is Kind.OP else _UNKNOWN)

    def _add_memory(self, event: dict[str, Any]) -> None:
        args = _args(event)
        numbers = [_signed(args.get(name)) for name in _OF_MEMORY]
        at_us = event.get("ts")
        if None in numbers[:2] or isinstance(at_us, bool) or not isinstance(at_us, int | float):
            return
        self._memory_us.append(at_us)
        self._memory_lane.append(self._lane(event))
        for column, number in zip(self._memory, numbers, strict=True):
            column.append(_UNKNOWN if number is None else number)

    def _add_link(self, event: dict[str, Any], phase: str) -> None:
        number, at_us = _signed(event.get("id")), event.get("ts")
        if number is None or isinstance(at_us, bool) or not isinstance(at_us, int | float):
            return
        self._links_us.append(at_us)
        for column, value in zip(
            self._links, (number, phase == "f", self._lane(event)), strict=True
        ):
            column.append(value)

    def _text(self, text: str) -> int:
        known = self._texts.get(text)
        if known is None:
            known = self._texts[text] = len(self._texts)
        return known

    def _lane(self, event: dict[str, Any]) -> int:
        pid, tid = event.get("pid"), event.get("tid")
        try:
            known = self._lanes.get((pid, tid))
        except TypeError:  # lists are no numbers of threads
            pid, tid = str(pid), str(tid)
            known = self._lanes.get((pid, tid))
        if known is None:
            known = self._lanes[pid, tid] = len(self._lanes)
        return known

    def _signature(self, name: str, args: Mapping[str, Any]) -> int:
        shapes = args.get("Input Dims") or args.get("Input dims")
        if not shapes:
            return _UNKNOWN
        values = args.get("Concrete Inputs") if _WITH_VALUES.match(name) else None
        found = shapes, args.get("Input type"), values
        try:
            key = orjson.dumps(found)
        except (TypeError, ValueError):  # numbers of more than 64 bits, or too deep
            return _UNKNOWN
        known = self._signatures.get(key)
        if known is None:
            known = self._signatures[key] = len(self._known)
            self._known.append(found)
        return known

    def events(self) -> KinetoEvents:
        """Return the columns, with times in unix ns where the trace says when it began."""
        base_ns = self.head.get("baseTimeNanoseconds", 0)
        is_base = isinstance(base_ns, int) and not isinstance(base_ns, bool)
        base_ns = base_ns if is_base and 0 <= base_ns < _LATEST_NS else 0
        columns = {name: _column(values) for name, values in self._integers.items()}
        start_ns = _times_ns(self._us["start"], base_ns)
        duration_ns = _times_ns(self._us["duration"], 0)
        if (duration_ns < 0).any():
            raise UnreadableInput("a box that ends before it starts")
        if (start_ns >= _LATEST_NS - duration_ns).any():
            raise UnreadableInput("a box of the far future")
        call, call_lines = _calls(self.head.get(_CALLS), columns["kind"], start_ns)
        return KinetoEvents(
            head=self.head,
            call=call,
            call_lines=call_lines,
            texts=list(self._texts),
            lanes=[(str(pid), str(tid)) for pid, tid in self._lanes],
            lane_names=self._lane_names,
            signatures=self._known,
            **columns,
            start_ns=start_ns,
            duration_ns=duration_ns,
            memory=(
                _times_ns(self._memory_us, base_ns),
                _column(self._memory_lane),
                *map(_column, self._memory),
            ),
            links=(*map(_column, self._links), _times_ns(self._links_us, base_ns)),
        )


_INTEGERS = (
    *("kind", "name", "lane", "correlation", "external", "device", "size"),
    *("sequence", "forward", "message", "group", "collective", "signature"),
)
_OF_MEMORY = (
    *("Addr", "Bytes", "Total Allocated", "Total Reserved"),
    *("Device Type", "Device Id"),
)


def _calls(known: object, kind: Int64s, start_ns: Int64s) -> tuple[Int64s, list[tuple[str, int]]]:
    """Return the line that called each function of Python, and the lines.

    The agent adds them to a trace as columns. What is damaged is as if it were not there.
    """
    call = np.full(len(kind), _UNKNOWN, dtype=np.int64)
    found = [known.get(name) for name in _OF_CALLS] if isinstance(known, dict) else []
    columns = [column for column in found if isinstance(column, list)]
    if len(columns) != len(_OF_CALLS):
        return call, []
    files, *numbers = columns
    starts, places, lines = (
        [number for number in column if type(number) is int and 0 <= number < _LATEST_NS]
        for column in numbers
    )
    is_whole = len(starts) == len(places) == len(lines) == len(numbers[0])
    if not is_whole or not all(isinstance(file, str) for file in files):
        return call, []
    if max(places, default=-1) >= len(files):
        return call, []
    distinct: dict[tuple[int, int], int] = {}
    pairs = zip(places, lines, strict=True)
    number = np.array([distinct.setdefault(pair, len(distinct)) for pair in pairs], dtype=np.int64)
    started_ns = np.array(starts, dtype=np.int64)
    order = np.argsort(started_ns, kind="stable")
    frames = np.flatnonzero(kind == Kind.FRAME)
    at = np.searchsorted(started_ns[order], start_ns[frames])
    is_known = at < len(order)
    at, frames = order[at[is_known]], frames[is_known]
    is_it = started_ns[at] == start_ns[frames]
    call[frames[is_it]] = number[at[is_it]]
    return call, [(files[place], line) for place, line in distinct]


def _column(values: array[int]) -> Int64s:
    return np.array(values, dtype=np.int64)


def _times_ns(values: array[float], base_ns: int) -> Int64s:
    """Return µs with fractions as ns.

    Raises UnreadableInput if one does not fit.
    """
    at_us = np.array(values, dtype=np.float64)
    if not np.isfinite(at_us).all() or (np.abs(at_us) >= _LATEST_NS / _NS_PER_US).any():
        raise UnreadableInput("a time of the far future")
    whole_us = np.floor(at_us)
    found: Int64s = whole_us.astype(np.int64) * _NS_PER_US + base_ns
    found += np.rint((at_us - whole_us) * _NS_PER_US).astype(np.int64)
    if (found >= _LATEST_NS).any():
        raise UnreadableInput("a time of the far future")
    return found


def _args(event: Mapping[str, Any]) -> Mapping[str, Any]:
    found = event.get("args")
    return found if isinstance(found, dict) else {}


# Bytes of an element, as C++ and c10d call the types.
_BYTES: Mapping[object, int] = {
    **dict.fromkeys(("bool", "Bool", "Byte", "Char", "signed char", "unsigned char"), 1),
    **dict.fromkeys(("Float8_e4m3fn", "Float8_e5m2"), 1),
    **dict.fromkeys(("BFloat16", "Half", "Short", "c10::BFloat16", "c10::Half", "short int"), 2),
    **dict.fromkeys(("Float", "Int", "float", "int"), 4),
    **dict.fromkeys(("Double", "Long", "double", "long int", "ComplexFloat"), 8),
}


def _message(args: Mapping[str, Any]) -> int:
    """Return the bytes that a collective moves, the larger of what goes in and comes out."""
    element = _BYTES.get(args.get("dtype"))
    counts = [_integer(args.get(name)) for name in ("In msg nelems", "Out msg nelems")]
    if element is not None and any(counts):
        return max(counts) * element
    shapes, types = args.get("Input Dims"), args.get("Input type")
    if not isinstance(shapes, list) or not isinstance(types, list):
        return 0
    sizes = [_elements(shape) for shape in shapes]
    known = [_BYTES.get(name, 0) if isinstance(name, str) else 0 for name in types]
    return sum(size * each for size, each in zip(sizes, known, strict=False))


def _collective(args: Mapping[str, Any]) -> str | None:
    """Return what all ranks of a group call a collective, None where they do not number theirs.

    c10d counts the collectives of each group; sends and receives have counters of their own.
    """
    what, group = args["Collective name"], args.get("Process Group Name")
    number = _integer(args.get("Seq"), _UNKNOWN)
    if not (isinstance(what, str) and isinstance(group, str)) or number == _UNKNOWN:
        return None
    return None if _ONE_TO_ONE.search(what) else f"{group} {what} {number}"


def _elements(shape: Any) -> int:
    """Return the elements of a tensor, 0 where these are no sizes or more than memory has."""
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        return 0
    found = prod(shape)
    return found if found < _MOST_ELEMENTS else 0


def _integer(value: object, default: int = 0) -> int:
    """Return a fact as a number, the default if it is none; some tracers write text."""
    if type(value) is int:
        return value if 0 <= value < 2**62 else default
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    return default


def _signed(value: object) -> int | None:
    """Return a number that may be negative, an address as columns have it; None if it is none."""
    if type(value) is not int or not -(2**63) <= value < 2**64:
        return None
    return (value + 2**63) % 2**64 - 2**63
