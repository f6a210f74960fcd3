"""Decode the ops of the host: a thread's event whose name contains node and op.

Seen in recordings of TensorFlow 2.4 to 2.21 on CPU: an op is an event "scope/name:Type" whose
display name is "Type"; an asynchronous op (2.5 and later) is a pair ProcessAsync::Start and
ProcessAsync::Done, joined by a connection id; an eager op has no event of its own from about 2.9
on, only "EagerLocalExecute: Type". Everything else is the framework's own tracing.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tfprobe.formats.xspace.datasets import DatasetRuns
from tfprobe.formats.xspace.plane import (
    HOST,
    EventFacts,
    EventNames,
    Plane,
    is_background,
    op_of,
)
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.tables import Columns, Flags, Int32s, Int64s, Interner

_EAGER = re.compile(r"EagerLocalExecute: (_?[A-Z]\w*)\Z")


class HostReader:
    """Decodes the ops of captures; each event name is parsed only once."""

    def __init__(self, interner: Interner, names: EventNames) -> None:
        """Start with nothing known. Strings become positions in `interner`."""
        self._interner = interner
        self._facts = EventFacts(names, self._event)
        # Positions of ops whose events cover only their launch.
        self._get_next_types: set[int] = set()

    def add_ops(
        self,
        columns: Columns[Executions],
        plane: Plane,
        runs: DatasetRuns | None = None,
        *,
        has_programs: bool = False,
    ) -> None:
        """Add the ops of a plane by start; then those that ended on another thread.

        `runs` has the ops that a tf.data iterator runs. With `has_programs` the instructions of XLA
        programs become rows, and ops that only run such a program do not.
        """
        kinds = _Kinds(*self._facts.columns())
        if not has_programs:
            kinds = kinds.without(_Role.PROGRAM)
        waits = _AsyncOps()
        parts = [
            self._line(
                plane, at, kinds, waits, functools.partial(runs.paths_at, at) if runs else None
            )
            for at in range(len(plane.lines))
        ]
        rows = [np.concatenate(each) for each in zip(_NO_ROWS, *parts, strict=True)]
        lane, name, op_type, background, start_ns, duration_ns, detail = rows
        order = np.argsort(start_ns, kind="stable")
        is_get_next = np.isin(op_type[order], list(self._get_next_types))
        columns.add(
            len(order),
            device=self._interner.position(HOST),
            lane=lane[order],
            name=name[order],
            op_type=op_type[order],
            place=Place.HOST,
            background=background[order],
            start_ns=start_ns[order],
            duration_ns=waits.completed(is_get_next, start_ns[order], duration_ns[order]),
            detail=detail[order],
        )
        for op in waits.ops():
            columns.add(
                1,
                device=self._interner.position(HOST),
                lane=self._interner.position("async"),
                name=self._interner.position(op.name),
                op_type=self._interner.position(op.op_type),
                place=Place.HOST,
                start_ns=op.start_ns,
                duration_ns=op.duration_ns,
            )

    def _event(self, name: str) -> tuple[int, int, int]:
        """Return role, name and op of an event's name; the role is below 0 if it has none."""
        role, op, op_type = _role(name)
        if role is None:
            return _NO_ROLE, 0, 0
        at = self._interner.position(op_type)
        if op_type.startswith("IteratorGetNext"):
            self._get_next_types.add(at)
        return role, self._interner.position(op), at

    def _line(
        self,
        plane: Plane,
        line: int,
        kinds: _Kinds,
        waits: _AsyncOps,
        paths_at: Callable[[Int64s], Int32s] | None,
    ) -> tuple[npt.NDArray[Any], ...]:
        """Return the columns of the ops of one thread, in the order of _NO_ROWS."""
        places = plane.places(line, kinds.role >= 0)
        start_ns, duration_ns = plane.times_ns(line, places)
        kind = plane.numbers_at(line, places)
        role, lane = kinds.role[kind], plane.lines[line].name
        program_ns = np.sort(start_ns[role == _Role.PROGRAM])
        runs_program = _hold_any(start_ns, duration_ns, program_ns)
        noted = np.flatnonzero((role >= _Role.ASYNC_START) & ~runs_program)
        waits.note(
            role[noted], start_ns[noted], duration_ns[noted], plane.stats(line, places[noted])
        )
        inner_ns = np.sort(start_ns[(role == _Role.OP) | (role == _Role.FUNCTION)])
        is_op = (role == _Role.OP) & ~runs_program
        eager = np.flatnonzero(role == _Role.EAGER)
        is_op[eager] = ~_hold_any(start_ns[eager], duration_ns[eager], inner_ns)
        count = int(np.count_nonzero(is_op))
        background = np.full(count, is_background(lane), dtype=np.bool_)
        detail = np.zeros(count, dtype=np.int32)
        if paths_at is not None:
            paths = paths_at(start_ns[is_op])
            background |= paths != 0
            detail = np.maximum(paths, 0)
        return (
            np.full(count, self._interner.position(lane), dtype=np.int32),
            kinds.name[kind][is_op],
            kinds.op_type[kind][is_op],
            background,
            start_ns[is_op],
            duration_ns[is_op],
            detail,
        )


class _Role(IntEnum):
    """The meaning of a host event."""

    OP = 0
    EAGER = 1
    FUNCTION = 2
    ASYNC_START = 3
    ASYNC_DONE = 4
    GET_NEXT = 5
    # An XLA program, whose instructions are rows themselves.
    PROGRAM = 6


_FRAMEWORK: Mapping[str, _Role] = {
    "ExecutorState::ProcessAsync::Start": _Role.ASYNC_START,
    "ExecutorState::ProcessAsync::Done": _Role.ASYNC_DONE,
    "FunctionRun": _Role.FUNCTION,
    "CpuExecutable::ExecuteAsyncOnStream": _Role.PROGRAM,
    # Until TF 2.13 the op event of IteratorGetNext is its launch only; these are its work.
    "IteratorGetNextOp::DoCompute": _Role.GET_NEXT,
    "IteratorGetNextAsOptionalOp::DoCompute": _Role.GET_NEXT,
}
_NO_ROLE = -1
# Lane, name, op, background, start, duration and detail of no row: lines are appended to it.
_NO_ROWS = (
    np.empty(0, dtype=np.int32),
    np.empty(0, dtype=np.int32),
    np.empty(0, dtype=np.int32),
    np.empty(0, dtype=np.bool_),
    np.empty(0, dtype=np.int64),
    np.empty(0, dtype=np.int64),
    np.empty(0, dtype=np.int32),
)


class _Kinds(NamedTuple):
    """Parsed names of events, in columns by their numbers; strings are positions."""

    role: Int32s
    name: Int32s
    op_type: Int32s

    def without(self, role: _Role) -> _Kinds:
        """Return a copy in which the events of a role have no meaning."""
        return self._replace(role=np.where(self.role == role, _NO_ROLE, self.role))


class _Op(NamedTuple):
    """An asynchronous op to be added to the columns."""

    name: str
    op_type: str
    start_ns: int
    duration_ns: int


def _role(name: str) -> tuple[_Role | None, str, str]:
    if name in _FRAMEWORK:
        return _FRAMEWORK[name], "", ""
    eager = _EAGER.match(name)
    if eager is not None:
        return _Role.EAGER, eager[1], eager[1]
    op = op_of(name)
    return (None, "", "") if op is None else (_Role.OP, *op)


def _hold_any(start_ns: Int64s, duration_ns: Int64s, moments_ns: Int64s) -> Flags:
    """Return which events have an op or a function inside: they only wrap it."""
    first = np.searchsorted(moments_ns, start_ns, side="left")
    after = np.searchsorted(moments_ns, start_ns + duration_ns, side="right")
    return after > first


class _AsyncOps:
    """Joins the start and completion of asynchronous ops, which are on different threads."""

    def __init__(self) -> None:
        self._starts: dict[object, tuple[str, str, int]] = {}
        self._ends_ns: dict[object, int] = {}
        self._loop_ends_ns: list[int] = []

    def note(
        self,
        roles: Int32s,
        starts_ns: Int64s,
        durations_ns: Int64s,
        stats_of_events: Sequence[Mapping[str, Any]],
    ) -> None:
        """Record the events of one thread. Any: values of stats."""
        columns = (roles.tolist(), starts_ns.tolist(), durations_ns.tolist(), stats_of_events)
        for role, start_ns, duration_ns, stats in zip(*columns, strict=True):
            if role == _Role.GET_NEXT:
                self._loop_ends_ns.append(start_ns + duration_ns)
            elif role == _Role.ASYNC_DONE:
                self._ends_ns[stats.get("_c")] = start_ns
            else:
                name, op_type = str(stats.get("name", "")), str(stats.get("kernel_type", ""))
                self._starts[stats.get("_p")] = (name, op_type, start_ns)

    def completed(self, is_get_next: Flags, start_ns: Int64s, duration_ns: Int64s) -> Int64s:
        """Return row durations by start; a launched IteratorGetNext lasts until its end."""
        ends_ns = sorted(self._loop_ends_ns)
        completed = duration_ns.copy()
        for row in np.flatnonzero(is_get_next).tolist():
            at = bisect_left(ends_ns, int(start_ns[row] + duration_ns[row]))
            if at < len(ends_ns):
                completed[row] = ends_ns.pop(at) - start_ns[row]
        return completed

    def ops(self) -> Iterator[_Op]:
        for key, (name, op_type, start_ns) in self._starts.items():
            end_ns = self._ends_ns.get(key)
            if end_ns is None and op_type.startswith("IteratorGetNext"):
                # Work after it on the same thread may outlast the recording.
                end_ns = self._next_loop_end_ns(start_ns)
            if name and op_type and end_ns is not None:
                yield _Op(name, op_type, start_ns, max(end_ns - start_ns, 0))

    def _next_loop_end_ns(self, start_ns: int) -> int | None:
        return min((end_ns for end_ns in self._loop_ends_ns if end_ns > start_ns), default=None)
