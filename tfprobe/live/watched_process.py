"""Look at one process again and again, reading of its folder only what is new."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tfprobe.errors import Missing
from tfprobe.profile.activities import ResourceSample
from tfprobe.profile.profile import Loop, Problem
from tfprobe.profile.reader.processes import process_of
from tfprobe.profile.snapshots import ProcessSnapshot, TraceRequestState
from tfprobe.runs.layout import ProcessFolder, is_capture
from tfprobe.runs.liveness import UNKNOWN, Machine, ProcessEntry
from tfprobe.runs.manifests import ProcessManifest
from tfprobe.runs.process_folder.file_cache import Listing, ProcessReader
from tfprobe.runs.process_folder.jsonl import Latest
from tfprobe.runs.process_folder.resource_samples import latest_resource_samples
from tfprobe.runs.process_folder.steps import LoopsOfProcess, StepsFile
from tfprobe.runs.process_folder.steps_layout import Header

# What a row of a table and its sparkline are made of.
KEPT_STEPS = 1024
# A minute of them.
KEPT_RESOURCE_SAMPLES = 64

NOT_SENT = Missing("the captures were not read")
NOT_READ = Missing("the process has not been looked at")


class WatchedProcess:
    """One process folder, and what has been read of it."""

    def __init__(self, folder: ProcessFolder, here: Machine, clocks: HostClocks) -> None:
        """Begin with nothing read."""
        self.folder = folder
        self._here = here
        self._clocks = clocks
        self._reader = ProcessReader(folder, here, keep_steps=KEPT_STEPS)
        self._captures = Listing(folder.captures)
        self._clock = (0, 0)
        self._resource_samples = self._resource_sample_reader()
        self._loops = LoopsOfProcess()
        self.entry = ProcessEntry(folder, NOT_READ, NOT_READ, 0, UNKNOWN)
        self.problems: tuple[Problem, ...] = ()

    def look(self, index: int, now_s: float) -> ProcessSnapshot:
        """Return what the process is doing; `index` is its place in the snapshot of its run."""
        self.entry, steps = self._reader.read()
        header = self.entry.header
        captures = self._captures.names(now_s)
        process = process_of(
            self.entry,
            steps,
            index,
            captures=0 if isinstance(captures, Missing) else sum(map(is_capture, captures)),
        )
        loops = () if isinstance(steps, Missing) else self._loops.numbered(steps.loops, index)
        latest = () if isinstance(header, Missing) else self._latest_resource_samples(header, index)
        self.problems = tuple(self._problems(self.entry.manifest, steps, captures))
        return ProcessSnapshot(
            process=process,
            loops=loops,
            now_mono_ns=header if isinstance(header, Missing) else self._now(header, loops),
            request=header if isinstance(header, Missing) else _request(header),
            shares=NOT_SENT,
            wall_time=NOT_SENT,
            resource_samples=latest,
        )

    def _now(self, header: Header, loops: tuple[Loop, ...]) -> int:
        manifest = self.entry.manifest
        known = None if isinstance(manifest, Missing) else manifest
        return now_mono_ns(header, known, loops, self._here, self._clocks)

    def _latest_resource_samples(self, header: Header, index: int) -> tuple[ResourceSample, ...]:
        clock = (index, header.unix_ns(0))
        if clock != self._clock:
            self._clock = clock
            self._resource_samples = self._resource_sample_reader()
        return self._resource_samples.read()

    def _resource_sample_reader(self) -> Latest[ResourceSample]:
        process, shift_ns = self._clock
        path, keep = self.folder.resource_samples, KEPT_RESOURCE_SAMPLES
        return latest_resource_samples(path, keep=keep, process=process, shift_ns=shift_ns)

    def _problems(
        self,
        manifest: ProcessManifest | Missing,
        steps: StepsFile | Missing,
        captures: tuple[str, ...] | Missing,
    ) -> Iterator[Problem]:
        where = f"{self.folder.host}/{self.folder.name}"
        # What a profiler service recorded is one trace, without steps.bin.
        is_trace = not isinstance(manifest, Missing) and manifest.service is not None
        for part in (manifest, captures) if is_trace else (manifest, steps, captures):
            if isinstance(part, Missing):
                yield Problem(where, part.reason)
        if not isinstance(steps, Missing):
            yield from (Problem(where, text) for text in steps.problems)
        if self._resource_samples.bad_lines:
            yield Problem(
                where, f"{self._resource_samples.bad_lines} lines of pulses.jsonl are no pulses."
            )


def _request(header: Header) -> TraceRequestState:
    return TraceRequestState(header.request_sequence, header.request_seen, header.request_left)


@dataclass(frozen=True, slots=True)
class HostClocks:
    """The clocks of this machine, in ns: the monotonic one, and the one that somebody may set."""

    mono_ns: Callable[[], int] = time.monotonic_ns
    unix_ns: Callable[[], int] = time.time_ns


def now_mono_ns(
    header: Header,
    manifest: ProcessManifest | None,
    loops: Iterable[Loop],
    here: Machine,
    clocks: HostClocks,
) -> int:
    """Return this moment on the clock of a process, never before the end of its last step.

    One kernel has one monotonic clock. Of another, the moment noted on both clocks tells it, as far
    as the machines' clocks agree.
    """
    if manifest is not None and _is_one_kernel(manifest, here):
        now_ns = clocks.mono_ns()
    else:
        now_ns = clocks.unix_ns() - header.unix_ns(0)
    ends_ns = (int(loop.recent.end_ns[-1]) for loop in loops if len(loop.recent.end_ns))
    return max(now_ns, *ends_ns, header.moment_mono_ns)


def _is_one_kernel(manifest: ProcessManifest, here: Machine) -> bool:
    # Containers of one machine have names of their own, but one boot.
    if manifest.boot_id is not None and here.boot_id is not None:
        return manifest.boot_id == here.boot_id
    return manifest.host == here.host
