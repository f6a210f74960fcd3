"""Python API of a recording: `tfprobe.open_run`. Like `cli`, it may import every room."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tfprobe.errors import UsageError
from tfprobe.findings.engine import advise
from tfprobe.findings.trials import with_measured
from tfprobe.launch import environ
from tfprobe.profile.profile import Capture, Loop, Process, Profile, RecentSteps
from tfprobe.profile.reader.run_reader import RunReader, load
from tfprobe.profile.reader.traced_steps import costliest_loop
from tfprobe.report.documents.document import Document, published
from tfprobe.report.documents.run_report import gather_report, report_document
from tfprobe.runs.catalogue import find_run
from tfprobe.runs.layout import DEFAULT_OUTPUT, RunFolder
from tfprobe.runs.liveness import this_machine
from tfprobe.runs.trials import trials_of


@dataclass(frozen=True, slots=True)
class Update:
    """What has happened in a run since the last update; the first update has everything so far.

    `steps` has the new steps of each loop that has any, `captures` the new traced steps, `appeared`
    and `ended` the processes that started or ended. Their indices are positions in `profile()`.
    """

    at_unix_ns: int
    steps: tuple[NewSteps, ...]
    captures: tuple[Capture, ...]
    appeared: tuple[Process, ...]
    ended: tuple[Process, ...]
    _whole: Profile = field(repr=False)

    def profile(self) -> Profile:
        """Return the tables of the whole run at the time of the update."""
        return self._whole

    def captured(self) -> Profile:
        """Return the tables with only the new captures, numbered from 0."""
        return self._whole.only(self.captures)


class Recording:
    """A run directory opened for reading.

    Its attributes show the run as it was when they were first read; `follow` gives what happens in
    it afterwards.
    """

    def __init__(self, folder: RunFolder) -> None:
        """Remember the run directory; files are read when an attribute needs them."""
        self._folder = folder

    def __repr__(self) -> str:
        return f"Recording({str(self._folder.root)!r})"

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self._folder.root

    @property
    def processes(self) -> tuple[Process, ...]:
        """The recorded processes, by host and start."""
        return self._without_captures.processes

    @property
    def loops(self) -> tuple[Loop, ...]:
        """Every loop of every process; `loop.process` is a position in `processes`."""
        return self._without_captures.loops

    @property
    def works(self) -> tuple[Loop, ...]:
        """The former name of `loops`, deprecated."""
        warnings.warn("Recording.works is now Recording.loops", DeprecationWarning, stacklevel=2)
        return self.loops

    @property
    def captures(self) -> tuple[Capture, ...]:
        """The traced steps that could be read."""
        return self._profile.captures

    def profile(self) -> Profile:
        """Return the tables: processes, loops, captures, and one row per execution of a node."""
        return self._profile

    def report(self) -> Document:
        """Return the document of `tfprobe report --json`: times in µs, sizes in bytes."""
        trials = trials_of(self._profile.run.command, self._folder.root.parent)
        advice = with_measured(
            advise(self._profile, costliest_loop(self._folder, self._profile)), trials
        )
        return published(report_document(gather_report(self._profile), advice))

    def follow(self, every_s: float = 1.0, *, timeout_s: float | None = None) -> Iterator[Update]:
        """Yield an update whenever something is new, checking every `every_s` seconds.

        The first update comes at once. The iterator ends with an update of the ended run, or after
        `timeout_s` seconds. The end of a run on another machine is known only from its files: if
        that run is killed, the iterator does not end by itself. Only new data is read. If reading
        takes longer than half of `every_s`, the pause is as long as the reading.

        Raises UsageError for times that are not positive, UnreadableInput if the run is removed.
        """
        if not every_s > 0 or (timeout_s is not None and not timeout_s >= 0):
            given = f"every_s={every_s!r}, timeout_s={timeout_s!r}"
            raise UsageError(f"follow({given}) has no time to wait for.", hint="Use seconds.")
        return self._updates(every_s, timeout_s)

    def _updates(self, every_s: float, timeout_s: float | None) -> Iterator[Update]:
        following, before = RunReader(self._folder, this_machine()), None
        last_s = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        while True:
            began_s = time.monotonic()
            profile = following.refresh()
            is_last = following.has_ended or began_s >= last_s
            spent_s = time.monotonic() - began_s
            if profile is not before:
                yield _update(profile, before)
                before = profile
            if is_last:
                return
            now_s = time.monotonic()
            pause_s = max(began_s + every_s - now_s, spent_s)
            time.sleep(max(min(pause_s, last_s - now_s), 0))

    @cached_property
    def _profile(self) -> Profile:
        return load(self._folder, this_machine())

    @cached_property
    def _without_captures(self) -> Profile:
        if "_profile" in self.__dict__:
            return self._profile
        return load(self._folder, this_machine(), with_captures=False)


def _update(profile: Profile, before: Profile | None) -> Update:
    found: News = news(profile, before)
    return Update(
        at_unix_ns=time.time_ns(),
        steps=found.steps,
        captures=found.captures,
        appeared=found.appeared,
        ended=found.ended,
        _whole=profile,
    )


def open_run(path: str | Path = "latest", *, output: str | Path | None = None) -> Recording:
    """Open a run for reading.

    `path` is a run directory, the id of a run in `output`, `latest` for the newest run there, or a
    URL of remote storage.

    Raises UnreadableInput if `path` names no run, NoAnswer if there is no run at all.
    """
    if isinstance(path, str) and "://" in path:
        from tfprobe.runs.remote.mirror import fetched_run

        mirror = fetched_run(path, environ.cache_home(), lambda _done, _all: None)
        return Recording(RunFolder(mirror))
    return Recording(find_run(str(path), Path(output or DEFAULT_OUTPUT)))


ENDED = frozenset({"finished", "failed", "terminated", "replaced", "killed"})


@dataclass(frozen=True, slots=True)
class NewSteps:
    """The new steps of one loop: `count` were completed, `raised` raised an exception.

    `times` has them oldest first, in monotonic ns. If there are more than the recording keeps of a
    loop, it has the latest.
    """

    loop: Loop
    count: int
    raised: int
    times: RecentSteps

    @property
    def work(self) -> Loop:
        """The former name of `loop`, deprecated."""
        warnings.warn("NewSteps.work is now NewSteps.loop", DeprecationWarning, stacklevel=2)
        return self.loop

    @property
    def durations_ns(self) -> npt.NDArray[np.int64]:
        """Return the duration of each completed step in `times`."""
        completed = ~self.times.raised
        durations_ns: npt.NDArray[np.int64] = (self.times.end_ns - self.times.start_ns)[completed]
        return durations_ns


@dataclass(frozen=True, slots=True)
class News:
    """The difference between two profiles of a run. Loops without new steps are left out.

    Loops, captures and processes are those of the later profile.
    """

    steps: tuple[NewSteps, ...]
    captures: tuple[Capture, ...]
    appeared: tuple[Process, ...]
    ended: tuple[Process, ...]


def news(profile: Profile, before: Profile | None = None) -> News:
    """Return what is new in a profile; without an earlier one, everything is."""
    old = _Old(before)
    return News(
        steps=tuple(_new_steps(profile, old)),
        captures=tuple(
            capture
            for capture in profile.captures
            if (*_key(profile.processes[capture.process]), capture.file) not in old.captures
        ),
        appeared=tuple(
            process for process in profile.processes if _key(process) not in old.processes
        ),
        ended=tuple(
            process
            for process in profile.processes
            if process.state in ENDED and old.processes.get(_key(process)) not in ENDED
        ),
    )


class _Old:
    """The earlier profile by keys that stay: positions change when processes appear."""

    def __init__(self, profile: Profile | None) -> None:
        processes = () if profile is None else profile.processes
        loops = () if profile is None else profile.loops
        captures = () if profile is None else profile.captures
        self.processes = {_key(process): process.state for process in processes}
        self.loops = {(*_key(processes[loop.process]), loop.index): loop for loop in loops}
        self.captures = {(*_key(processes[capture.process]), capture.file) for capture in captures}


def _new_steps(profile: Profile, old: _Old) -> list[NewSteps]:
    found = []
    for loop in profile.loops:
        known = old.loops.get((*_key(profile.processes[loop.process]), loop.index))
        if known is not None and known.executed > loop.executed:
            known = None  # the folder was replaced by that of another process
        executed, raised = (0, 0) if known is None else (known.executed, known.raised)
        if loop.executed > executed:
            since = loop.recent.since(executed)
            news = loop.executed - executed
            found.append(NewSteps(loop, news - (loop.raised - raised), loop.raised - raised, since))
    return found


def _key(process: Process) -> tuple[str, str]:
    return process.host, process.folder
