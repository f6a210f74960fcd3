"""Follow one process of a run: what its files say, each part of them read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tfprobe.errors import Missing
from tfprobe.profile.profile import Problem, Process, Work
from tfprobe.profile.reader.followed_captures import FollowedCaptures
from tfprobe.profile.reader.followed_events import FollowedEvents
from tfprobe.profile.reader.gathered import Gathered, ProcessKey
from tfprobe.profile.reader.notes import ProcessNotes
from tfprobe.profile.reader.processes import process_of, work_of
from tfprobe.profile.reader.room import CaptureFile
from tfprobe.runs.layout import ProcessFolder
from tfprobe.runs.liveness import FAILED, Machine
from tfprobe.runs.manifests import ProcessManifest
from tfprobe.runs.process_reader import ProcessReader
from tfprobe.runs.steps_layout import WorkRecord


class FollowedProcess:
    """One process folder, and what of it has been read; its captures go to `gathered`."""

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
        self._works_made: dict[int, tuple[WorkRecord, Work]] = {}
        self._works_made_by: tuple[int, int] | None = None
        self.notes = ProcessNotes(folder)
        self.entry, self._steps = self._reader.read()

    @property
    def rank(self) -> int | None:
        manifest = self.entry.manifest
        known = isinstance(manifest, ProcessManifest) and manifest.rank
        return known.index if known else None

    def read(self) -> None:
        """Read anew what tells the state and the steps of the process."""
        self.entry, self._steps = self._reader.read()

    def read_logs(self, index: int) -> None:
        """Read what is new in its other files; `index` is its place in the profile."""
        self._events.read()
        steps = self._steps
        if isinstance(steps, Missing):
            self.notes.read(index, self._events.unix_minus_monotonic_ns, 0)
        else:
            self.notes.read(index, steps.header.unix_ns(0), steps.last_sign_mono_ns)

    def look_at_captures(self) -> int:
        """Return how many captures wait to be decoded."""
        steps = None if isinstance(self._steps, Missing) else self._steps
        self._captures.look(self._events.samples, steps)
        return self._captures.waiting

    def capture_files(self) -> tuple[CaptureFile, ...]:
        """Return the captures that there were at the last look, as they were taken."""
        return self._captures.files()

    def keep_captures(self, names: frozenset[str]) -> int:
        """Read none but these, and remove the others; return how many wait to be decoded."""
        self._captures.keep(names)
        return self._captures.waiting

    def rows_in(self, name: str) -> int:
        """Return how many rows a capture has, of which nothing is kept."""
        return self._captures.rows_in(name)

    def decode(self, tell: Callable[[], None]) -> None:
        """Decode the captures that wait; `tell` is called after each."""
        self._captures.decode(tell)

    def drop(self) -> None:
        """Remove its captures: the process is gone, or not wanted any more."""
        self._captures.drop()

    def process(self, index: int) -> Process:
        """Return the process with this place in the profile."""
        process = process_of(self.entry, self._steps, index)
        ending = process.ending
        if process.state == FAILED:
            ending = replace(ending, exception=self._events.exception)
        events = self._events
        return replace(
            process, settings=events.settings, ending=ending, own_profiler=events.own_profiler
        )

    def works(self, index: int) -> tuple[Work, ...]:
        """Return its works; one that has not changed is the same as before."""
        steps = self._steps
        if isinstance(steps, Missing):
            return ()
        made_by = (index, steps.header.unix_ns(0))
        known = self._works_made if made_by == self._works_made_by else {}
        self._works_made_by = made_by
        # The record is kept beside the work made of it, so that its id is nobody else's.
        self._works_made = {
            id(record): known.get(id(record)) or (record, work_of(record, index, steps.header))
            for record in steps.works
        }
        return tuple(work for _, work in self._works_made.values())

    def problems(self) -> Iterator[Problem]:
        """Give what could not be used, but for the notes'."""
        where = "/".join(self.key)
        if isinstance(self.entry.manifest, Missing):
            yield Problem(where, self.entry.manifest.reason)
        texts = (self._steps.reason,) if isinstance(self._steps, Missing) else self._steps.problems
        yield from (Problem(where, text) for text in texts)
        yield from self._events.problems()
        yield from self._captures.problems()
