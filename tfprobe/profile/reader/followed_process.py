"""Follow one process of a run: read each part of its files once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.formats.trace import Trace
from tfprobe.profile.compilations import TORCH_COMPILE, Compilation, GraphBreak
from tfprobe.profile.profile import Capture, Loop, OwnProfiler, Problem, Process, Raised
from tfprobe.profile.reader import service_trace
from tfprobe.profile.reader.captures import CaptureKey, Decoded, Gathered, ProcessKey
from tfprobe.profile.reader.followed_captures import CaptureFile, FollowedCaptures
from tfprobe.profile.reader.process_notes import ProcessNotes
from tfprobe.profile.reader.processes import process_of
from tfprobe.profile.reader.service_trace import Recorded
from tfprobe.profile.tables import T
from tfprobe.runs.layout import ProcessFolder
from tfprobe.runs.liveness import FAILED, Machine
from tfprobe.runs.manifests import ProcessManifest
from tfprobe.runs.process_folder.compilations import compilation_of, graph_break_of
from tfprobe.runs.process_folder.events import Event, event_log
from tfprobe.runs.process_folder.file_cache import ProcessReader
from tfprobe.runs.process_folder.steps import LoopsOfProcess

K = TypeVar("K", Compilation, GraphBreak)


class FollowedProcess:
    """One process folder, and what has been read from it; its captures go to `gathered`."""

    def __init__(
        self,
        folder: ProcessFolder,
        here: Machine,
        gathered: Gathered,
        *,
        with_memory: bool,
        with_spans: bool,
        with_host_allocations: bool,
    ) -> None:
        """Start with nothing read."""
        self.key: ProcessKey = (folder.host, folder.name)
        self._folder = folder
        self._reader = ProcessReader(folder, here)
        self._events = FollowedEvents(folder)
        self._captures = FollowedCaptures(
            folder,
            gathered,
            with_memory=with_memory,
            with_spans=with_spans,
            with_host_allocations=with_host_allocations,
        )
        self._loops = LoopsOfProcess()
        self.notes = ProcessNotes(folder)
        self.entry, self._steps = self._reader.read()

    @property
    def rank(self) -> int | None:
        manifest = self.entry.manifest
        known = isinstance(manifest, ProcessManifest) and manifest.rank
        return known.index if known else None

    @property
    def is_on_cpus(self) -> bool:
        """Say whether the process is known to have no accelerator."""
        manifest = self.entry.manifest
        if isinstance(manifest, Missing) or isinstance(manifest.devices, Missing):
            return False
        return all(device.get("type") == "CPU" for device in manifest.devices)

    def read(self) -> None:
        """Reread the state and the steps of the process."""
        self.entry, self._steps = self._reader.read()

    def read_logs(self, index: int) -> None:
        """Read what is new in its other files; `index` is the process's index in the profile."""
        self._events.read()
        steps = self._steps
        if isinstance(steps, Missing):
            self.notes.read(index, self._events.unix_minus_monotonic_ns, 0)
        else:
            self.notes.read(index, steps.header.unix_ns(0), steps.last_sign_mono_ns)

    def look_at_captures(self) -> int:
        """Return the number of captures waiting to be decoded."""
        steps = None if isinstance(self._steps, Missing) else self._steps
        self._captures.look(self._events.samples, steps)
        return self._captures.waiting

    def capture_files(self) -> tuple[CaptureFile, ...]:
        """Return the captures of the last look, in the order they were taken."""
        return self._captures.files()

    def keep_captures(self, names: frozenset[str]) -> int:
        """Keep only these captures and remove the others; return how many wait to be decoded."""
        self._captures.keep(names)
        return self._captures.waiting

    def rows_in(self, name: str) -> int:
        """Return the number of rows of a capture, without keeping any of them."""
        return self._captures.rows_in(name)

    def decode(self, tell: Callable[[], None]) -> None:
        """Decode the waiting captures; `tell` is called after each."""
        self._captures.decode(tell)

    def drop(self) -> None:
        """Remove its captures: the process is gone, or no longer wanted."""
        self._captures.drop()

    def process(self, index: int) -> Process:
        """Return the process with this index in the profile."""
        process = process_of(self.entry, self._steps, index)
        ending = process.ending
        if process.state == FAILED:
            ending = replace(ending, exception=self._events.exception)
        events = self._events
        return replace(
            process,
            settings=events.settings,
            ending=ending,
            own_profiler=events.own_profiler,
            untraced="" if events.samples else events.untraced,
        )

    def loops(self, index: int) -> tuple[Loop, ...]:
        """Return its loops; a loop that has not changed is the same object as before."""
        steps = self._steps
        return () if isinstance(steps, Missing) else self._loops.numbered(steps.loops, index)

    def compilations(self, index: int) -> tuple[Compilation, ...]:
        """Return what JAX and torch.compile compiled in it."""
        shift_ns = self._events.unix_minus_monotonic_ns
        if not isinstance(self._steps, Missing):
            shift_ns = self._steps.header.unix_ns(0)
        return tuple(
            replace(self._placed(each), process=index, start_ns=each.start_ns + shift_ns)
            for each in self._events.compilations
        )

    def graph_breaks(self, index: int) -> tuple[GraphBreak, ...]:
        """Return where torch.compile ended a graph in it."""
        return tuple(
            replace(self._placed(each), process=index) for each in self._events.graph_breaks
        )

    def _placed(self, found: K) -> K:
        """Return it without a step that did not end: after the last step of an optimizer."""
        if isinstance(found, Compilation) and found.compiler != TORCH_COMPILE:
            return found
        steps = () if isinstance(self._steps, Missing) else self._steps.loops
        counts = {loop.index: loop.executed for loop in steps}
        if found.loop is None or found.step is None or found.step < counts.get(found.loop, 0):
            return found
        return replace(found, loop=None, step=None)

    def problems(self) -> Iterator[Problem]:
        """Yield what could not be used, except for the notes."""
        where = "/".join(self.key)
        if isinstance(self.entry.manifest, Missing):
            yield Problem(where, self.entry.manifest.reason)
        texts = (self._steps.reason,) if isinstance(self._steps, Missing) else self._steps.problems
        yield from (Problem(where, text) for text in texts)
        yield from self._events.problems()
        yield from self._captures.problems()


NO_SETTINGS = Missing("settings are told at the first sample, and there was none")


# The agent's event if the job itself uses TensorFlow's profiler.
_PROFILING = ("the job is profiling", "a profiler session is open in this process")


class FollowedEvents:
    """The contents of one process's events."""

    def __init__(self, folder: ProcessFolder) -> None:
        """Start with nothing read."""
        self._where = f"{folder.host}/{folder.name}"
        self._log = event_log(folder.events)
        self._forget()

    def _forget(self) -> None:
        # By the name of the capture file, in the order they were taken.
        self.samples: dict[str, Event] = {}
        self.settings: Mapping[str, Any] | Missing = NO_SETTINGS
        # Unix time minus monotonic time, from any event; 0 if there is none.
        self.unix_minus_monotonic_ns = 0
        self._problems: list[Problem] = []
        self.compilations: list[Compilation] = []
        self.graph_breaks: list[GraphBreak] = []
        self.exception: Raised | None = None
        # Updated whenever it has been open for longer than before.
        self.own_profiler: OwnProfiler | None = None
        # Why the latest step that was to be traced was not.
        self.untraced = ""
        self._profiling_since_ns: int | None = None
        self._declined = 0
        self._started_at: tuple[str, int] = ("", 0)

    def read(self) -> None:
        """Read what is new."""
        news = self._log.read()
        if news.is_from_start:
            self._forget()
        for event in news.things:
            self._note(event)

    def problems(self) -> Iterator[Problem]:
        """Yield problems in the file and errors in the agent."""
        if self._log.bad_lines:
            yield Problem(
                self._where, f"{self._log.bad_lines} lines of events.jsonl are not events."
            )
        yield from self._problems

    def _note(self, event: Event) -> None:
        mono_ns = event.integer("mono_ns")
        if event.unix_ns and mono_ns and not self.unix_minus_monotonic_ns:
            self.unix_minus_monotonic_ns = event.unix_ns - mono_ns
        name, settings = event.text("capture"), event.fields.get("settings")
        if event.kind == "sample" and name is not None:
            self.samples[name] = event
        if event.kind == "settings" and isinstance(settings, dict):
            self.settings = (
                _chosen(settings) if isinstance(self.settings, Missing) else self.settings
            )
        if event.kind == "declined":
            self.untraced = event.text("why") or ""
        self._note_own_profiler(event)
        if event.kind == "compile":
            self._keep(compilation_of(event), self.compilations, "compilation")
        if event.kind == "graph_break":
            self._keep(graph_break_of(event), self.graph_breaks, "graph break")
        if event.kind == "exception":
            self.exception = _raised(event)
        if event.kind == "aside":
            why = event.text("why") or "it did not say why"
            self._tell(f"The agent stepped aside, so later steps are missing: {why}.")
        if event.kind == "error":
            text = f"{event.text('where') or '?'}: {event.text('what') or '?'}"
            self._tell(f"The agent noted an error of its own at {text}.")

    def _keep(self, found: K | None, known: list[K], what: str) -> None:
        if found is None:
            self._tell(f"A {what} in events.jsonl is damaged.")
        else:
            known.append(found)

    def _note_own_profiler(self, event: Event) -> None:
        if event.kind == "profiling":
            self._started_at = event.text("file") or "", event.integer("line") or 0
        if event.kind == "sample":
            self._profiling_since_ns, self._declined = None, 0
        if event.kind != "declined" or event.text("why") not in _PROFILING:
            return
        if self._profiling_since_ns is None:
            self._profiling_since_ns = event.unix_ns
        self._declined += max(event.integer("times") or 1, 1)
        open_ns = event.unix_ns - self._profiling_since_ns
        if self.own_profiler is None or open_ns >= self.own_profiler.open_ns:
            self.own_profiler = OwnProfiler(self._declined, open_ns, *self._started_at)

    def _tell(self, what: str) -> None:
        self._problems.append(Problem(self._where, what))


def _chosen(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings without a damaged environment, which must be a mapping by name."""
    is_sound = isinstance(settings.get("environment"), dict | None)
    return settings if is_sound else {**settings, "environment": {}}


def _raised(event: Event) -> Raised:
    return Raised(
        type=event.text("type") or "an exception",
        message=event.text("message") or "",
        file=event.text("file"),
        line=event.integer("line"),
    )


class FollowedService(FollowedProcess):
    """One process folder without an agent's files."""

    def __init__(
        self,
        folder: ProcessFolder,
        here: Machine,
        gathered: Gathered,
        *,
        with_memory: bool,
        with_spans: bool,
        with_host_allocations: bool,
    ) -> None:
        """Start with nothing read."""
        super().__init__(
            folder,
            here,
            gathered,
            with_memory=with_memory,
            with_spans=with_spans,
            with_host_allocations=with_host_allocations,
        )
        self._gathered = gathered
        self._index: int | None = None
        self._found: Recorded | None = None
        self._why = ""
        self._waits = True

    def read_logs(self, index: int) -> None:
        """Read the trace; `index` is the process's index in the profile."""
        if index == self._index or not isinstance(self.entry.manifest, ProcessManifest):
            return
        self._index = index
        interner = self._gathered.interner
        try:
            self._found = service_trace.read(
                self._folder, self.entry.manifest, interner, process=index
            )
        except UnreadableInput as exc:
            self._why = str(exc)
            return
        self.notes.gaps = self._found.gaps

    def look_at_captures(self) -> int:
        """Return the number of traces waiting to be read: at most one."""
        return int(self._waits)

    def capture_files(self) -> tuple[CaptureFile, ...]:
        """Return none: the trace is read as a whole, so there is nothing to choose."""
        return ()

    def keep_captures(self, names: frozenset[str]) -> int:  # noqa: ARG002 - as above
        """Keep everything; return the number of traces waiting to be read."""
        return self.look_at_captures()

    def decode(self, tell: Callable[[], None]) -> None:
        """Hand over the steps of the trace."""
        if not self._waits:
            return
        self._waits = False
        for key, decoded in self._steps_of_trace():
            self._gathered.put(key, decoded)
        tell()

    def drop(self) -> None:
        """Remove its captures: the process is gone, or no longer wanted."""
        if not self._waits:
            for key, _ in self._steps_of_trace():
                self._gathered.drop(key)
        self._waits = True

    def process(self, index: int) -> Process:
        """Return the process with this index in the profile."""
        count = len(self._found.captures) if self._found else 0
        return replace(super().process(index), captures=count)

    def loops(self, index: int) -> tuple[Loop, ...]:  # noqa: ARG002 - that of read_logs
        """Return its only loop."""
        return (self._found.loop,) if self._found else ()

    def problems(self) -> Iterator[Problem]:
        """Yield what could not be used."""
        if self._why:
            yield Problem("/".join(self.key), f"This recording was skipped: {self._why}.")

    def _steps_of_trace(self) -> Iterator[tuple[CaptureKey, Decoded]]:
        if self._found is None:
            return
        trace = self._found.trace
        rows = _by_step(trace.rows, self._found.captures)
        spans = _by_step(trace.spans, self._found.captures)
        allocations = _by_step(trace.allocations, self._found.captures)
        parts = zip(self._found.captures, rows, spans, allocations, strict=True)
        for at, (capture, own, own_spans, taken) in enumerate(parts):
            # Zero-padded to the widest step number, so that the strings sort like the steps.
            yield (*self.key, f"{at:012d}"), Decoded(capture, Trace(own, own_spans, taken))


def _by_step(table: T, captures: tuple[Capture, ...]) -> Iterator[T]:
    """Yield the rows of each step, which may be none."""
    found = dict(table.by_capture())
    none = table.only(table.capture < 0)
    return (found.get(capture.index, none) for capture in captures)
