"""The Python door to a recording, `tfprobe.open_run`. Like cli it may import all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tfprobe.analysis.jobs.updates import News, NewSteps, news
from tfprobe.errors import UsageError
from tfprobe.findings.engine import advise
from tfprobe.findings.engine import document as engine_document
from tfprobe.launch import environ
from tfprobe.profile.profile import Capture, Process, Profile, Work
from tfprobe.profile.reader.run_reader import RunReader, load
from tfprobe.profile.reader.traced_steps import dearest
from tfprobe.report.documents.run_report import Document, document, gather
from tfprobe.runs.catalogue import find_run
from tfprobe.runs.layout import DEFAULT_OUTPUT, RunFolder
from tfprobe.runs.liveness import this_machine


@dataclass(frozen=True, slots=True)
class Update:
    """What has happened in a run since the update before; in the first one, all until then.

    `steps` are the new steps of each work that has any, `captures` the new traced steps,
    `appeared` and `ended` the processes that did. Their numbers are places in `profile()`.
    """

    at_unix_ns: int
    steps: tuple[NewSteps, ...]
    captures: tuple[Capture, ...]
    appeared: tuple[Process, ...]
    ended: tuple[Process, ...]
    _whole: Profile = field(repr=False)

    def profile(self) -> Profile:
        """Return the tables of the whole run as it was then."""
        return self._whole

    def captured(self) -> Profile:
        """Return the tables with the new captures alone, numbered from 0."""
        return self._whole.only(self.captures)


class Recording:
    """A run directory opened for reading.

    It shows the run as it was when first asked for; `follow` tells what happens in it from then on.
    """

    def __init__(self, folder: RunFolder) -> None:
        """Keep the run directory; nothing is read before it is asked for."""
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
    def works(self) -> tuple[Work, ...]:
        """Every work of every process; `work.process` is a position in `processes`."""
        return self._without_captures.works

    @property
    def captures(self) -> tuple[Capture, ...]:
        """The traced steps that could be read."""
        return self._profile.captures

    def profile(self) -> Profile:
        """Return the tables: processes, works, captures, and one row per execution of a node."""
        return self._profile

    def report(self) -> Document:
        """Return the document of `tfprobe report --json`: times in µs, sizes in bytes."""
        advice = advise(self._profile, dearest(self._folder, self._profile))
        return document(gather(self._profile), engine_document(advice)["findings"])

    def follow(self, every_s: float = 1.0, *, timeout_s: float | None = None) -> Iterator[Update]:
        """Give an update whenever something is new, looking every `every_s` seconds, until the end.

        The first comes at once. The last is of the run as it ended; of one that runs on another
        machine only its own files tell that, so where it is killed there is no last one.
        `timeout_s` ends it after so long at the latest. Only what is new is read, and where that
        takes longer than half of `every_s`, the pause is as long as the reading.

        Raises UsageError for times that are none, UnreadableInput when the run is removed.
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
    """Open a run: a directory, a run id in `output`, `latest`, the newest one there, or a URL.

    Raises UnreadableInput when `path` names no run, NoAnswer when there is no run at all.
    """
    if isinstance(path, str) and "://" in path:
        from tfprobe.runs.remote.mirror import fetched_run

        mirror = fetched_run(path, environ.cache_home(), lambda _done, _all: None)
        return Recording(RunFolder(mirror))
    return Recording(find_run(str(path), Path(output or DEFAULT_OUTPUT)))
