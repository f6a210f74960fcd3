"""Decode XSpace bytes into rows: host ops by their trace names, kernels of GPU planes.

Seen in the recordings of TensorFlow 2.4 to 2.21 on CPU: an op is an event "scope/name:Type" whose
display name is "Type"; an asynchronous op (2.5 and later) is a pair ProcessAsync::Start and
ProcessAsync::Done, joined by a connection id; an eager op has no event of its own from 2.9 or so
on, only "EagerLocalExecute: Type". Everything else is the framework's own tracing.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tfprobe.errors import UnreadableInput
from tfprobe.ingest.messages import parse
from tfprobe.model.executions import Place, Row

_PS_PER_NS = 1000
# The year 2001: below it a number of ns is no time of day.
_SMALLEST_UNIX_NS = 1_000_000_000_000_000_000
# Names as TensorFlow's own parser has them (tsl/profiler/utils/tf_op_utils.cc).
_OP = re.compile(r"(?P<name>[A-Za-z0-9._][\w.\\/>\-]*):(?P<type>[A-Z_]\w*)\Z")
_EAGER = re.compile(r"EagerLocalExecute: (_?[A-Z]\w*)\Z")
_ASYNC_START = "ExecutorState::ProcessAsync::Start"
_ASYNC_DONE = "ExecutorState::ProcessAsync::Done"
_FUNCTION_RUN = "FunctionRun"
# Until TF 2.13 the op event of IteratorGetNext is its launch only; this one is its work.
_GET_NEXT = ("IteratorGetNextOp::DoCompute", "IteratorGetNextAsOptionalOp::DoCompute")
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
_TF_DATA_THREADS = ("tf_data_private_threadpool", "tf_data_iterator_resource")
# "MemcpyH2D" in an XSpace, "MEMCPYHtoD" in older tracers; without a direction it is the device's.
_COPY = re.compile(r"mem(?:cpy|set)(?:(?P<from>[HDP])(?:to|2)(?P<to>[HDP]))?", re.IGNORECASE)
_COPY_SIZE = re.compile(r"(?:num_bytes|size):(\d+)")


@dataclass(frozen=True, slots=True)
class Trace:
    """The rows of one XSpace. Without `is_unix`, times count from some moment at its start."""

    rows: list[Row]
    is_unix: bool


def read(content: bytes) -> Trace:
    """Return one row per op execution and per kernel.

    Raises UnreadableInput when the bytes are no XSpace or hold no plane.
    """
    space = parse(content, "tfprobe.xplane.XSpace")
    if not space.planes:
        raise UnreadableInput("an XSpace without planes")
    profile_start_ns = _profile_start_ns(space)
    lines = [line for plane in space.planes for line in plane.lines if line.events]
    first_ns = min((line.timestamp_ns for line in lines), default=0)
    if first_ns < _SMALLEST_UNIX_NS and profile_start_ns:
        # Here a line's timestamp counts from the start of the profile.
        for line in lines:
            line.timestamp_ns += profile_start_ns
        first_ns += profile_start_ns
    rows = [row for plane in space.planes for row in _plane_rows(plane)]
    return Trace(rows, is_unix=first_ns >= _SMALLEST_UNIX_NS)


def _plane_rows(plane: Any) -> list[Row]:
    if _GPU_PLANE.match(plane.name):
        return list(_device_rows(plane))
    return list(_host_rows(plane)) if plane.name == "/host:CPU" else []


def _profile_start_ns(space: Any) -> int:
    for plane in space.planes:
        for stat in plane.stats:
            if plane.stat_metadata[stat.metadata_id].name == "profile_start_time":
                return int(stat.uint64_value or stat.int64_value)
    return 0


def _host_rows(plane: Any) -> Iterator[Row]:
    read_event = _event_reader(plane)
    waits = _AsyncOps(plane)
    rows: list[Row] = []
    for line in plane.lines:
        background = line.name.startswith(_TF_DATA_THREADS)
        rows += _line_rows(line, read_event, waits, background=background)
    yield from waits.completed(rows)
    yield from waits.rows()


def _event_reader(plane: Any) -> Callable[[int], tuple[str, str, str]]:
    """Return a lookup of (role, name, type) by metadata id; each name is parsed once."""
    known: dict[int, tuple[str, str, str]] = {}
    metadata = plane.event_metadata

    def look_up(metadata_id: int) -> tuple[str, str, str]:
        found = known.get(metadata_id)
        if found is None:
            found = known[metadata_id] = _role(metadata[metadata_id].name)
        return found

    return look_up


def _role(name: str) -> tuple[str, str, str]:
    if name in (_ASYNC_START, _ASYNC_DONE, _FUNCTION_RUN) or name in _GET_NEXT:
        return name, "", ""
    eager = _EAGER.match(name)
    if eager is not None:
        return "eager", eager[1], eager[1]
    op = _OP.match(name)
    return ("op", op["name"], op["type"]) if op is not None else ("", "", "")


def _line_rows(
    line: Any,
    read_event: Callable[[int], tuple[str, str, str]],
    waits: _AsyncOps,
    *,
    background: bool,
) -> Iterator[Row]:
    lane, line_ns = line.name, line.timestamp_ns
    inner_ns: list[int] = []
    eager: list[Row] = []
    for event in line.events:
        role, name, op_type = read_event(event.metadata_id)
        if not role:
            continue
        start_ns = line_ns + event.offset_ps // _PS_PER_NS
        if role in (_ASYNC_START, _ASYNC_DONE):
            waits.note(event, role, start_ns)
            continue
        if role in _GET_NEXT:
            waits.note_work(start_ns + event.duration_ps // _PS_PER_NS)
            continue
        inner_ns.append(start_ns)
        if role == _FUNCTION_RUN:
            continue
        duration_ns = event.duration_ps // _PS_PER_NS
        row = Row(
            "/host:CPU",
            lane,
            name,
            op_type,
            Place.HOST,
            start_ns,
            duration_ns,
            background=background,
        )
        if role == "eager":
            inner_ns.pop()
            eager.append(row)
        else:
            yield row
    inner_ns.sort()
    yield from (row for row in eager if not _holds_any(row, inner_ns))


def _holds_any(row: Row, moments_ns: list[int]) -> bool:
    """Say whether an op or a function ran inside: then the eager event is only its wrapping."""
    at = bisect_left(moments_ns, row.start_ns)
    return at < len(moments_ns) and moments_ns[at] <= row.start_ns + row.duration_ns


class _AsyncOps:
    """Join the start and the completion of asynchronous ops, which are on different threads."""

    def __init__(self, plane: Any) -> None:
        self._plane = plane
        self._starts: dict[object, tuple[str, str, int]] = {}
        self._ends_ns: dict[object, int] = {}
        self._work_ends_ns: list[int] = []

    def note(self, event: Any, role: str, start_ns: int) -> None:
        stats = _stat_values(self._plane, event.stats)
        if role == _ASYNC_DONE:
            self._ends_ns[stats.get("_c")] = start_ns
            return
        name, op_type = str(stats.get("name", "")), str(stats.get("kernel_type", ""))
        self._starts[stats.get("_p")] = (name, op_type, start_ns)

    def note_work(self, end_ns: int) -> None:
        self._work_ends_ns.append(end_ns)

    def completed(self, rows: list[Row]) -> Iterator[Row]:
        """Return `rows`, those that only launch an IteratorGetNext extended to its end."""
        ends_ns = sorted(self._work_ends_ns)
        for row in sorted(rows, key=lambda row: row.start_ns):
            if not row.op_type.startswith("IteratorGetNext"):
                yield row
                continue
            at = bisect_left(ends_ns, row.start_ns + row.duration_ns)
            end_ns = ends_ns.pop(at) if at < len(ends_ns) else row.start_ns + row.duration_ns
            yield row._replace(duration_ns=end_ns - row.start_ns)

    def rows(self) -> Iterator[Row]:
        for key, (name, op_type, start_ns) in self._starts.items():
            if name and op_type and key in self._ends_ns:
                duration_ns = max(self._ends_ns[key] - start_ns, 0)
                yield Row("/host:CPU", "async", name, op_type, Place.HOST, start_ns, duration_ns)


def _device_rows(plane: Any) -> Iterator[Row]:
    for line in plane.lines:
        if (line.display_name or line.name).startswith(_DERIVED_LINES):
            continue
        for event in line.events:
            yield _kernel(plane, line, event)


def _kernel(plane: Any, line: Any, event: Any) -> Row:
    metadata = plane.event_metadata[event.metadata_id]
    stats = _stat_values(plane, metadata.stats) | _stat_values(plane, event.stats)
    kernel = metadata.display_name or metadata.name
    place = _copy_place(f"{metadata.name} {line.name}")
    op = _OP.match(str(stats.get("tf_op") or stats.get("name") or ""))
    size = _COPY_SIZE.search(str(stats.get("memcpy_details", "")))
    is_copy = place is not Place.ACCELERATOR
    return Row(
        device=plane.name,
        lane=line.display_name or line.name,
        name=op["name"] if op else str(stats.get("tf_op") or kernel),
        op_type=kernel if is_copy else op["type"] if op else _kernel_type(stats, kernel),
        place=place,
        start_ns=line.timestamp_ns + event.offset_ps // _PS_PER_NS,
        duration_ns=event.duration_ps // _PS_PER_NS,
        bytes=int(size[1]) if size else 0,
    )


def _kernel_type(stats: dict[str, Any], kernel: str) -> str:
    """Return the HLO op of an XLA kernel, without its number, or the kernel's own name."""
    hlo = str(stats.get("hlo_op") or "")
    return hlo.split(".", 1)[0] if hlo else kernel


def _copy_place(text: str) -> Place:
    """Return the direction of a copy, or ACCELERATOR for a kernel."""
    copy = _COPY.search(text)
    if copy is None:
        return Place.ACCELERATOR
    ends = ((copy["from"] or "D") + (copy["to"] or "D")).upper()
    places = {"HD": Place.HOST_TO_DEVICE, "DH": Place.DEVICE_TO_HOST}
    return places.get(ends, Place.DEVICE_TO_DEVICE)


def _stat_values(plane: Any, stats: Any) -> dict[str, Any]:
    """Return stats by name, references followed."""
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
