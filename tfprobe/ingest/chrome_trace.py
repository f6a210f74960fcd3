"""Decode timelines in the trace event format: client.timeline's, tfprof's, and TensorFlow 2's own.

What a box is, is told by the name of the process it is drawn in: "DEVICE Compute" in the first,
"Op execution threads: DEVICE" in the second, the name of an XSpace's plane in the third.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tfprobe.errors import UnreadableInput
from tfprobe.ingest.columns import int64s
from tfprobe.ingest.run_metadata import place_of
from tfprobe.ingest.xspace import is_derived, op_of
from tfprobe.model.executions import Executions, Place
from tfprobe.model.strings import Interner
from tfprobe.model.tables import Columns

_NS_PER_US = 1000
_CLIENT = re.compile(r"(?P<device>.+) Compute\Z")
_TFPROF = re.compile(r"Op (?P<role>execution|scheduling) threads: (?P<device>.+)\Z")
_PLANE = re.compile(r"/host:CPU\Z|/device:GPU:\d+")
_STREAM = re.compile(r"/stream:\d+\Z")


class _Box(NamedTuple):
    device: str
    lane: str
    name: str
    op_type: str
    place: Place
    start_ns: int
    duration_ns: int


def rows(content: bytes) -> Executions:
    """Return one row for each box that is an op or a kernel.

    Raises UnreadableInput when the bytes are no timeline or no box is an op.
    """
    events = _events(content)
    processes = _names(events, "process_name")
    threads = _names(events, "thread_name")
    all_streams = any("stream:all" in process for process in processes.values())
    boxes = [
        box for event in events for box in _box(event, processes, threads, all_streams=all_streams)
    ]
    if not boxes:
        raise UnreadableInput("a timeline in which no box is an op of TensorFlow")
    return _table(boxes)


def _events(content: bytes) -> list[Mapping[str, Any]]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as exc:
        raise UnreadableInput(f"not JSON ({exc})") from exc
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        raise UnreadableInput("JSON without trace events")
    return [event for event in events if isinstance(event, dict)]


def _names(events: Iterable[Mapping[str, Any]], kind: str) -> dict[tuple[Any, ...], str]:
    """Return the names of processes, by (pid,), or of threads, by (pid, tid)."""
    names = {}
    for event in events:
        if event.get("ph") == "M" and event.get("name") == kind:
            key = _key(event, ("pid",) if kind == "process_name" else ("pid", "tid"))
            names[key] = str(_args(event).get("name", ""))
    return names


def _key(event: Mapping[str, Any], names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(str(event.get(name)) for name in names)


def _args(event: Mapping[str, Any]) -> Mapping[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _box(
    event: Mapping[str, Any],
    processes: Mapping[tuple[Any, ...], str],
    threads: Mapping[tuple[Any, ...], str],
    *,
    all_streams: bool,
) -> Iterable[_Box]:
    """Give the box of an event, if it is one of an op."""
    if event.get("ph") != "X":
        return
    process = processes.get(_key(event, ("pid",)), "")
    lane = threads.get(_key(event, ("pid", "tid")), str(event.get("tid", "")))
    found = _told(event, process, lane, all_streams=all_streams)
    if found is None:
        return
    device, name, op_type, place = found
    try:
        start_ns, duration_ns = (round(event[key] * _NS_PER_US) for key in ("ts", "dur"))
    except (KeyError, TypeError, ValueError, OverflowError) as exc:
        raise UnreadableInput(f"a box without a start and a duration ({event})") from exc
    if duration_ns < 0:
        raise UnreadableInput(f"a box that ends before it starts ({event})")
    yield _Box(device, lane, name, op_type, place, start_ns, duration_ns)


def _told(
    event: Mapping[str, Any], process: str, lane: str, *, all_streams: bool
) -> tuple[str, str, str, Place] | None:
    """Return device, node, op and place of a box; None where it is no op."""
    args = _args(event)
    written = str(args.get("name") or event.get("name") or "")
    client = _CLIENT.match(process)
    if client is not None:
        place = place_of(client["device"].lower())
        if place is None and not all_streams and _STREAM.search(client["device"]):
            place = Place.ACCELERATOR
        name = written.partition(":")[0]
        if place is None or name == "_SOURCE" or "MEMCPY" in name:
            return None
        return client["device"], name, str(args.get("op") or event.get("name") or name), place
    tfprof = _TFPROF.match(process)
    if tfprof is not None:
        place = Place.ACCELERATOR if tfprof["role"] == "execution" else Place.HOST
        return tfprof["device"], written, written, place
    if not _PLANE.match(process) or is_derived(lane):
        return None
    op = op_of(str(args.get("tf_op") or args.get("long_name") or event.get("name") or ""))
    if op is not None:
        place = Place.HOST if process.startswith("/host") else Place.ACCELERATOR
        return process, op[0], op[1], place
    if process.startswith("/host"):
        return None
    return process, written, written, Place.ACCELERATOR


def _table(boxes: list[_Box]) -> Executions:
    interner, columns = Interner(), Columns(Executions)
    columns.add(
        len(boxes),
        device=[interner.position(box.device) for box in boxes],
        lane=[interner.position(box.lane) for box in boxes],
        name=[interner.position(box.name) for box in boxes],
        op_type=[interner.position(box.op_type) for box in boxes],
        place=[box.place for box in boxes],
        start_ns=int64s(box.start_ns for box in boxes),
        duration_ns=int64s(box.duration_ns for box in boxes),
    )
    return columns.rows(interner)
