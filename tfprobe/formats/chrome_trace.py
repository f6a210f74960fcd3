"""Decode timelines in the trace event format: client.timeline's, tfprof's, and TensorFlow 2's own.

The meaning of a box follows from the name of the process it is drawn in: "DEVICE Compute" in the
first, "Op execution threads: DEVICE" in the second, the name of an XSpace's plane in the third.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from tfprobe.errors import UnreadableInput
from tfprobe.formats import xspace
from tfprobe.formats.run_metadata import place_of
from tfprobe.formats.trace import Marker, Trace
from tfprobe.profile.capture_tables import Allocations, Executions, Place, SpanKind, Spans
from tfprobe.profile.tables import Columns, Interner, empty, int64s

_CLIENT = re.compile(r"(?P<device>.+) Compute\Z")
_TFPROF = re.compile(r"Op (?P<role>execution|scheduling) threads: (?P<device>.+)\Z")
_PLANE = re.compile(r"/host:CPU\Z|/device:GPU:\d+")
_NO_OPS = "a timeline in which no box is an op of TensorFlow"
# Later than any time that fits.
_END_NS = 2**63
_STREAM = re.compile(r"/stream:\d+\Z")


def rows(content: bytes) -> Executions:
    """Return one row for each box that is an op or a kernel.

    Raises UnreadableInput if the bytes are not a timeline or no box is an op.
    """
    found = read(parse_trace_events(content)).rows
    if not len(found):
        raise UnreadableInput(_NO_OPS)
    return found


def read(document: ParsedEvents) -> Trace:
    """Decode a timeline: the boxes of ops and kernels, and those around them.

    Raises UnreadableInput if no box is an op or a call around ops.
    """
    all_streams = any("stream:all" in process for process in document.processes.values())
    boxes = [
        box for event in document.events for box in _box(event, document, all_streams=all_streams)
    ]
    interner = Interner()
    spans = _spans(document, interner)
    if not boxes and not len(spans):
        raise UnreadableInput(_NO_OPS)
    runs = tuple(_runs(document, boxes))
    has_calls = bool((spans.kind == SpanKind.FUNCTION_CALL).any())
    rows = _table(boxes, interner)
    return Trace(rows, spans, empty(Allocations), markers=runs, has_calls=has_calls)


def _runs(document: ParsedEvents, boxes: list[_Box]) -> Iterator[Marker]:
    """Yield the Session runs that a client timeline joins: each begins at _SOURCE."""
    sources: dict[str, list[int]] = defaultdict(list)
    for event in document.events:
        if event.get("ph") == "X" and event_args(event).get("name") == "_SOURCE":
            sources[document.process(event)].append(event_times_ns(event)[0])
    count = max((len(source) for source in sources.values()), default=0)
    if count < 2:
        return
    complete = [sorted(source) for source in sources.values() if len(source) == count]
    starts_ns = [min(each) for each in zip(*complete, strict=True)]
    for number, (start_ns, next_ns) in enumerate(pairwise([*starts_ns, _END_NS])):
        ends_ns = [
            box.start_ns + box.duration_ns for box in boxes if start_ns <= box.start_ns < next_ns
        ]
        yield Marker(number, start_ns, min(max(ends_ns, default=start_ns), next_ns))


class _Activity(NamedTuple):
    """What a box represents."""

    device: str
    name: str
    op_type: str
    place: Place
    bytes: int = 0
    detail: str = ""
    correlation: int = 0


class _Box(NamedTuple):
    """A box with its place and time."""

    activity: _Activity
    lane: str
    start_ns: int
    duration_ns: int


def _box(event: Event, document: ParsedEvents, *, all_streams: bool) -> Iterable[_Box]:
    """Yield the box of an event, if the event is an op."""
    if event.get("ph") != "X":
        return
    lane = document.thread(event)
    activity = _activity(event, document.process(event), lane, all_streams=all_streams)
    if activity is not None:
        yield _Box(activity, lane, *event_times_ns(event))


def _activity(event: Event, process: str, lane: str, *, all_streams: bool) -> _Activity | None:
    """Return what a box represents; None if it is not an op."""
    client = _CLIENT.match(process)
    if client is not None:
        return _activity_of_client(event, client["device"], all_streams=all_streams)
    args = event_args(event)
    written = str(args.get("name") or event.get("name") or "")
    tfprof = _TFPROF.match(process)
    if tfprof is not None:
        place = Place.ACCELERATOR if tfprof["role"] == "execution" else Place.HOST
        return _Activity(tfprof["device"], written, written, place)
    if not _PLANE.match(process):
        return None
    op = xspace.op_of(str(args.get("tf_op") or args.get("long_name") or event.get("name") or ""))
    if process.startswith("/host"):
        return None if op is None else _Activity(process, *op, Place.HOST)
    if not xspace.is_stream(lane):
        return None
    found = xspace.kernel_facts(str(event.get("name") or written), _numbers(args))
    name, op_type = op or (str(args.get("tf_op") or written), written)
    is_copy = found.place is not Place.ACCELERATOR
    return _Activity(process, name, found.kernel if is_copy else op_type, *found[1:])


def _activity_of_client(event: Event, device: str, *, all_streams: bool) -> _Activity | None:
    args = event_args(event)
    place = place_of(device.lower())
    if place is None and not all_streams and _STREAM.search(device):
        place = Place.ACCELERATOR
    name = str(args.get("name") or event.get("name") or "").partition(":")[0]
    op_type = str(args.get("op") or event.get("name") or name)
    if place is Place.DEVICE_TO_DEVICE:
        # The device of copies: the op is their direction, "MEMCPYHtoD".
        return _Activity(device, name, op_type, xspace.place_of(op_type))
    is_copy = xspace.place_of(op_type) is not Place.ACCELERATOR
    if place is None or name == "_SOURCE" or "MEMCPY" in name or is_copy:
        return None
    return _Activity(device, name, op_type, place)


def _table(boxes: list[_Box], interner: Interner) -> Executions:
    columns = Columns(Executions)
    position = interner.position
    columns.add(
        len(boxes),
        device=[position(box.activity.device) for box in boxes],
        lane=[position(box.lane) for box in boxes],
        name=[position(box.activity.name) for box in boxes],
        op_type=[position(box.activity.op_type) for box in boxes],
        place=[box.activity.place for box in boxes],
        background=[xspace.is_background(box.lane) for box in boxes],
        start_ns=int64s(box.start_ns for box in boxes),
        duration_ns=int64s(box.duration_ns for box in boxes),
        bytes=int64s(box.activity.bytes for box in boxes),
        detail=[position(box.activity.detail) for box in boxes],
        correlation=int64s(box.activity.correlation for box in boxes),
    )
    return columns.rows(interner)


def _spans(document: ParsedEvents, interner: Interner) -> Spans:
    """Return the spans of the host around its ops in TensorFlow 2's own timeline."""
    columns = Columns(Spans)
    for event in document.events:
        if event.get("ph") != "X" or document.process(event) != xspace.HOST:
            continue
        name, facts = str(event.get("name", "")), _numbers(event_args(event))
        kind = xspace.kind_of(name, facts)
        if kind is not None:
            _add_span(columns, interner, document.thread(event), event, kind, facts)
    return columns.rows(interner).by("start_ns")


def _add_span(
    columns: Columns[Spans],
    interner: Interner,
    lane: str,
    event: Event,
    kind: SpanKind,
    facts: dict[str, Any],
) -> None:
    start_ns, duration_ns = event_times_ns(event)
    columns.add(
        1,
        kind=kind,
        lane=interner.position(lane),
        background=xspace.is_background(lane),
        start_ns=int64s([start_ns]),
        duration_ns=int64s([duration_ns]),
        **xspace.span_facts(str(event.get("name", "")), kind, facts, interner)._asdict(),
    )


def _numbers(args: Any) -> dict[str, Any]:
    """Return facts with numbers converted from text, which is how a timeline writes them."""
    return {key: int(value) if _is_number(value) else value for key, value in args.items()}


def _is_number(value: object) -> bool:
    return isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) <= 20


_NS_PER_US = 1000
# The year 2116: half of what fits, so that two can be added.
_LATEST_NS = 2**62

# Any: JSON values.
Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ParsedEvents:
    """A document's events; `head` is everything else in it."""

    head: Mapping[str, Any]
    events: Sequence[Event]
    processes: Mapping[tuple[str, ...], str]
    threads: Mapping[tuple[str, ...], str]

    def process(self, event: Event) -> str:
        """Return the name of the process that an event is drawn in, "" if it has none."""
        return self.processes.get(_key(event, ("pid",)), "")

    def thread(self, event: Event) -> str:
        """Return the name of the thread that an event is drawn in, else its number."""
        return self.threads.get(_key(event, ("pid", "tid")), str(event.get("tid", "")))


def parse_trace_events(content: bytes) -> ParsedEvents:
    """Return the events of a document.

    Raises UnreadableInput if the bytes are not JSON or contain no trace events.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as exc:
        raise UnreadableInput(f"not JSON ({exc})") from exc
    found = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(found, list):
        raise UnreadableInput("JSON without trace events")
    events = [event for event in found if isinstance(event, dict)]
    head = document if isinstance(document, dict) else {}
    return ParsedEvents(
        head=head,
        events=events,
        processes=_names(events, "process_name", ("pid",)),
        threads=_names(events, "thread_name", ("pid", "tid")),
    )


def event_args(event: Event) -> Mapping[str, Any]:
    """Return the arguments of an event, besides its name and time."""
    found = event.get("args")
    return found if isinstance(found, dict) else {}


def event_times_ns(event: Event, base_ns: int = 0) -> tuple[int, int]:
    """Return start and duration of a box, whose times are µs after `base_ns`.

    Raises UnreadableInput if they are missing or do not fit.
    """
    try:
        start_ns, duration_ns = (round(event[key] * _NS_PER_US) for key in ("ts", "dur"))
    except (KeyError, TypeError, ValueError, OverflowError) as exc:
        raise UnreadableInput(f"a box without a start and a duration ({event})") from exc
    if duration_ns < 0:
        raise UnreadableInput(f"a box that ends before it starts ({event})")
    start_ns += base_ns
    if not -_LATEST_NS < start_ns < _LATEST_NS - duration_ns:
        raise UnreadableInput(f"a box of the far future ({event})")
    return start_ns, duration_ns


def _names(events: Iterable[Event], kind: str, keys: tuple[str, ...]) -> dict[tuple[str, ...], str]:
    return {
        _key(event, keys): str(event_args(event).get("name", "")).strip()
        for event in events
        if event.get("ph") == "M" and event.get("name") == kind
    }


def _key(event: Event, keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(event.get(key)) for key in keys)
