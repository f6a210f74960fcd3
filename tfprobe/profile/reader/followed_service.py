"""Follow a process that a profiler service recorded: one trace, which is whole and read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tfprobe.errors import UnreadableInput
from tfprobe.formats.trace import Trace
from tfprobe.profile.profile import Capture, Problem, Process, Work
from tfprobe.profile.reader import service
from tfprobe.profile.reader.captures import Decoded
from tfprobe.profile.reader.followed_process import FollowedProcess
from tfprobe.profile.reader.gathered import CaptureKey, Gathered
from tfprobe.profile.reader.room import CaptureFile
from tfprobe.profile.reader.service import Recorded
from tfprobe.profile.tables import T
from tfprobe.runs.layout import ProcessFolder
from tfprobe.runs.liveness import Machine
from tfprobe.runs.manifests import ProcessManifest


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
        """Begin with nothing read."""
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
        """Read the trace; `index` is the place of the process in the profile."""
        if index == self._index or not isinstance(self.entry.manifest, ProcessManifest):
            return
        self._index = index
        interner = self._gathered.interner
        try:
            self._found = service.read(self._folder, self.entry.manifest, interner, process=index)
        except UnreadableInput as exc:
            self._why = str(exc)
            return
        self.notes.gaps = self._found.gaps

    def look_at_captures(self) -> int:
        """Return how many traces wait to be taken: one at most."""
        return int(self._waits)

    def capture_files(self) -> tuple[CaptureFile, ...]:
        """Return none: the trace has been read as a whole, and there is no choice."""
        return ()

    def keep_captures(self, names: frozenset[str]) -> int:  # noqa: ARG002 - as above
        """Keep what there is; return how many traces wait to be taken."""
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
        """Remove its captures: the process is gone, or not wanted any more."""
        if not self._waits:
            for key, _ in self._steps_of_trace():
                self._gathered.drop(key)
        self._waits = True

    def process(self, index: int) -> Process:
        """Return the process with this place in the profile."""
        count = len(self._found.captures) if self._found else 0
        return replace(super().process(index), captures=count)

    def works(self, index: int) -> tuple[Work, ...]:  # noqa: ARG002 - that of read_logs
        """Return its one work."""
        return (self._found.work,) if self._found else ()

    def problems(self) -> Iterator[Problem]:
        """Give what could not be used."""
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
        for at, (capture, own, told, taken) in enumerate(parts):
            # As wide as the number of any step, so that texts stand in the order of steps.
            yield (*self.key, f"{at:012d}"), Decoded(capture, Trace(own, told, taken))


def _by_step(table: T, captures: tuple[Capture, ...]) -> Iterator[T]:
    """Give the rows of each step, none where there are none."""
    found = dict(table.by_capture())
    none = table.only(table.capture < 0)
    return (found.get(each.index, none) for each in captures)
