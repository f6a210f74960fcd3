"""Find which iterator of tf.data runs a function, and the ops of that function.

An iterator calls a function such as a Map's by an event InstantiatedCapturedFunction::Run..., with
the number of that run as its `id`. Where it runs, on whatever thread, events ExecutorState::Process
carry the same number. The iterator is that of the GetNext around the call; a parallel one calls
from a thread of its own, within a ...Produce, after the GetNext of its input. So in the recordings
of TensorFlow 2.4 to 2.21.

A run that nothing in the capture called began before it, so it is none of the step's; nor are the
ops that a thread of a pool runs before its first ExecutorState::Process, or after its last without
the number of a group, in versions that number those of the step's events (seen in 2.4). Where only
one iterator of the capture runs functions, they are that one's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from tfprobe.ingest.columns import int32s, int64s
from tfprobe.ingest.xspace.names import ITERATOR, op_of
from tfprobe.ingest.xspace.plane import Plane
from tfprobe.ingest.xspace.stats import integer, times_ns
from tfprobe.model.strings import Interner
from tfprobe.model.tables import Flags, Int32s, Int64s

# What grappler runs to fold constants has no number of its own.
_OF_GRAPPLER = -1
_CALL = "InstantiatedCapturedFunction::Run"
_FUNCTION_RUN = "FunctionRun"
# Threads that run ops only within an ExecutorState::Process.
_POOLS = "tf_"
# Before all that is recorded.
_NEVER_NS = -1
# Stands for the path of an iterator that nobody knows.
SOME_ITERATOR = -1
_PRODUCE = re.compile(r"\w+Produce\Z")
# An iterator inside one element of another is written "FlatMap[0]::Generator".
_ELEMENT = re.compile(r"\[\d+\]\Z")


class Run(NamedTuple):
    """A function that an iterator ran: its own number, and number and path of the iterator."""

    number: int
    owner: int
    path: str
    lane: str
    start_ns: int
    end_ns: int


class DatasetRuns:
    """The functions that iterators ran during a capture."""

    def __init__(self, plane: Plane, interner: Interner, of_iterators: set[str]) -> None:
        """Find them in the plane of the host.

        `of_iterators` are the names of ops that ran for iterators in captures until now; those of
        this one are added.
        """
        self._plane = plane
        self._of_iterators = of_iterators
        self._interner = interner
        roles = ((at, _role(name)) for at, name in plane.names.items())
        self._roles = {at: role for at, role in roles if role is not None}
        self._ops = {at for at, name in plane.names.items() if _is_op(name)}
        lines = range(len(plane.lines))
        calls = [call for line in lines for call in self._calls(line)]
        self._paths = {call.number: interner.position(call.path) for call in calls}
        has_iterators = _Role.ITERATOR in self._roles.values()
        work = [self._events(line, _WORKING) for line in lines] if has_iterators else []
        early = list(self._early(work, {call.path for call in calls}))
        self._paths |= {run.number: self._position(run) for run in early}
        loose = [run for run in early if not run.number]
        self._segments = [
            self._segments_of(events, [run for run in loose if run.lane == line.name])
            for line, events in zip(plane.lines, work, strict=False)
        ]
        ends_ns = self._ends_ns(work)
        self.runs = [
            run._replace(end_ns=max(run.end_ns, ends_ns.get(run.number, 0)))
            for run in (*calls, *early)
            if run.path
        ]

    def paths_at(self, line: int, moments_ns: Int64s) -> Int32s:
        """Return the path of the iterator that runs what a line does at moments; 0 for none.

        SOME_ITERATOR where it is not known which.
        """
        if not self._segments:
            return np.zeros(len(moments_ns), dtype=np.int32)
        starts_ns, paths = self._segments[line]
        return paths[np.searchsorted(starts_ns, moments_ns, side="right")]

    def _calls(self, line: int) -> Iterator[Run]:
        """Give the calls of functions on a thread, each by the iterator that it is within."""
        lane = self._plane.lines[line].name
        around: list[_Around] = []
        for event in self._events(line, _CALLING):
            while around and around[-1].end_ns <= event.start_ns:
                around.pop()
            innermost = around[-1] if around else None
            if event.role is not _Role.CALL:
                self._go_into(around, event)
            elif innermost is not None and innermost.path:
                owner, path = innermost.owner, innermost.path
                yield Run(event.number, owner, path, lane, event.start_ns, event.end_ns)

    def _position(self, run: Run) -> int:
        return self._interner.position(run.path) if run.path else SOME_ITERATOR

    def _early(self, work: list[list[_Event]], paths: set[str]) -> Iterator[Run]:
        """Give the runs that nothing in the capture called; number 0 where it is not told."""
        lines = range(len(self._plane.lines))
        runs = [event for line in lines for event in self._events(line, (_Role.FUNCTION,))]
        if not runs:
            return  # this capture does not tell what was called
        called = self._paths.keys() | {event.number for event in runs} | {_OF_GRAPPLER}
        has_groups = any(self._has_group(event.message) for event in runs)
        path = next(iter(paths)) if len(paths) == 1 else ""
        if has_groups:
            self._of_iterators |= self._ops_of_iterators(work, called)
        first: dict[int, Run] = {}
        for at, (line, events) in enumerate(zip(self._plane.lines, work, strict=False)):
            for event in (event for event in events if event.number not in called):
                run = Run(event.number, 0, path, line.name, event.start_ns, event.end_ns)
                first[event.number] = min(first.get(event.number, run), run, key=_start_ns)
            if line.name.startswith(_POOLS):
                yield from self._loose(at, events, path, has_groups=has_groups)
        yield from first.values()

    def _ops_of_iterators(self, work: list[list[_Event]], called: set[int]) -> set[str]:
        """Return the names of the ops that ran in work of iterators."""
        found: set[int] = set()
        for at_line, (line, events) in enumerate(zip(self._plane.lines, work, strict=False)):
            ops = self._plane.events(at_line, self._ops)
            starts_ns, _ = times_ns(line, ops)
            order = np.argsort(starts_ns, kind="stable")
            for each in events:
                if each.number in called and each.number not in self._paths:
                    continue
                bounds = np.searchsorted(starts_ns[order], (each.start_ns, each.end_ns))
                found.update(ops[at].metadata_id for at in order[slice(*bounds)].tolist())
        return {self._plane.names[at] for at in found}

    def _loose(
        self, at: int, events: list[_Event], path: str, *, has_groups: bool
    ) -> Iterator[Run]:
        """Give the runs whose ops a thread of a pool ran before or after all work it tells of.

        What came before began before the recording, as no step did. Work that was not over when
        the recording ended may be the step's too: its ops have no group, and go by their names.
        """
        line, found = self._plane.lines[at], self._plane.events(at, self._ops)
        start_ns, duration_ns = times_ns(line, found)
        first_ns = events[0].start_ns if events else _NEVER_NS
        after = start_ns >= max((event.end_ns for event in events), default=_NEVER_NS)
        after &= has_groups
        if after.any():
            told = (self._is_of_iterator(each) for each in found)
            after &= np.fromiter(told, dtype=np.bool_, count=len(found))
        for chosen in (start_ns < first_ns, after):
            for began_ns, ended_ns in _together(start_ns, duration_ns, chosen):
                yield Run(0, 0, path, line.name, began_ns, ended_ns)

    def _is_of_iterator(self, event: Any) -> bool:
        name = self._plane.name_of(event)
        return name in self._of_iterators and not self._has_group(event)

    def _has_group(self, event: Any) -> bool:
        stats = self._plane.message.stat_metadata
        return any(stats[stat.metadata_id].name == "group_id" for stat in event.stats)

    def _go_into(self, around: list[_Around], event: _Event) -> None:
        if event.role is _Role.PRODUCE:
            around.append(_Around(event.end_ns, 0, ""))
            return
        path = self._plane.name_of(event.message)
        if around and not around[-1].path:
            # The first GetNext in a ...Produce is that of the input: its parent produces.
            around[-1].owner = integer(self._plane.message, event.message, "parent_id")
            around[-1].path = _ELEMENT.sub("", path.rpartition("::")[0])
        around.append(_Around(event.end_ns, event.number, path))

    def _events(self, line: int, wanted: tuple[_Role, ...]) -> list[_Event]:
        """Return the events of these roles, by start, the outer before the inner."""
        roles = {at: role for at, role in self._roles.items() if role in wanted}
        found = self._plane.events(line, roles)
        start_ns, duration_ns = times_ns(self._plane.lines[line], found)
        columns = (start_ns.tolist(), (start_ns + duration_ns).tolist(), found)
        events = [
            _Event(
                start, end, roles[each.metadata_id], integer(self._plane.message, each, "id"), each
            )
            for start, end, each in zip(*columns, strict=True)
        ]
        return sorted(events, key=lambda event: (event.start_ns, -event.end_ns))

    def _ends_ns(self, work: list[list[_Event]]) -> dict[int, int]:
        """Return when each function was done, wherever it ran."""
        ends_ns: dict[int, int] = {}
        for event in (event for events in work for event in events):
            if event.number in self._paths:
                ends_ns[event.number] = max(ends_ns.get(event.number, 0), event.end_ns)
        return ends_ns

    def _segments_of(self, work: list[_Event], loose: list[Run]) -> tuple[Int64s, Int32s]:
        """Return when a thread turns to another function, and the paths before and after."""
        starts_ns: list[int] = []
        until_ns = work[0].start_ns if work else _NEVER_NS
        paths = [next((self._position(run) for run in loose if run.start_ns < until_ns), 0)]
        around: list[tuple[int, int]] = []
        for event in work:
            _leave(around, event.start_ns, starts_ns, paths)
            around.append((event.end_ns, self._paths.get(event.number, 0)))
            starts_ns.append(event.start_ns)
            paths.append(around[-1][1])
        _leave(around, None, starts_ns, paths)
        for run in (run for run in loose if run.start_ns >= until_ns):
            starts_ns += [run.start_ns, run.end_ns]
            paths += [self._position(run), 0]
        # Times that contradict each other come in damaged files only.
        ordered: Int64s = np.maximum.accumulate(int64s(starts_ns))
        return ordered, int32s(paths, len(paths))


class _Role(IntEnum):
    """What an event says."""

    ITERATOR = 0
    PRODUCE = 1
    CALL = 2
    WORK = 3
    FUNCTION = 4


_CALLING = (_Role.ITERATOR, _Role.PRODUCE, _Role.CALL)
_WORKING = (_Role.WORK,)
_DONE = "ExecutorDoneCallback"
_WORK = ("ExecutorState::Process", _DONE)


class _Event(NamedTuple):
    """An event with the number that it says; `message` is the XEvent."""

    start_ns: int
    end_ns: int
    role: _Role
    number: int
    message: Any


@dataclass(slots=True)
class _Around:
    """What goes on around an event; a ...Produce has no owner before its input was asked."""

    end_ns: int
    owner: int
    path: str


@functools.lru_cache(maxsize=2**16)
def _role(name: str) -> _Role | None:
    if name.startswith(ITERATOR):
        return _Role.ITERATOR
    if name.startswith(_CALL):
        return _Role.CALL
    if name in _WORK:
        return _Role.WORK
    if name == _FUNCTION_RUN:
        return _Role.FUNCTION
    return _Role.PRODUCE if _PRODUCE.match(name) else None


@functools.lru_cache(maxsize=2**16)
def _is_op(name: str) -> bool:
    return op_of(name) is not None


def _together(start_ns: Int64s, duration_ns: Int64s, chosen: Flags) -> Iterator[tuple[int, int]]:
    """Give from when to when the chosen events last that have no other between them."""
    order = np.argsort(start_ns, kind="stable")
    changes = np.flatnonzero(np.diff(chosen[order], prepend=False, append=False))
    for first, after in changes.reshape(-1, 2).tolist():
        mine = order[first:after]
        yield int(start_ns[mine[0]]), int((start_ns + duration_ns)[mine].max())


def _start_ns(run: Run) -> int:
    return run.start_ns


def _leave(
    around: list[tuple[int, int]], until_ns: int | None, starts_ns: list[int], paths: list[int]
) -> None:
    """Note the ends of what was over by a moment, or of all."""
    while around and (until_ns is None or around[-1][0] <= until_ns):
        starts_ns.append(around.pop()[0])
        paths.append(around[-1][1] if around else 0)
