"""Decode traces of PyTorch's profiler (Kineto): ops, kernels, copies and runtime calls.

Each event has a category (libkineto/src/output_json.cpp); a kernel or copy and the call that
started it share `correlation`. A kernel belongs to the op around that call. Sizes and memory kinds
of copies are written as TensorFlow's tracer writes them, so that views need only one form.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tfprobe.errors import UnreadableInput
from tfprobe.formats.chrome_trace import (
    Event,
    ParsedEvents,
    event_args,
    event_times_ns,
    parse_trace_events,
)
from tfprobe.formats.gzipped import unpacked
from tfprobe.formats.trace import Marker, Trace
from tfprobe.formats.xspace import HOST, driver_call_kind
from tfprobe.profile.capture_tables import Allocations, Executions, Place, Spans
from tfprobe.profile.tables import Columns, Interner, empty, int64s

# Current categories, and those used until PyTorch 1.12.
_OPS = ("cpu_op", "Operator")
_KERNELS = ("kernel", "Kernel")
_COPIES = ("gpu_memcpy", "Memcpy")
_MEMSETS = ("gpu_memset", "Memset")
_CALLS = ("cuda_runtime", "cuda_driver", "Runtime")
_ALL = (*_OPS, *_KERNELS, *_COPIES, *_MEMSETS, *_CALLS)
_STEP = re.compile(r"ProfilerStep\s*#(\d+)\Z")
# Annotations that are host work rather than calls around ops: collectives of its CPUs.
_ON_HOST = "gloo:"
_ANNOTATIONS = ("user_annotation", "cpu_op", "Operator")
_DIRECTION = re.compile(r"(?P<from>[HDP])to(?P<to>[HDP])")
_ENDS = re.compile(r"\((?P<from>\w+) -> (?P<to>\w+)\)")
# In the name of a call that does not wait for its copy.
_ASYNC = "Async"
_MEMORY = {"pageable": "pageable", "pinned": "pinned", "device": "device", "managed": "managed"}
_PLACES = {"HD": Place.HOST_TO_DEVICE, "DH": Place.DEVICE_TO_HOST}


def is_kineto(document: ParsedEvents) -> bool:
    """Return whether a document is such a trace: its events have Kineto's categories."""
    return any(event.get("cat") in _ALL for event in document.events)


def read_capture(content: bytes, interner: Interner) -> Trace:
    """Decode the trace of a step, which may be compressed with gzip.

    Strings become positions in `interner`. It may contain nothing that ran.

    Raises UnreadableInput if the bytes are no trace, or contain invalid times.
    """
    document = parse_trace_events(unpacked(content))
    if document.events and not is_kineto(document):
        raise UnreadableInput("JSON in which no event has a category of PyTorch's profiler")
    return _trace(document, interner)


def read(document: ParsedEvents) -> Trace:
    """Decode a trace; its steps are those that the program marked (ProfilerStep).

    Raises UnreadableInput if it contains nothing that ran, or invalid times.
    """
    trace = _trace(document, Interner())
    if not len(trace.rows):
        raise UnreadableInput("a trace of PyTorch in which nothing ran on a device or a host")
    return trace


def _trace(document: ParsedEvents, interner: Interner) -> Trace:
    base_ns = document.head.get("baseTimeNanoseconds", 0)
    base_ns = base_ns if isinstance(base_ns, int) else 0
    boxes = [box for event in document.events for box in _boxes(event, document, base_ns)]
    rows = _rows(boxes, interner)
    markers = sorted(_markers(boxes), key=lambda marker: marker.start_ns)
    spans = _spans(boxes, interner).by("start_ns")
    return Trace(rows, spans, empty(Allocations), markers=tuple(markers))


class _Box(NamedTuple):
    """An event with its time; `category` is "" for an event that only marks a step."""

    name: str
    category: str
    lane: str
    start_ns: int
    duration_ns: int
    args: Mapping[str, Any]

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns

    @property
    def correlation(self) -> int:
        return _integer(self.args.get("correlation"))


def _boxes(event: Event, document: ParsedEvents, base_ns: int) -> Iterator[_Box]:
    if event.get("ph") != "X":
        return
    name, category = str(event.get("name", "")), str(event.get("cat", ""))
    if category in _ANNOTATIONS and _STEP.match(name) is not None:
        category = ""
    elif category in _ANNOTATIONS and name.startswith(_ON_HOST):
        category = _OPS[0]
    elif category not in _ALL:
        return
    start_ns, duration_ns = event_times_ns(event, base_ns)
    args = event_args(event)
    yield _Box(name, category, document.thread(event), start_ns, duration_ns, args)


def _markers(boxes: Iterable[_Box]) -> Iterator[Marker]:
    for box in boxes:
        step = _STEP.match(box.name) if not box.category else None
        if step is not None:
            yield Marker(int(step[1]), box.start_ns, box.end_ns)


def _rows(boxes: list[_Box], interner: Interner) -> Executions:
    calls = {box.correlation: box for box in boxes if box.category in _CALLS}
    ops = _Ops(box for box in boxes if box.category in _OPS)
    found = [row for box in boxes for row in _row(box, calls, ops)]
    position = interner.position
    columns = Columns(Executions)
    columns.add(
        len(found),
        device=[position(row.device) for row in found],
        lane=[position(row.box.lane) for row in found],
        name=[position(row.op) for row in found],
        op_type=[position(row.op_type) for row in found],
        place=[row.place for row in found],
        start_ns=int64s(row.box.start_ns for row in found),
        duration_ns=int64s(row.box.duration_ns for row in found),
        bytes=int64s(row.bytes for row in found),
        detail=[position(row.detail) for row in found],
        correlation=int64s(row.box.correlation for row in found),
    )
    return columns.rows(interner)


class _Row(NamedTuple):
    """A box that is an execution."""

    box: _Box
    device: str
    op: str
    op_type: str
    place: Place
    bytes: int = 0
    detail: str = ""


def _row(box: _Box, calls: Mapping[int, _Box], ops: _Ops) -> Iterator[_Row]:
    if box.category in _OPS:
        yield _Row(box, HOST, box.name, box.name, Place.HOST)
        return
    if box.category not in (*_KERNELS, *_COPIES, *_MEMSETS):
        return
    device = f"/device:GPU:{_integer(box.args.get('device'))}"
    call = calls.get(box.correlation)
    op = ops.around(call) if call is not None else ""
    if box.category in _KERNELS:
        yield _Row(box, device, op or box.name, op or box.name, Place.ACCELERATOR, 0, box.name)
        return
    size = _integer(box.args.get("bytes")) or _integer(call.args.get("size") if call else 0)
    if box.category in _COPIES:
        place, detail = _copy(box.name, size)
    else:
        place, detail = Place.DEVICE_TO_DEVICE, f"kind:device num_bytes:{size}"
    if call is not None:
        detail += f" async:{int(_ASYNC in call.name)}"
    yield _Row(box, device, op or box.name, box.name, place, size, detail)


def _copy(name: str, size: int) -> tuple[Place, str]:
    """Return the place of "Memcpy HtoD (Pageable -> Device)" and its name in TensorFlow."""
    direction, ends = _DIRECTION.search(name), _ENDS.search(name)
    way = f"{direction['from']}{direction['to']}" if direction else ""
    kinds = [_MEMORY.get(ends[at].lower(), "") for at in ("from", "to")] if ends else []
    kinds_text = f"kind_src:{kinds[0]} kind_dst:{kinds[1]} " if kinds and all(kinds) else ""
    return _PLACES.get(way, Place.DEVICE_TO_DEVICE), f"{kinds_text}size:{size}"


class _Ops:
    """The ops of the host by thread, used to find the innermost one around a call."""

    def __init__(self, boxes: Iterable[_Box]) -> None:
        self._by_lane: dict[str, list[_Box]] = defaultdict(list)
        for box in boxes:
            self._by_lane[box.lane].append(box)
        for found in self._by_lane.values():
            found.sort(key=lambda box: (box.start_ns, -box.duration_ns))
        self._starts_ns = {
            lane: [box.start_ns for box in found] for lane, found in self._by_lane.items()
        }
        self._outer = {lane: _outer(found) for lane, found in self._by_lane.items()}

    def around(self, call: _Box) -> str:
        """Return the name of the innermost op around a call, "" if there is none."""
        at = bisect_right(self._starts_ns.get(call.lane, []), call.start_ns) - 1
        while at >= 0:
            box = self._by_lane[call.lane][at]
            if box.end_ns >= call.end_ns:
                return box.name
            at = self._outer[call.lane][at]
        return ""


def _outer(boxes: list[_Box]) -> list[int]:
    """Return the op around each of a thread's ops, which are sorted by start; -1 for none."""
    outer: list[int] = []
    around: list[int] = []
    for at, box in enumerate(boxes):
        while around and boxes[around[-1]].end_ns <= box.start_ns:
            around.pop()
        outer.append(around[-1] if around else -1)
        around.append(at)
    return outer


def _spans(boxes: Iterable[_Box], interner: Interner) -> Spans:
    calls = [box for box in boxes if box.category in _CALLS]
    sizes = {
        box.correlation: _integer(box.args.get("bytes"))
        for box in boxes
        if box.category in (*_COPIES, *_MEMSETS)
    }
    columns = Columns(Spans)
    columns.add(
        len(calls),
        kind=[driver_call_kind(box.name) for box in calls],
        lane=[interner.position(box.lane) for box in calls],
        name=[interner.position(box.name) for box in calls],
        start_ns=int64s(box.start_ns for box in calls),
        duration_ns=int64s(box.duration_ns for box in calls),
        correlation=int64s(box.correlation for box in calls),
        bytes=int64s(
            sizes.get(box.correlation, 0) or _integer(box.args.get("size")) for box in calls
        ),
    )
    return columns.rows(interner)


def _integer(value: object) -> int:
    """Return a fact as a number, 0 if it is not one; some tracers write numbers as text."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if 0 <= value < 2**62 else 0
