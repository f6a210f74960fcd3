"""Decode XSpace bytes into rows: host ops by their trace names, kernels of GPU planes.

Seen in the recordings of TensorFlow 2.4 to 2.21 on CPU: an op is an event "scope/name:Type" whose
display name is "Type"; an asynchronous op (2.5 and later) is a pair ProcessAsync::Start and
ProcessAsync::Done, joined by a connection id; an eager op has no event of its own from 2.9 or so
on, only "EagerLocalExecute: Type". Everything else is the framework's own tracing.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tfprobe.errors import UnreadableInput
from tfprobe.ingest.columns import int64s
from tfprobe.ingest.messages import parse
from tfprobe.model.executions import Executions, Place
from tfprobe.model.strings import Interner
from tfprobe.model.tables import Columns, Flags, Int64s

_PS_PER_NS = 1000
# The year 2001: below it a number of ns is no time of day.
_SMALLEST_UNIX_NS = 1_000_000_000_000_000_000
# The year 2116: half of what fits, so that two can be added.
_LATEST_NS = 2**62
# Names as TensorFlow's own parser has them (tsl/profiler/utils/tf_op_utils.cc).
_OP = re.compile(r"(?P<name>[A-Za-z0-9._][\w.\\/>\-]*):(?P<type>[A-Z_]\w*)\Z")
_EAGER = re.compile(r"EagerLocalExecute: (_?[A-Z]\w*)\Z")
_HOST = "/host:CPU"
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

    rows: Executions
    is_unix: bool


def read(content: bytes) -> Trace:
    """Return one row per op execution and per kernel of a capture by itself.

    Raises UnreadableInput when the bytes are no XSpace or hold no plane.
    """
    return Reader(Interner()).read(content)


class Reader:
    """Decodes captures: the name of an event is taken apart once.

    Strings become positions in `interner`.
    """

    def __init__(self, interner: Interner) -> None:
        """Know nothing yet."""
        self._interner = interner
        self._events: dict[str, _Event | None] = {}

    def read(self, content: bytes) -> Trace:
        """Return one row per op execution and per kernel.

        Raises UnreadableInput when the bytes are no XSpace or hold no plane.
        """
        space = parse(content, "tfprobe.xplane.XSpace")
        if not space.planes:
            raise UnreadableInput("an XSpace without planes")
        profile_start_ns = _profile_start_ns(space)
        lines = [line for plane in space.planes for line in plane.lines if line.events]
        moments_ns = [line.timestamp_ns for line in lines] or [0]
        first_ns = min(moments_ns)
        if max(*moments_ns, profile_start_ns) > _LATEST_NS or first_ns < 0:
            raise UnreadableInput("times of the far future")
        if first_ns < _SMALLEST_UNIX_NS and profile_start_ns:
            # Here a line's timestamp counts from the start of the profile.
            for line in lines:
                line.timestamp_ns += profile_start_ns
            first_ns += profile_start_ns
        columns = Columns(Executions)
        for plane in space.planes:
            if _GPU_PLANE.match(plane.name):
                self._add_kernels(columns, plane)
            elif plane.name == _HOST:
                self._add_ops(columns, plane)
        return Trace(columns.rows(self._interner), is_unix=first_ns >= _SMALLEST_UNIX_NS)

    def _add_ops(self, columns: Columns[Executions], plane: Any) -> None:
        """Add the ops of the host, by start; then those that ended on another thread."""
        told = {at: self._event(each.name) for at, each in plane.event_metadata.items()}
        events = {at: each for at, each in told.items() if each is not None}
        waits = _AsyncOps(plane)
        parts = [self._line(line, events, waits) for line in plane.lines]
        rows = [np.concatenate(each) for each in zip(_NO_ROWS, *parts, strict=True)]
        lane, name, op_type, background, start_ns, duration_ns = rows
        order = np.argsort(start_ns, kind="stable")
        columns.add(
            len(order),
            device=self._interner.position(_HOST),
            lane=lane[order],
            name=name[order],
            op_type=op_type[order],
            place=Place.HOST,
            background=background[order],
            start_ns=start_ns[order],
            duration_ns=waits.completed(
                np.isin(op_type[order], self._get_next_types()), start_ns[order], duration_ns[order]
            ),
        )
        for op in waits.ops():
            columns.add(
                1,
                device=self._interner.position(_HOST),
                lane=self._interner.position("async"),
                name=self._interner.position(op.name),
                op_type=self._interner.position(op.op_type),
                place=Place.HOST,
                start_ns=op.start_ns,
                duration_ns=op.duration_ns,
            )

    def _event(self, name: str) -> _Event | None:
        if name not in self._events:
            role, op, op_type = _role(name)
            self._events[name] = (
                None
                if role is None
                else _Event(role, self._interner.position(op), self._interner.position(op_type))
            )
        return self._events[name]

    def _get_next_types(self) -> list[int]:
        known = (event for event in self._events.values() if event is not None)
        types = {event.op_type for event in known}
        return [at for at in types if self._interner.text(at).startswith("IteratorGetNext")]

    def _line(
        self, line: Any, events: Mapping[int, _Event], waits: _AsyncOps
    ) -> tuple[npt.NDArray[Any], ...]:
        """Return the columns of the ops of one thread, in the order of _NO_ROWS."""
        found = [event for event in line.events if event.metadata_id in events]
        kinds = [events[event.metadata_id] for event in found]
        start_ns = line.timestamp_ns + int64s([event.offset_ps for event in found]) // _PS_PER_NS
        duration_ns = int64s([event.duration_ps for event in found]) // _PS_PER_NS
        role = np.array([kind.role for kind in kinds], dtype=np.int8)
        for at in np.flatnonzero(role >= _Role.ASYNC_START).tolist():
            waits.note(found[at], kinds[at].role, int(start_ns[at]), int(duration_ns[at]))
        inner_ns = np.sort(start_ns[(role == _Role.OP) | (role == _Role.FUNCTION)])
        is_op = role == _Role.OP
        eager = np.flatnonzero(role == _Role.EAGER)
        is_op[eager] = ~_hold_any(start_ns[eager], duration_ns[eager], inner_ns)
        count = int(np.count_nonzero(is_op))
        return (
            np.full(count, self._interner.position(line.name), dtype=np.int32),
            np.array([kind.name for kind in kinds], dtype=np.int32)[is_op],
            np.array([kind.op_type for kind in kinds], dtype=np.int32)[is_op],
            np.full(count, line.name.startswith(_TF_DATA_THREADS), dtype=np.bool_),
            start_ns[is_op],
            duration_ns[is_op],
        )

    def _add_kernels(self, columns: Columns[Executions], plane: Any) -> None:
        position = self._interner.position
        for line in plane.lines:
            if is_derived(line.display_name or line.name):
                continue
            kernels = [_kernel(plane, line, event) for event in line.events]
            columns.add(
                len(kernels),
                device=position(plane.name),
                lane=position(line.display_name or line.name),
                name=[position(each.name) for each in kernels],
                op_type=[position(each.op_type) for each in kernels],
                place=[each.place for each in kernels],
                start_ns=int64s([each.start_ns for each in kernels]),
                duration_ns=int64s([each.duration_ns for each in kernels]),
                bytes=int64s([each.bytes for each in kernels]),
            )


def op_of(event: str) -> tuple[str, str] | None:
    """Return node and op of an event's name such as "scope/name:Type"; None where it is no op."""
    op = _OP.match(event)
    return None if op is None else (op["name"], op["type"])


def is_derived(line: str) -> bool:
    """Say whether a line of a GPU repeats what its streams hold."""
    return line.startswith(_DERIVED_LINES)


class _Role(IntEnum):
    """What an event of the host says."""

    OP = 0
    EAGER = 1
    FUNCTION = 2
    ASYNC_START = 3
    ASYNC_DONE = 4
    GET_NEXT = 5


_FRAMEWORK: Mapping[str, _Role] = {
    "ExecutorState::ProcessAsync::Start": _Role.ASYNC_START,
    "ExecutorState::ProcessAsync::Done": _Role.ASYNC_DONE,
    "FunctionRun": _Role.FUNCTION,
    # Until TF 2.13 the op event of IteratorGetNext is its launch only; these are its work.
    "IteratorGetNextOp::DoCompute": _Role.GET_NEXT,
    "IteratorGetNextAsOptionalOp::DoCompute": _Role.GET_NEXT,
}
# Lane, name, op, background, start and duration of no row: what lines are joined to.
_NO_ROWS = (
    np.empty(0, dtype=np.int32),
    np.empty(0, dtype=np.int32),
    np.empty(0, dtype=np.int32),
    np.empty(0, dtype=np.bool_),
    np.empty(0, dtype=np.int64),
    np.empty(0, dtype=np.int64),
)


class _Event(NamedTuple):
    """The name of an event, taken apart; strings are positions."""

    role: _Role
    name: int
    op_type: int


class _Op(NamedTuple):
    """An op or a kernel on its way into the columns."""

    name: str
    op_type: str
    place: Place
    start_ns: int
    duration_ns: int
    bytes: int = 0


def _profile_start_ns(space: Any) -> int:
    for plane in space.planes:
        for stat in plane.stats:
            if plane.stat_metadata[stat.metadata_id].name == "profile_start_time":
                return int(stat.uint64_value or stat.int64_value)
    return 0


def _role(name: str) -> tuple[_Role | None, str, str]:
    if name in _FRAMEWORK:
        return _FRAMEWORK[name], "", ""
    eager = _EAGER.match(name)
    if eager is not None:
        return _Role.EAGER, eager[1], eager[1]
    op = _OP.match(name)
    return (_Role.OP, op["name"], op["type"]) if op is not None else (None, "", "")


def _hold_any(start_ns: Int64s, duration_ns: Int64s, moments_ns: Int64s) -> Flags:
    """Say of each event whether an op or a function ran inside: then it only wraps that."""
    first = np.searchsorted(moments_ns, start_ns, side="left")
    after = np.searchsorted(moments_ns, start_ns + duration_ns, side="right")
    return after > first


class _AsyncOps:
    """Join the start and the completion of asynchronous ops, which are on different threads."""

    def __init__(self, plane: Any) -> None:
        self._plane = plane
        self._starts: dict[object, tuple[str, str, int]] = {}
        self._ends_ns: dict[object, int] = {}
        self._work_ends_ns: list[int] = []

    def note(self, event: Any, role: _Role, start_ns: int, duration_ns: int) -> None:
        if role is _Role.GET_NEXT:
            self._work_ends_ns.append(start_ns + duration_ns)
            return
        stats = _stat_values(self._plane, event.stats)
        if role is _Role.ASYNC_DONE:
            self._ends_ns[stats.get("_c")] = start_ns
            return
        name, op_type = str(stats.get("name", "")), str(stats.get("kernel_type", ""))
        self._starts[stats.get("_p")] = (name, op_type, start_ns)

    def completed(self, is_get_next: Flags, start_ns: Int64s, duration_ns: Int64s) -> Int64s:
        """Return the durations of rows by start; that of a launched IteratorGetNext to its end."""
        ends_ns = sorted(self._work_ends_ns)
        completed = duration_ns.copy()
        for row in np.flatnonzero(is_get_next).tolist():
            at = bisect_left(ends_ns, int(start_ns[row] + duration_ns[row]))
            if at < len(ends_ns):
                completed[row] = ends_ns.pop(at) - start_ns[row]
        return completed

    def ops(self) -> Iterator[_Op]:
        for key, (name, op_type, start_ns) in self._starts.items():
            if name and op_type and key in self._ends_ns:
                duration_ns = max(self._ends_ns[key] - start_ns, 0)
                yield _Op(name, op_type, Place.HOST, start_ns, duration_ns)


def _kernel(plane: Any, line: Any, event: Any) -> _Op:
    metadata = plane.event_metadata[event.metadata_id]
    stats = _stat_values(plane, metadata.stats) | _stat_values(plane, event.stats)
    kernel = metadata.display_name or metadata.name
    place = _copy_place(f"{metadata.name} {line.name}")
    op = _OP.match(str(stats.get("tf_op") or stats.get("name") or ""))
    size = _COPY_SIZE.search(str(stats.get("memcpy_details", "")))
    is_copy = place is not Place.ACCELERATOR
    return _Op(
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
