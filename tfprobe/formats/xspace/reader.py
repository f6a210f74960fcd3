"""Decode XSpace bytes into tables, plane by plane."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.formats.trace import Marker, Trace
from tfprobe.formats.xspace.allocations import add_allocations
from tfprobe.formats.xspace.cuda_graphs import CudaGraphs
from tfprobe.formats.xspace.datasets import DatasetRuns, dataset_facts
from tfprobe.formats.xspace.devices import add_kernels
from tfprobe.formats.xspace.events import EventPlane, read_planes
from tfprobe.formats.xspace.hlo_program import HloProgram
from tfprobe.formats.xspace.host import HostReader
from tfprobe.formats.xspace.plane import DRIVER, HOST, EventNames, Plane, is_gpu
from tfprobe.formats.xspace.programs import ProgramKey, Programs, add_hlo_ops
from tfprobe.formats.xspace.spans import SpanReader, has_calls
from tfprobe.profile.capture_tables import Allocations, Executions, Spans
from tfprobe.profile.tables import Columns, Int64s, Interner

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
        planes = read_planes(content)
        if not planes:
            raise UnreadableInput("an XSpace without planes")
        is_unix = _set_clock(planes)
        rows, spans = Columns(Executions), Columns(Spans)
        threads = _threads(planes)
        programs = Programs((plane.message for plane in planes), self._programs)
        graphs = functools.cache(lambda: CudaGraphs(planes))
        hosts: list[Plane] = []
        for each in planes:
            if is_gpu(each.name):
                add_kernels(rows, self._interner, each, programs, graphs())
            elif each.name in (HOST, DRIVER):
                plane = Plane(each, self._names)
                self._add_host(rows, spans, plane, programs, threads)
                hosts += [plane] if each.name == HOST else []
        table = rows.rows(self._interner)
        return Trace(
            rows=table,
            spans=spans.rows(self._interner).by("start_ns"),
            allocations=self._allocations(hosts if self._with_spans else (), table).by("at_ns"),
            is_unix=is_unix,
            markers=tuple(marker for plane in hosts for marker in markers(plane)),
            has_calls=not len(table) and has_calls(planes),
            programs=programs.ran(),
            has_untraced_programs=not len(table)
            and bool(programs.modules())
            and not any(plane.name.startswith(_DEVICE) for plane in planes),
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
        if plane.name == HOST:
            has_programs = add_hlo_ops(rows, self._interner, plane, programs)
            self._host.add_ops(rows, plane, runs, has_programs=has_programs)
        if runs is not None:
            self._spans.add_spans(spans, plane, runs, threads if plane.name == DRIVER else {})


def _op_types(rows: Executions) -> dict[str, str]:
    """Return the ops of nodes by their names."""
    texts, count = rows.strings, len(rows.strings.values)
    # One number for both: pairs take ten times as long to sort.
    names, op_types = np.divmod(np.unique(rows.name.astype(np.int64) * count + rows.op_type), count)
    pairs = zip(names.tolist(), op_types.tolist(), strict=True)
    return {texts[name]: texts[op_type] for name, op_type in pairs}


def _set_clock(planes: Sequence[EventPlane]) -> bool:
    """Convert line timestamps to wall time if the trace records its start; return whether it does.

    Raises UnreadableInput if a time does not fit.
    """
    profile_start_ns = _profile_start_ns(planes)
    lines = [line for plane in planes for line in plane.lines if len(line)]
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


def _profile_start_ns(planes: Sequence[EventPlane]) -> int:
    for plane in planes:
        ids = plane.stat_ids("profile_start_time")
        for stat in plane.message.stats:
            if stat.metadata_id in ids:
                return int(stat.uint64_value or stat.int64_value)
    return 0


def _threads(planes: Sequence[EventPlane]) -> dict[int, str]:
    """Return the names of the host's threads; the driver's plane has only their numbers."""
    return {line.id: line.name for plane in planes if plane.name == HOST for line in plane.lines}


_STEP = "step_num"
_RUN = "SessionRun"


def markers(plane: Plane) -> tuple[Marker, ...]:
    """Return the marked steps of the host's plane, by start."""
    keys = plane.stat_ids(_STEP)
    marked = list(_marked(plane, keys)) if keys else []
    return tuple(sorted(marked or _runs(plane), key=lambda marker: marker.start_ns))


def _marked(plane: Plane, keys: set[int]) -> Iterator[Marker]:
    for at, line in enumerate(plane.lines):
        places = np.flatnonzero(line.have(keys, line.every()))
        yield from _with_times(plane, at, places, line.integers(keys, places).tolist())


def _runs(plane: Plane) -> list[Marker]:
    """Return the runs of Sessions on the thread that has the most of them."""
    by_line = list(plane.named(_RUN.__eq__))
    if not by_line:
        return []
    line, places = max(by_line, key=lambda each: len(each[1]))
    return _with_times(plane, line, places, range(len(places)))


def _with_times(plane: Plane, line: int, places: Int64s, numbers: Iterable[int]) -> list[Marker]:
    start_ns, duration_ns = plane.times_ns(line, places)
    ends_ns = (start_ns + duration_ns).tolist()
    names = plane.names_at(line, places)
    columns = zip(numbers, start_ns.tolist(), ends_ns, names, strict=True)
    return [Marker(*column) for column in columns]
