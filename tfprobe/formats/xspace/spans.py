"""Decode what the host did around its ops: iterators, tracing and compiling, driver calls.

An event is classified by its name or, if only a stat tells, by the first event of that name:
`tf_function_call` marks the call of a tf.function, `correlation_id` a driver call (openxla/xla,
xla/backends/profiler/gpu/cupti_collector.cc). TensorFlow has no event for grappler: when it
prepares a function for its first run, the EagerLocalExecute of the call begins long before the
EagerKernelExecute in it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from tfprobe.formats.xspace.datasets import DatasetRuns
from tfprobe.formats.xspace.events import EventPlane
from tfprobe.formats.xspace.plane import (
    ITERATOR,
    EventFacts,
    EventNames,
    Plane,
    copy_bytes,
    is_background,
    number,
    op_of,
)
from tfprobe.profile.capture_tables import SpanKind, Spans
from tfprobe.profile.tables import Columns, Flags, Int32s, Int64s, Interner, int64s

_COMPILE = re.compile(
    # Python's tracing of a function; passes over its graph; XLA as a whole and its larger parts.
    r"tf\.function-graph_building|OptimizeFunction|FunctionalizeControlFlow|\w*[Gg]rappler"
    r"|XlaCompile|XlaAutotunerCompilation|XlaEmitLlvmIr|XlaOptimizeLlvmIr|HLO passes|Codegen\Z"
    r"|\w+Compiler::|\w+::Compile(?:Internal|AndLoad)?\Z"
)
_CALL = "tf_function_call"
_PYTHON_OPS = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
_CALL_OF_FUNCTION = re.compile(r"EagerLocalExecute: (__inference_\w+)\Z")
_KERNEL_OF_FUNCTION = "EagerKernelExecute"
# A prepared function is found within 0.1 ms; a call that takes longer than this prepares it.
_PREPARED_NS = 500_000
# Stats that every iterator has, and that have their own columns or are of no use.
_NOT_DETAILS = ("id", "parent_id", "group_id", "step_name", "_p", "_c", "_pt", "_ct", "_r")
_LAUNCH = re.compile(r"(?!\w*HostFunc)\w*Launch")
_COPY = re.compile(r"\w*Mem(?:cpy|set|Prefetch)")
_UNKNOWN, _NO_KIND = -2, -1
_NO_CALL, _RUN = -1, 0
_SYNC = re.compile(r"\w*Synchronize")


class SpanReader:
    """Decodes the spans of captures; each event name is parsed only once."""

    def __init__(self, interner: Interner, names: EventNames) -> None:
        """Start with nothing known. Strings become positions in `interner`."""
        self._interner = interner
        # By the number of a name: the kind of its events, which its first event determines.
        self._kinds = np.empty(0, dtype=np.int32)
        self._names = names
        self._called = EventFacts(names, self._call)
        self._functions: list[str] = []

    def add_spans(
        self,
        columns: Columns[Spans],
        plane: Plane,
        runs: DatasetRuns,
        lanes: Mapping[int, str],
    ) -> None:
        """Add the spans of a plane; `lanes` renames its lines by their ids."""
        (called,) = self._called.columns()
        has_calls = bool((called[plane.numbers] >= 0).any())
        for at, line in enumerate(plane.lines):
            lane = lanes.get(line.id, line.name)
            paths_at = functools.partial(runs.paths_at, at)
            kinds = self._kinds_at(plane, at)
            places = plane.places(at, kinds >= 0)
            if len(places):
                self._add_line(columns, plane, at, lane, places, paths_at)
            if has_calls:
                self._add_preparing(columns, plane, at, lane, called)
        for run in runs.runs:
            columns.add(
                1,
                kind=SpanKind.DATASET_FUNCTION,
                lane=self._interner.position(run.lane),
                name=self._interner.position(run.path),
                background=is_background(run.lane),
                start_ns=run.start_ns,
                duration_ns=run.end_ns - run.start_ns,
                identity=run.number,
                parent=run.owner,
            )

    def _add_line(
        self,
        columns: Columns[Spans],
        plane: Plane,
        line: int,
        lane: str,
        places: Int64s,
        paths_at: Callable[[Int64s], Int32s],
    ) -> None:
        start_ns, duration_ns = plane.times_ns(line, places)
        kind = self._kinds[plane.numbers_at(line, places)]
        found = zip(
            plane.names_at(line, places), kind.tolist(), plane.stats(line, places), strict=True
        )
        facts = [
            span_facts(name, SpanKind(each), stats, self._interner) for name, each, stats in found
        ]
        paths = np.where(kind == SpanKind.PYTHON, paths_at(start_ns), 0)
        columns.add(
            len(facts),
            kind=kind,
            lane=self._interner.position(lane),
            background=is_background(lane) | (paths != 0),
            start_ns=start_ns,
            duration_ns=duration_ns,
            name=[fact.name for fact in facts],
            detail=np.where(paths > 0, paths, [fact.detail for fact in facts]),
            identity=int64s(fact.identity for fact in facts),
            parent=int64s(fact.parent for fact in facts),
            correlation=int64s(fact.correlation for fact in facts),
            bytes=int64s(fact.bytes for fact in facts),
        )

    def _kinds_at(self, plane: Plane, line: int) -> Int32s:
        """Return the kinds of events by the numbers of their names; learn those of a line first."""
        grown = np.full(len(self._names.texts) - len(self._kinds), _UNKNOWN, dtype=np.int32)
        self._kinds = np.concatenate((self._kinds, grown)) if len(grown) else self._kinds
        places = plane.places(line, self._kinds == _UNKNOWN)
        new, first = np.unique(plane.numbers_at(line, places), return_index=True)
        for at, stats in zip(new.tolist(), plane.stats(line, places[first]), strict=True):
            kind = kind_of(self._names.texts[at], stats)
            self._kinds[at] = _NO_KIND if kind is None else kind
        return self._kinds

    def _call(self, name: str) -> tuple[int]:
        """Return the number of the function that Python calls, 0 for a run, below 0 for neither."""
        called = _called(name)
        if not called:
            return (_NO_CALL if called is None else _RUN,)
        self._functions.append(called)
        return (len(self._functions),)

    def _add_preparing(
        self, columns: Columns[Spans], plane: Plane, line: int, lane: str, called: Int32s
    ) -> None:
        """Add the time between the call of a function and the start of its run."""
        places = plane.places(line, called >= 0)
        start_ns, duration_ns = plane.times_ns(line, places)
        functions = called[plane.numbers_at(line, places)]
        for at, end_ns in _preparing(start_ns, duration_ns, functions != _RUN):
            name = self._functions[functions[at] - 1]
            columns.add(
                1,
                kind=SpanKind.COMPILE,
                lane=self._interner.position(lane),
                name=self._interner.position(f"prepare {name}"),
                background=is_background(lane),
                start_ns=start_ns[at],
                duration_ns=end_ns - start_ns[at],
            )


class SpanFacts(NamedTuple):
    """The contents of one event; strings are positions."""

    name: int
    detail: int
    identity: int = 0
    parent: int = 0
    correlation: int = 0
    bytes: int = 0


def span_facts(
    name: str, kind: SpanKind, stats: Mapping[str, Any], interner: Interner
) -> SpanFacts:
    """Return the contents of an event of this kind. Any: stats are numbers and texts."""
    shown = interner.position(_shown(name, kind))
    if kind is SpanKind.ITERATOR:
        facts = (f"{key}:{stats[key]}" for key in stats if key not in _NOT_DETAILS)
        identity, parent = number(stats.get("id")), number(stats.get("parent_id"))
        return SpanFacts(shown, interner.position(" ".join(facts)), identity, parent)
    if kind is SpanKind.FUNCTION_CALL:
        return SpanFacts(shown, interner.position(str(stats.get(_CALL, ""))))
    details = str(stats.get("memcpy_details") or stats.get("memset_details") or "")
    correlation, size = number(stats.get("correlation_id")), copy_bytes(details)
    return SpanFacts(shown, interner.position(details), correlation=correlation, bytes=size)


def driver_call_kind(name: str) -> SpanKind:
    """Return the purpose of a driver or runtime call: launch, copy, wait or another."""
    if _LAUNCH.match(name):
        return SpanKind.LAUNCH
    if _COPY.match(name):
        return SpanKind.COPY_CALL
    return SpanKind.SYNC if _SYNC.match(name) else SpanKind.RUNTIME


def kind_of(name: str, stats: Mapping[str, Any]) -> SpanKind | None:
    """Return the kind of a host event, from its name and stats; None for all others."""
    if name.startswith(ITERATOR):
        return SpanKind.ITERATOR
    if _COMPILE.match(name):
        return SpanKind.COMPILE
    if _CALL in stats:
        return SpanKind.FUNCTION_CALL
    op = op_of(name)
    if op is not None:
        return SpanKind.PYTHON if op[1] in _PYTHON_OPS else None
    return driver_call_kind(name) if "correlation_id" in stats else None


def has_calls(planes: Iterable[EventPlane]) -> bool:
    """Return whether any event is the call of a tf.function."""
    return any(plane.stat_ids(_CALL) for plane in planes)


def _shown(name: str, kind: SpanKind) -> str:
    op = op_of(name) if kind is SpanKind.PYTHON else None
    return name if op is None else op[0]


def _called(name: str) -> str | None:
    """Return the function that an event calls, "" for the run of one, None for any other event."""
    if name == _KERNEL_OF_FUNCTION:
        return ""
    call = _CALL_OF_FUNCTION.match(name)
    return call[1] if call is not None else None


def _preparing(start_ns: Int64s, duration_ns: Int64s, is_call: Flags) -> Iterator[tuple[int, int]]:
    """Yield the calls that waited for the first run of their function, and until when."""
    runs_ns = np.sort(start_ns[~is_call])
    first = np.searchsorted(runs_ns, start_ns, side="left")
    for at in np.flatnonzero(is_call & (first < len(runs_ns))).tolist():
        end_ns = int(runs_ns[first[at]])
        waited_ns = end_ns - int(start_ns[at])
        if _PREPARED_NS <= waited_ns <= duration_ns[at]:
            yield at, end_ns
