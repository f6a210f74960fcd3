"""Find which iterator of tf.data runs a function, and the ops of that function.

An iterator calls a function such as a Map's with an InstantiatedCapturedFunction::Run... event,
whose `id` is the number of that run. Wherever it runs, on whatever thread, ExecutorState::Process
events carry the same number. The iterator is that of the GetNext around the call; a parallel one
calls from a thread of its own, within a ...Produce, after the GetNext of its input. This holds for
recordings of TensorFlow 2.4 to 2.21.

A run that nothing in the capture called began before it, so it does not belong to the step. Neither
do the ops that a pool thread runs before its first ExecutorState::Process, or after its last one
without a group number, in versions that number the groups of the step's events (seen in 2.4). If
only one iterator of the capture runs functions, they are assigned to that one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from tfprobe.formats.xspace.plane import ITERATOR, EventFacts, EventNames, Plane, op_of
from tfprobe.profile.tables import Flags, Int32s, Int64s, Interner, int32s, int64s

# What grappler runs to fold constants has no number of its own.
_OF_GRAPPLER = -1
_CALL = "InstantiatedCapturedFunction::Run"
_FUNCTION_RUN = "FunctionRun"
# Threads that run ops only within an ExecutorState::Process.
_POOLS = "tf_"
# Before everything that is recorded.
_NEVER_NS = -1
# The path of an unknown iterator.
SOME_ITERATOR = -1
_PRODUCE = re.compile(r"\w+Produce\Z")
# An iterator inside one element of another is written "FlatMap[0]::Generator".
_ELEMENT = re.compile(r"\[\d+\]\Z")


class DatasetRun(NamedTuple):
    """A function that an iterator ran: its own number, and number and path of the iterator."""

    number: int
    owner: int
    path: str
    lane: str
    start_ns: int
    end_ns: int


class DatasetRuns:
    """The functions that iterators ran during a capture."""

    def __init__(
        self, plane: Plane, interner: Interner, facts: EventFacts, of_iterators: set[int]
    ) -> None:
        """Find them in the plane of the host; `facts` are those of `dataset_facts`.

        `of_iterators` are the numbers of the names of ops that ran for iterators in previous
        captures; those of this capture are added.
        """
        self._plane = plane
        self._of_iterators = of_iterators
        self._interner = interner
        self._roles, is_op = facts.columns()
        self._is_op = is_op.astype(np.bool_)
        self._wanted = {each: np.isin(self._roles, each) for each in _TOGETHER}
        lines = range(len(plane.lines))
        calls = [call for line in lines for call in self._calls(line)]
        self._paths = {call.number: interner.position(call.path) for call in calls}
        # Iterators continue to work in captures of steps that do not use them.
        has_iterators = bool(of_iterators) or bool(
            (self._roles[plane.numbers] == _Role.ITERATOR).any()
        )
        loop = [self._events(line, _WORKING) for line in lines] if has_iterators else []
        early = list(self._early(loop, {call.path for call in calls}))
        self._paths |= {run.number: self._position(run) for run in early}
        loose = [run for run in early if not run.number]
        self._segments = [
            self._segments_of(events, [run for run in loose if run.lane == line.name])
            for line, events in zip(plane.lines, loop, strict=False)
        ]
        ends_ns = self._ends_ns(loop)
        self.runs = [
            run._replace(end_ns=max(run.end_ns, ends_ns.get(run.number, 0)))
            for run in (*calls, *early)
            if run.path
        ]

    def paths_at(self, line: int, moments_ns: Int64s) -> Int32s:
        """Return the path of the iterator that a line runs something for at moments; 0 for none.

        SOME_ITERATOR if it is unknown which iterator.
        """
        if not self._segments:
            return np.zeros(len(moments_ns), dtype=np.int32)
        starts_ns, paths = self._segments[line]
        return paths[np.searchsorted(starts_ns, moments_ns, side="right")]

    def _calls(self, line: int) -> Iterator[DatasetRun]:
        """Yield the function calls on a thread, each with the iterator that surrounds it."""
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
                yield DatasetRun(event.number, owner, path, lane, event.start_ns, event.end_ns)

    def _position(self, run: DatasetRun) -> int:
        return self._interner.position(run.path) if run.path else SOME_ITERATOR

    def _early(self, loop: list[list[_Event]], paths: set[str]) -> Iterator[DatasetRun]:
        """Yield the runs that nothing in the capture called; number 0 if it is unknown."""
        lines = range(len(self._plane.lines))
        runs = [event for line in lines for event in self._events(line, _RUNNING)]
        if not runs:
            return  # this capture does not record calls
        called = self._paths.keys() | {event.number for event in runs} | {_OF_GRAPPLER}
        has_groups = any(event.has_group for event in runs)
        path = next(iter(paths)) if len(paths) == 1 else ""
        if has_groups:
            self._of_iterators |= self._ops_of_iterators(loop, called)
        first: dict[int, DatasetRun] = {}
        for at, (line, events) in enumerate(zip(self._plane.lines, loop, strict=False)):
            for event in (event for event in events if event.number not in called):
                run = DatasetRun(event.number, 0, path, line.name, event.start_ns, event.end_ns)
                first[event.number] = min(first.get(event.number, run), run, key=_start_ns)
            if line.name.startswith(_POOLS):
                yield from self._loose(at, events, path, has_groups=has_groups)
        yield from first.values()

    def _ops_of_iterators(self, loop: list[list[_Event]], called: set[int]) -> set[int]:
        """Return the numbers of the names of the ops that ran within iterators' work."""
        found: set[int] = set()
        for line, events in enumerate(loop):
            places = self._plane.places(line, self._is_op)
            starts_ns, _ = self._plane.times_ns(line, places)
            order = np.argsort(starts_ns, kind="stable")
            ordered_ns, names = starts_ns[order], self._plane.numbers_at(line, places[order])
            for event in events:
                if event.number in called and event.number not in self._paths:
                    continue
                bounds = np.searchsorted(ordered_ns, (event.start_ns, event.end_ns))
                found.update(names[slice(*bounds)].tolist())
        return found

    def _loose(
        self, at: int, events: list[_Event], path: str, *, has_groups: bool
    ) -> Iterator[DatasetRun]:
        """Yield the runs whose ops a pool thread ran before or after all its recorded work.

        Earlier ops began before the recording, so they belong to no step. Work that had not ended
        when the recording ended may belong to the step: of its ops, those without a group are
        chosen by name.
        """
        line, places = self._plane.lines[at], self._plane.places(at, self._is_op)
        start_ns, duration_ns = self._plane.times_ns(at, places)
        first_ns = events[0].start_ns if events else _NEVER_NS
        after = start_ns >= max((event.end_ns for event in events), default=_NEVER_NS)
        after &= has_groups
        if after.any():
            after &= self._are_of_iterators(at, places, after)
        for chosen in (start_ns < first_ns, after):
            for began_ns, ended_ns in _together(start_ns, duration_ns, chosen):
                yield DatasetRun(0, 0, path, line.name, began_ns, ended_ns)

    def _are_of_iterators(self, line: int, places: Int64s, candidates: Flags) -> Flags:
        """Return which of the candidates have no group and ran for iterators before."""
        names = self._plane.numbers_at(line, places)
        chosen = candidates & np.isin(names, list(self._of_iterators))
        return chosen & ~self._have_groups(line, places)

    def _have_groups(self, line: int, places: Int64s) -> Flags:
        return self._plane.lines[line].have(self._plane.stat_ids("group_id"), places)

    def _go_into(self, around: list[_Around], event: _Event) -> None:
        if event.role is _Role.PRODUCE:
            around.append(_Around(event.end_ns, 0, ""))
            return
        path = event.name
        if around and not around[-1].path:
            # The first GetNext in a ...Produce is that of the input: its parent produces.
            around[-1].owner = event.parent
            around[-1].path = _ELEMENT.sub("", path.rpartition("::")[0])
        around.append(_Around(event.end_ns, event.number, path))

    def _events(self, line: int, wanted: tuple[_Role, ...]) -> list[_Event]:
        """Return the events of these roles, by start, outer events before inner ones."""
        places = self._plane.places(line, self._wanted[wanted])
        start_ns, duration_ns = self._plane.times_ns(line, places)
        roles = self._roles[self._plane.numbers_at(line, places)]
        columns = (
            start_ns.tolist(),
            (start_ns + duration_ns).tolist(),
            [_ROLES[role] for role in roles.tolist()],
            self._plane.names_at(line, places),
            self._plane.integers(line, places, "id").tolist(),
            self._plane.integers(line, places, "parent_id").tolist(),
            self._have_groups(line, places).tolist(),
        )
        events = [_Event(*event) for event in zip(*columns, strict=True)]
        return sorted(events, key=lambda event: (event.start_ns, -event.end_ns))

    def _ends_ns(self, loop: list[list[_Event]]) -> dict[int, int]:
        """Return when each function ended, wherever it ran."""
        ends_ns: dict[int, int] = {}
        for event in (event for events in loop for event in events):
            if event.number in self._paths:
                ends_ns[event.number] = max(ends_ns.get(event.number, 0), event.end_ns)
        return ends_ns

    def _segments_of(self, loop: list[_Event], loose: list[DatasetRun]) -> tuple[Int64s, Int32s]:
        """Return when a thread switches to another function, and the paths before and after."""
        if not loose and not any(event.number in self._paths for event in loop):
            return _NO_SEGMENTS
        starts_ns: list[int] = []
        until_ns = loop[0].start_ns if loop else _NEVER_NS
        paths = [next((self._position(run) for run in loose if run.start_ns < until_ns), 0)]
        around: list[tuple[int, int]] = []
        for event in loop:
            _leave(around, event.start_ns, starts_ns, paths)
            around.append((event.end_ns, self._paths.get(event.number, 0)))
            starts_ns.append(event.start_ns)
            paths.append(around[-1][1])
        _leave(around, None, starts_ns, paths)
        for run in (run for run in loose if run.start_ns >= until_ns):
            starts_ns += [run.start_ns, run.end_ns]
            paths += [self._position(run), 0]
        # Contradictory times occur only in damaged files.
        ordered: Int64s = np.maximum.accumulate(int64s(starts_ns))
        return ordered, int32s(paths, len(paths))


class _Role(IntEnum):
    """The meaning of an event."""

    ITERATOR = 0
    PRODUCE = 1
    CALL = 2
    LOOP = 3
    FUNCTION = 4


_CALLING = (_Role.ITERATOR, _Role.PRODUCE, _Role.CALL)
_WORKING = (_Role.LOOP,)
_RUNNING = (_Role.FUNCTION,)
_TOGETHER: tuple[tuple[_Role, ...], ...] = (_CALLING, _WORKING, _RUNNING)
_ROLES = tuple(_Role)
_NO_ROLE = -1
# For a thread that runs nothing for an iterator.
_NO_SEGMENTS = np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int32)
_DONE = "ExecutorDoneCallback"
_LOOP = ("ExecutorState::Process", _DONE)


class _Event(NamedTuple):
    """An event with the number it carries and that of its parent, 0 for none."""

    start_ns: int
    end_ns: int
    role: _Role
    name: str
    number: int
    parent: int
    has_group: bool


@dataclass(slots=True)
class _Around:
    """What surrounds an event; a ...Produce has no owner before the GetNext of its input."""

    end_ns: int
    owner: int
    path: str


def dataset_facts(names: EventNames) -> EventFacts:
    """Return the role of each name here, below 0 for none, and whether it is an op's name."""
    return EventFacts(names, lambda name: (_role(name), op_of(name) is not None))


def _role(name: str) -> int:
    if name.startswith(ITERATOR):
        return _Role.ITERATOR
    if name.startswith(_CALL):
        return _Role.CALL
    if name in _LOOP:
        return _Role.LOOP
    if name == _FUNCTION_RUN:
        return _Role.FUNCTION
    return _Role.PRODUCE if _PRODUCE.match(name) else _NO_ROLE


def _together(start_ns: Int64s, duration_ns: Int64s, chosen: Flags) -> Iterator[tuple[int, int]]:
    """Yield the time ranges of chosen events that no other event interrupts."""
    order = np.argsort(start_ns, kind="stable")
    changes = np.flatnonzero(np.diff(chosen[order], prepend=False, append=False))
    for first, after in changes.reshape(-1, 2).tolist():
        mine = order[first:after]
        yield int(start_ns[mine[0]]), int((start_ns + duration_ns)[mine].max())


def _start_ns(run: DatasetRun) -> int:
    return run.start_ns


def _leave(
    around: list[tuple[int, int]], until_ns: int | None, starts_ns: list[int], paths: list[int]
) -> None:
    """Record the ends of everything that ended by a moment, or of all."""
    while around and (until_ns is None or around[-1][0] <= until_ns):
        starts_ns.append(around.pop()[0])
        paths.append(around[-1][1] if around else 0)
