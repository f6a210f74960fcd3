"""Read the captures of one process: which step each file holds, and its rows."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.ingest import graph_def, run_metadata, xspace
from tfprobe.ingest.trace import Trace
from tfprobe.model.executions import Executions
from tfprobe.model.profile import UNTOLD, Capture, Problem
from tfprobe.model.strings import Interner
from tfprobe.store.contents import content_of
from tfprobe.store.events import Event
from tfprobe.store.layout import XSPACE_SUFFIX, ProcessFolder, parse_capture_name
from tfprobe.store.steps import StepsFile

NOT_FED = Missing("it was no Session step, or was fed something else than arrays")
NO_TENSORS = Missing("it returned something else than tensors and arrays")

# Start of a step, unix ns, and how long it lasted.
Window = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Decoded:
    """One capture with its rows, all in unix ns."""

    capture: Capture
    trace: Trace


class Decoder:
    """Decodes the captures of one process, one by one.

    Strings become positions in `interner`. `with_memory` says whether the bytes of ops are wanted,
    which take most of the time, `with_spans` whether what a capture tells beside executions is.
    """

    def __init__(
        self,
        folder: ProcessFolder,
        interner: Interner,
        *,
        with_memory: bool = True,
        with_spans: bool = True,
    ) -> None:
        """Know nothing yet."""
        self._folder = folder
        self._with_memory = with_memory
        self._with_spans = with_spans
        self._interner = interner
        self._xspaces = xspace.Reader(interner, with_spans=with_spans)
        # By the graph that a session's step ran.
        self._metadata: dict[str | None, run_metadata.Reader] = {}

    def decode(
        self, name: str, sample: Event | None, window_ns: Window | None
    ) -> Decoded | Problem:
        """Return the capture in this file; one that cannot be decoded becomes a problem.

        What was told of the sample may be lost. Processes are numbered by whoever has several.
        """
        try:
            return self._decode(self._folder.capture(name), sample, window_ns)
        except UnreadableInput as exc:
            where = f"{self._folder.host}/{self._folder.name}/captures/{name}"
            return Problem(where, f"This capture was skipped: {exc}.")

    def forget(self, fingerprint: str | None) -> None:
        """Forget what is known of a graph, whose file is another one now."""
        self._metadata.pop(fingerprint, None)

    def _decode(self, path: Path, sample: Event | None, window_ns: Window | None) -> Decoded:
        try:
            content = content_of(path)
        except OSError as exc:
            raise UnreadableInput(f"it cannot be read, {exc.strerror or exc}") from exc
        if not content:
            raise UnreadableInput("it is empty")
        reader = self._xspaces if path.name.endswith(XSPACE_SUFFIX) else self._reader(sample)
        trace = _on_the_clock(reader.read(content), window_ns)
        if not trace.tells_of_steps or (window_ns is None and not len(trace.rows)):
            raise UnreadableInput("it holds no execution of an op")
        start_ns, duration_ns = window_ns or _extent_ns(trace.rows)
        return Decoded(_capture(path, sample, start_ns, duration_ns), trace)

    def _reader(self, sample: Event | None) -> run_metadata.Reader:
        fingerprint = sample.text("graph") if sample else None
        if fingerprint not in self._metadata:
            types = functools.partial(_graph_types, self._folder, fingerprint)
            self._metadata[fingerprint] = run_metadata.Reader(
                self._interner,
                types,
                with_memory=self._with_memory,
                with_spans=self._with_spans,
            )
        return self._metadata[fingerprint]


def window_of(name: str, sample: Event | None, steps: StepsFile | None) -> Window | None:
    """Return when the step was, from its event, else from steps.bin; None where neither tells."""
    if sample is not None:
        start, end = sample.integer("start_ns"), sample.integer("end_ns")
        unix = sample.integer("start_unix_ns")
        if start is not None and end is not None and unix is not None and end > start:
            return unix, end - start
    named = parse_capture_name(name)
    if named is None or steps is None:
        return None
    for work in steps.works:
        row = named.step - work.recent.first_step
        if work.index == named.work and 0 <= row < len(work.recent.start_ns):
            start_ns, end_ns = int(work.recent.start_ns[row]), int(work.recent.end_ns[row])
            return steps.header.unix_ns(start_ns), max(end_ns - start_ns, 1)
    return None


def _graph_types(folder: ProcessFolder, fingerprint: str | None) -> Mapping[str, str]:
    """Return the op of each node of a recorded graph; of one that is not there, of none."""
    if fingerprint is None:
        return {}
    try:
        return graph_def.op_types(content_of(folder.graph(fingerprint)))
    except (OSError, ValueError, UnreadableInput):
        return {}  # nodes stay named by themselves, which is true


def _capture(path: Path, sample: Event | None, start_ns: int, duration_ns: int) -> Capture:
    named = parse_capture_name(path.name)
    work = sample.integer("work") if sample else named.work if named else None
    step = sample.integer("step") if sample else named.step if named else None
    plain_ns = sample.integer("plain_ns") if sample else None
    return Capture(
        index=0,
        process=0,
        work=Missing("neither an event nor the file's name tells the work")
        if work is None
        else work,
        step=step or 0,
        file=path.name,
        level=(sample.text("level") if sample else None) or "unknown",
        start_ns=start_ns,
        duration_ns=duration_ns,
        plain_ns=plain_ns if plain_ns else Missing("no usual step to compare with"),
        fed_bytes=_told(sample, "fed_bytes", NOT_FED),
        result_bytes=_told(sample, "result_bytes", NO_TENSORS),
    )


def _told(sample: Event | None, key: str, why_null: Missing) -> int | Missing:
    value = sample.integer(key) if sample else None
    if value is not None and value >= 0:
        return value
    return why_null if sample and key in sample.fields else UNTOLD


def _on_the_clock(trace: Trace, window_ns: Window | None) -> Trace:
    """Place a trace on the wall clock.

    Until TF 2.14 an XSpace counts from the moment the profiler session was opened, which the
    agent does just before the step: within about 0.1 ms they are the same moment.
    """
    return trace if trace.is_unix or window_ns is None else trace.moved(window_ns[0])


def _extent_ns(rows: Executions) -> tuple[int, int]:
    start_ns = int(rows.start_ns.min())
    return start_ns, int((rows.start_ns + rows.duration_ns).max()) - start_ns
