"""Decode XSpace bytes into tables, plane by plane."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.formats.schema import parse
from tfprobe.formats.trace import Marker, Trace
from tfprobe.formats.xspace.allocations import add_allocations
from tfprobe.formats.xspace.cuda_graphs import CudaGraphs
from tfprobe.formats.xspace.datasets import DatasetRuns, dataset_facts
from tfprobe.formats.xspace.devices import add_kernels
from tfprobe.formats.xspace.hlo_program import HloProgram
from tfprobe.formats.xspace.host import HostReader
from tfprobe.formats.xspace.plane import DRIVER, HOST, EventNames, Plane, is_gpu, times_ns
from tfprobe.formats.xspace.programs import ProgramKey, Programs, add_hlo_ops
from tfprobe.formats.xspace.spans import SpanReader, has_calls
from tfprobe.profile.capture_tables import Allocations, Executions, Spans
from tfprobe.profile.tables import Columns, Interner

# The planes of accelerators, also of those that nothing is read of, such as TPUs.
_DEVICE = "/device:"
# The year 2001: a smaller number of ns is not a time of day.
_SMALLEST_UNIX_NS = 1_000_000_000_000_000_000
# The year 2116: half of what fits, so that two can be added.
_LATEST_NS = 2**62


def read(content: bytes, *, with_spans: bool = True) -> Trace:
    """Decode a single capture.

    Raises UnreadableInput if the bytes are not an XSpace or contain no plane.
    """
    return XSpaceReader(Interner(), with_spans=with_spans).read(content)


class XSpaceReader:
    """Decodes captures; each event name is parsed only once.

    Strings become positions in `interner`. Without `with_spans` there are only rows of ops and
    kernels, whose threads show whether they are background.
    """

    def __init__(self, interner: Interner, *, with_spans: bool = True) -> None:
        """Start with nothing known."""
        self._interner = interner
        self._with_spans = with_spans
        self._names = EventNames()
        self._host = HostReader(interner, self._names)
        self._spans = SpanReader(interner, self._names)
        self._dataset_facts = dataset_facts(self._names)
        self._of_iterators: set[int] = set()
        self._programs: dict[ProgramKey, HloProgram] = {}

    def read(self, content: bytes) -> Trace:
        """Return one row per op execution and per kernel, the spans and allocations, by time.

        Raises UnreadableInput if the bytes are not an XSpace or contain no plane.
        """
        space = parse(content, "tfprobe.xplane.XSpace")
        if not space.planes:
            raise UnreadableInput("an XSpace without planes")
        is_unix = _set_clock(space)
        rows, spans = Columns(Executions), Columns(Spans)
        threads = _threads(space.planes)
        programs = Programs(space.planes, self._programs)
        graphs = functools.cache(lambda: CudaGraphs(space.planes))
        hosts: list[Plane] = []
        for message in space.planes:
            if is_gpu(message.name):
                add_kernels(rows, self._interner, message, programs, graphs())
            elif message.name in (HOST, DRIVER):
                plane = Plane(message, self._names)
                self._add_host(rows, spans, plane, programs, threads)
                hosts += [plane] if message.name == HOST else []
        table = rows.rows(self._interner)
        return Trace(
            rows=table,
            spans=spans.rows(self._interner).by("start_ns"),
            allocations=self._allocations(hosts if self._with_spans else (), table).by("at_ns"),
            is_unix=is_unix,
            markers=tuple(marker for plane in hosts for marker in markers(plane)),
            has_calls=not len(table) and has_calls(space.planes),
            programs=programs.ran(),
            has_untraced_programs=not len(table)
            and bool(programs.modules())
            and not any(plane.name.startswith(_DEVICE) for plane in space.planes),
        )

    def _allocations(self, hosts: Sequence[Plane], rows: Executions) -> Allocations:
        columns = Columns(Allocations)
        for plane in hosts:
            add_allocations(columns, self._interner, plane, lambda: _op_types(rows))
        return columns.rows(self._interner)

    def _add_host(
        self,
        rows: Columns[Executions],
        spans: Columns[Spans],
        plane: Plane,
        programs: Programs,
        threads: dict[int, str],
    ) -> None:
        runs = None
        if self._with_spans:
            runs = DatasetRuns(plane, self._interner, self._dataset_facts, self._of_iterators)
        if plane.message.name == HOST:
            has_programs = add_hlo_ops(rows, self._interner, plane, programs)
            self._host.add_ops(rows, plane, runs, has_programs=has_programs)
        if runs is not None:
            self._spans.add_spans(
                spans, plane, runs, threads if plane.message.name == DRIVER else {}
            )


def _op_types(rows: Executions) -> dict[str, str]:
    """Return the ops of nodes by their names."""
    texts = rows.strings
    pairs = np.unique(np.stack((rows.name, rows.op_type)), axis=1).T.tolist()
    return {texts[name]: texts[op_type] for name, op_type in pairs}


def _set_clock(space: Any) -> bool:
    """Convert line timestamps to wall time if the trace records its start; return whether it does.

    Raises UnreadableInput if a time does not fit.
    """
    profile_start_ns = _profile_start_ns(space)
    lines = [line for plane in space.planes for line in plane.lines if line.events]
    moments_ns = [line.timestamp_ns for line in lines] or [0]
    first_ns = min(moments_ns)
    if max(*moments_ns, profile_start_ns) > _LATEST_NS or first_ns < 0:
        raise UnreadableInput("times of the far future")
    if first_ns >= _SMALLEST_UNIX_NS or not profile_start_ns:
        return bool(first_ns >= _SMALLEST_UNIX_NS)
    # In this form a line's timestamp counts from the start of the profile.
    for line in lines:
        line.timestamp_ns += profile_start_ns if line.timestamp_ns < _SMALLEST_UNIX_NS else 0
    return bool(first_ns + profile_start_ns >= _SMALLEST_UNIX_NS)


def _profile_start_ns(space: Any) -> int:
    for plane in space.planes:
        for stat in plane.stats:
            if plane.stat_metadata[stat.metadata_id].name == "profile_start_time":
                return int(stat.uint64_value or stat.int64_value)
    return 0


def _threads(planes: Sequence[Any]) -> dict[int, str]:
    """Return the names of the host's threads; the driver's plane has only their numbers."""
    return {line.id: line.name for plane in planes if plane.name == HOST for line in plane.lines}


_STEP = "step_num"
_RUN = "SessionRun"


def markers(plane: Plane) -> tuple[Marker, ...]:
    """Return the marked steps of the host's plane, by start."""
    keys = plane.stat_ids(_STEP)
    marked = _marked(plane, keys) if keys else []
    return tuple(sorted(marked or _runs(plane), key=lambda marker: marker.start_ns))


def _marked(plane: Plane, keys: set[int]) -> list[Marker]:
    found = []
    for line in plane.lines:
        events = [
            event for event in line.events if any(stat.metadata_id in keys for stat in event.stats)
        ]
        numbers = [plane.integer(event, _STEP) for event in events]
        found += _with_times(plane, line, events, numbers)
    return found


def _runs(plane: Plane) -> list[Marker]:
    """Return the runs of Sessions on the thread that has the most of them."""
    named = zip(plane.names.values(), plane.numbers.tolist(), strict=True)
    names = {number for name, number in named if name == _RUN}
    lines = enumerate(plane.lines if names else ())
    by_line = [(line, plane.events(at, names)) for at, line in lines]
    line, events = max(by_line, key=lambda each: len(each[1]), default=(None, []))
    return _with_times(plane, line, events, list(range(len(events)))) if events else []


def _with_times(plane: Plane, line: Any, events: list[Any], numbers: list[int]) -> list[Marker]:
    start_ns, duration_ns = times_ns(line, events)
    ends_ns = (start_ns + duration_ns).tolist()
    names = [plane.name_of(event) for event in events]
    columns = zip(numbers, start_ns.tolist(), ends_ns, names, strict=True)
    return [Marker(*column) for column in columns]
