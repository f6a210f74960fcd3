"""Read the captures of one process: which step each file holds, and its rows."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.formats import kineto, run_metadata, xspace
from tfprobe.formats.node_attributes import op_types
from tfprobe.formats.trace import Trace
from tfprobe.profile.capture_tables import Allocations, Executions, Spans
from tfprobe.profile.graph import Node
from tfprobe.profile.profile import UNTOLD, Capture, Problem
from tfprobe.profile.tables import GrowingTable, Interner
from tfprobe.runs.layout import (
    KINETO_SUFFIXES,
    RUN_METADATA_SUFFIX,
    ProcessFolder,
    parse_capture_name,
)
from tfprobe.runs.process_folder.events import Event
from tfprobe.runs.process_folder.steps import StepsFile
from tfprobe.runs.process_folder.steps_layout import CLOCK_WAS_SET_NS
from tfprobe.runs.safe_files import content_of, foresee

NOT_FED = Missing("it was no Session step, or was fed something else than arrays")
NO_TENSORS = Missing("it returned something else than tensors and arrays")

# Start of a step in unix ns, and its duration.
Window = tuple[int, int]


# The number of bytes read before decoding; decoding several files at once is faster.
_BYTES_AT_ONCE = 2**22
# The number of files that the system is asked to read ahead.
_FILES_AHEAD = 32


class Wanted(NamedTuple):
    """A capture to decode: the name of its file, its event, and the time of its step."""

    name: str
    sample: Event | None
    window_ns: Window | None


@dataclass(frozen=True, slots=True)
class Decoded:
    """One capture with its rows, all in unix ns."""

    capture: Capture
    trace: Trace


class Decoder:
    """Decodes the captures of one process, and reuses what it learns from each for later ones.

    Strings become positions in `interner`. `with_memory` includes the bytes of ops,
    `with_host_allocations` the allocations of the host's own memory, and `with_spans` everything in
    a capture besides executions, which takes most of the time.
    """

    def __init__(
        self,
        folder: ProcessFolder,
        interner: Interner,
        *,
        with_memory: bool = True,
        with_spans: bool = True,
        with_host_allocations: bool = True,
    ) -> None:
        """Start with nothing known."""
        self._folder = folder
        self._with_memory = with_memory
        self._with_spans = with_spans
        self._with_host_allocations = with_host_allocations
        self._interner = interner
        # By the graph that a session's step ran.
        self._metadata: dict[str | None, run_metadata.RunMetadataReader] = {}

    @functools.cached_property
    def _xspaces(self) -> xspace.XSpaceReader:
        return xspace.XSpaceReader(self._interner, with_spans=self._with_spans)

    @functools.cached_property
    def _kineto(self) -> kineto.KinetoReader:
        return kineto.KinetoReader(
            self._interner, with_spans=self._with_spans, with_memory=self._with_memory
        )

    def _modules(self, sample: Event | None) -> Mapping[str, kineto.Module]:
        """Return the modules of a model of PyTorch; empty if they are not recorded."""
        fingerprint = sample.text("graph") if sample else None
        if fingerprint is None:
            return {}
        try:
            return kineto.read_modules(content_of(self._folder.modules(fingerprint)))
        except (OSError, ValueError, UnreadableInput):
            return {}  # modules then have the names of the trace

    @functools.cached_property
    def _nodes(self) -> run_metadata.NodeReader:
        return run_metadata.NodeReader(self._interner)

    def decode(
        self, name: str, sample: Event | None, window_ns: Window | None
    ) -> Decoded | Problem:
        """Return the capture in this file; one that cannot be decoded becomes a problem.

        The event of the sample may be lost. The caller numbers processes.
        """
        (found,) = self.decode_all([Wanted(name, sample, window_ns)])
        return found

    def decode_all(self, wanted: Iterable[Wanted]) -> Iterator[Decoded | Problem]:
        """Yield captures in this order, as `decode` returns them."""
        for batch in self._batches(wanted):
            sessions = [
                content
                for each, content in batch
                if isinstance(content, bytes) and each.name.endswith(RUN_METADATA_SUFFIX)
            ]
            written = iter(run_metadata.take_apart(self._nodes, sessions) if sessions else ())
            for each, content in batch:
                yield self._decoded_or_problem(each, content, written)

    def forget(self, fingerprint: str | None) -> None:
        """Forget a graph whose file has been replaced."""
        self._metadata.pop(fingerprint, None)

    def _batches(
        self, wanted: Iterable[Wanted]
    ) -> Iterator[list[tuple[Wanted, bytes | UnreadableInput]]]:
        """Yield captures with the contents of their files, in batches that are read together."""
        batch, size_bytes = [], 0
        for each in self._foreseen(wanted):
            content = _content(self._folder.capture(each.name))
            batch.append((each, content))
            size_bytes += len(content) if isinstance(content, bytes) else 0
            if size_bytes >= _BYTES_AT_ONCE:
                yield batch
                batch, size_bytes = [], 0
        yield batch

    def _foreseen(self, wanted: Iterable[Wanted]) -> Iterator[Wanted]:
        """Yield captures in this order while the system reads the next files ahead."""
        ahead = deque[Wanted]()
        for each in wanted:
            foresee(self._folder.capture(each.name))
            ahead.append(each)
            if len(ahead) > _FILES_AHEAD:
                yield ahead.popleft()
        yield from ahead

    def _decoded_or_problem(
        self, wanted: Wanted, content: bytes | UnreadableInput, written: Iterator[_Apart]
    ) -> Decoded | Problem:
        try:
            return self._decoded(wanted, content, written)
        except UnreadableInput as exc:
            where = f"{self._folder.host}/{self._folder.name}/captures/{wanted.name}"
            return Problem(where, f"This capture was skipped: {exc}.")

    def _decoded(
        self, wanted: Wanted, content: bytes | UnreadableInput, written: Iterator[_Apart]
    ) -> Decoded:
        """Return a capture; `written` yields the next split RunMetadata."""
        if isinstance(content, UnreadableInput):
            raise content
        if wanted.name.endswith(RUN_METADATA_SUFFIX):
            apart = next(written)
            if isinstance(apart, UnreadableInput):
                raise apart
            trace = self._reader(wanted.sample).read(apart)
        elif wanted.name.endswith(KINETO_SUFFIXES):
            trace = self._kineto.read(content, self._modules(wanted.sample))
        else:
            trace = self._xspaces.read(content)
        window_ns = wanted.window_ns
        if wanted.sample is not None and _was_set_meanwhile(wanted.sample):
            raise UnreadableInput("the clock was set during its step, so its times do not agree")
        trace = _on_the_clock(trace, wanted)
        if not trace.tells_of_steps or (window_ns is None and not len(trace.rows)):
            raise UnreadableInput(trace.why_empty)
        start_ns, duration_ns = window_ns or _extent_ns(trace.rows)
        path = self._folder.capture(wanted.name)
        capture = _capture(path, wanted.sample, start_ns, duration_ns)
        return Decoded(replace(capture, programs=trace.programs), trace)

    def _reader(self, sample: Event | None) -> run_metadata.RunMetadataReader:
        fingerprint = sample.text("graph") if sample else None
        if fingerprint not in self._metadata:
            types = functools.partial(_graph_types, self._folder, fingerprint)
            self._metadata[fingerprint] = run_metadata.RunMetadataReader(
                self._interner,
                types,
                with_memory=self._with_memory,
                with_spans=self._with_spans,
                with_host_allocations=self._with_host_allocations,
            )
        return self._metadata[fingerprint]


# The contents of one RunMetadata, or why it cannot be read.
_Apart = run_metadata.SplitCaptures | UnreadableInput


def _content(path: Path) -> bytes | UnreadableInput:
    try:
        content = content_of(path)
    except OSError as exc:
        return UnreadableInput(f"it cannot be read, {exc.strerror or exc}")
    return content or UnreadableInput("it is empty")


def window_of(name: str, sample: Event | None, steps: StepsFile | None) -> Window | None:
    """Return the time of the step, from its event, else from steps.bin; None if neither has it.

    It is on the clock of its process: the wall clock as it was set at the start.
    """
    if sample is not None:
        start, end = sample.integer("start_ns"), sample.integer("end_ns")
        unix = sample.integer("start_unix_ns")
        if start is not None and end is not None and unix is not None and end > start:
            return unix - _set_by_ns(sample, steps), end - start
    named = parse_capture_name(name)
    if named is None or steps is None:
        return None
    for loop in steps.loops:
        row = named.step - loop.recent.first_step
        if loop.index == named.loop and 0 <= row < len(loop.recent.start_ns):
            start_ns, end_ns = int(loop.recent.start_ns[row]), int(loop.recent.end_ns[row])
            return steps.header.unix_ns(start_ns), max(end_ns - start_ns, 1)
    return None


def _set_by_ns(sample: Event, steps: StepsFile | None) -> int:
    """Return by how much the wall clock was set between the start of the process and a sample.

    Both pairs of readings must show it: the job may be interrupted between two readings.
    """
    if steps is None:
        return 0
    pairs = (("start_unix_ns", "start_ns"), ("unix_ns", "mono_ns"))
    found = ((sample.integer(unix), sample.integer(mono)) for unix, mono in pairs)
    ahead_ns = [
        unix - steps.header.unix_ns(mono)
        for unix, mono in found
        if unix is not None and mono is not None
    ]
    least_ns = min(ahead_ns, key=abs, default=0)
    return least_ns if abs(least_ns) >= CLOCK_WAS_SET_NS else 0


def _was_set_meanwhile(sample: Event) -> bool:
    """Return whether the wall clock, which the trace uses, was set while it was recorded."""
    return abs(sample.integer("clock_set_ns") or 0) >= CLOCK_WAS_SET_NS


def _graph_types(folder: ProcessFolder, fingerprint: str | None) -> Mapping[str, str]:
    """Return the op of each node of a recorded graph; empty if the graph is missing."""
    if fingerprint is None:
        return {}
    try:
        return op_types(content_of(folder.graph(fingerprint)))
    except (OSError, ValueError, UnreadableInput):
        return {}  # nodes keep their own names as ops, which is not wrong


def _capture(path: Path, sample: Event | None, start_ns: int, duration_ns: int) -> Capture:
    named = parse_capture_name(path.name)
    loop = sample.integer("work") if sample else named.loop if named else None
    step = sample.integer("step") if sample else named.step if named else None
    plain_ns = sample.integer("plain_ns") if sample else None
    return Capture(
        index=0,
        process=0,
        loop=Missing("neither an event nor the file's name tells the work")
        if loop is None
        else loop,
        step=step or 0,
        file=path.name,
        level=(sample.text("level") if sample else None) or "unknown",
        start_ns=start_ns,
        duration_ns=duration_ns,
        plain_ns=plain_ns if plain_ns else Missing("no usual step to compare with"),
        fed_bytes=_number(sample, "fed_bytes", NOT_FED),
        result_bytes=_number(sample, "result_bytes", NO_TENSORS),
        batch_ns=_number(sample, "batch_ns", UNTOLD),
        called_at=_called_at(sample),
    )


def _number(sample: Event | None, key: str, why_null: Missing) -> int | Missing:
    value = sample.integer(key) if sample else None
    if value is not None and value >= 0:
        return value
    return why_null if sample and key in sample.fields else UNTOLD


def _called_at(sample: Event | None) -> str:
    match sample.fields.get("called_at") if sample else None:
        case [str(file), int(line)] if file:
            return f"{file}:{line}"
    return ""


def _on_the_clock(trace: Trace, wanted: Wanted) -> Trace:
    """Place a trace on the clock of its process.

    Until TF 2.14 an XSpace counts from the moment the profiler session was opened, which the agent
    does just before the step: within about 0.1 ms they are the same moment. Other traces use the
    wall clock, which may have been set since the process started.
    """
    window_ns, sample = wanted.window_ns, wanted.sample
    if window_ns is None:
        return trace
    if not trace.is_unix:
        return trace.moved(window_ns[0])
    unix = None if sample is None else sample.integer("start_unix_ns")
    return trace if unix in (None, window_ns[0]) else trace.moved(window_ns[0] - unix)


def _extent_ns(rows: Executions) -> tuple[int, int]:
    start_ns = int(rows.start_ns.min())
    return start_ns, int((rows.start_ns + rows.duration_ns).max()) - start_ns


# Host and name of the process folder: processes are in this order.
ProcessKey = tuple[str, str]
# The same and the name of the file.
CaptureKey = tuple[str, str, str]


class Gathered:
    """The captures so far. Decoders must turn strings into positions in `interner`."""

    def __init__(self) -> None:
        """Start with none."""
        self.interner = Interner()
        self._captures: dict[CaptureKey, Capture] = {}
        # By process: captures of one have mostly the same nodes.
        self._nodes: dict[ProcessKey, dict[str, Node]] = {}
        self._executions = GrowingTable(Executions, self.interner)
        self._spans = GrowingTable(Spans, self.interner)
        self._allocations = GrowingTable(Allocations, self.interner)

    def put(self, key: CaptureKey, item: Decoded) -> None:
        """Add one capture with its rows, or replace the one with this key."""
        self._captures[key] = item.capture
        if item.trace.nodes:
            self._nodes.setdefault(key[:2], {}).update(item.trace.nodes)
        self._executions.put(key, item.trace.rows)
        self._spans.put(key, item.trace.spans)
        self._allocations.put(key, item.trace.allocations)

    def drop(self, key: CaptureKey) -> None:
        """Remove a capture, if it exists."""
        if self._captures.pop(key, None) is not None:
            for table in (self._executions, self._spans, self._allocations):
                table.drop(key)

    def captures(self, processes: Mapping[ProcessKey, int]) -> tuple[Capture, ...]:
        """Return the captures in order; `processes` has the index of each process."""
        for index, key in enumerate(sorted(self._captures)):
            known, process = self._captures.pop(key), processes[key[:2]]
            if (known.index, known.process) != (index, process):
                known = replace(known, index=index, process=process)
            self._captures[key] = known
        return tuple(self._captures.values())

    def nodes(self, processes: Mapping[ProcessKey, int]) -> dict[int, Mapping[str, Node]]:
        """Return what captures say of nodes, by process; `processes` has the index of each."""
        return {
            processes[key]: dict(nodes) for key, nodes in self._nodes.items() if key in processes
        }

    def tables(self) -> tuple[Executions, Spans, Allocations]:
        """Return all rows; the same tables as before while nothing has changed."""
        return self._executions.table(), self._spans.table(), self._allocations.table()
