"""The Python door to a recording, `tfprobe.open_run`. Like cli it may import all."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from tfprobe.advice.engine import advise
from tfprobe.advice.engine import document as engine_document
from tfprobe.ingest.run import load
from tfprobe.ingest.sampled import dearest
from tfprobe.model.profile import Capture, Process, Profile, Work
from tfprobe.store.catalogue import find_run
from tfprobe.store.layout import DEFAULT_OUTPUT, RunFolder
from tfprobe.store.liveness import this_machine
from tfprobe.views.report import Document, document, gather


class Recording:
    """A run directory opened for reading.

    It shows the run as it was when first asked for; open it again to follow a running job.
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
        """The sampled steps that could be read."""
        return self._profile.captures

    def profile(self) -> Profile:
        """Return the tables: processes, works, captures, and one row per execution of a node."""
        return self._profile

    def report(self) -> Document:
        """Return the document of `tfprobe report --json`: times in µs, sizes in bytes."""
        advice = advise(self._profile, dearest(self._folder, self._profile))
        return document(gather(self._profile), engine_document(advice)["findings"])

    @cached_property
    def _profile(self) -> Profile:
        return load(self._folder, this_machine())

    @cached_property
    def _without_captures(self) -> Profile:
        if "_profile" in self.__dict__:
            return self._profile
        return load(self._folder, this_machine(), with_captures=False)


def open_run(path: str | Path = "latest", *, output: str | Path | None = None) -> Recording:
    """Open a run: a directory, a run id in `output`, or `latest`, the newest one there.

    Raises UnreadableInput when `path` names no run, NoAnswer when there is no run at all.
    """
    return Recording(find_run(str(path), Path(output or DEFAULT_OUTPUT)))
