"""The runs of a directory that are open: a few at a time, and each read again only where it grew."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tfprobe.errors import NoAnswer, UnreadableInput
from tfprobe.store.layout import RunFolder
from tfprobe.store.liveness import Machine
from tfprobe.store.rereading import SETTLED_S
from tfprobe.web import confinement
from tfprobe.web.answers import Document, answer
from tfprobe.web.opened import OpenRun
from tfprobe.web.question import Question

# Who compares two runs has two open, and goes back to a third.
MOST_OPEN = 4
# Pages ask for several documents at once; what came within a second is on the next look.
FRESH_S = 1.0


@dataclass(slots=True)
class _Entry:
    """A run that is open. `identity` tells it from another that takes its name later."""

    run: OpenRun
    identity: tuple[int, int]
    reading: threading.Lock = field(default_factory=threading.Lock)
    read_at_s: float | None = None
    ended_at_s: float | None = None


class Book:
    """Opens runs by name, for several threads at once. Only what a listing shows has a name."""

    def __init__(
        self,
        directory: Path,
        here: Machine,
        *,
        most: int = MOST_OPEN,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the directory of runs, or the run that it is. `clock` counts seconds."""
        self.directory = directory
        self._here = here
        self._most = most
        self._clock = clock
        self._choosing = threading.Lock()
        # The one asked for longest ago is first.
        self._open: dict[str, _Entry] = {}

    def answer(self, name: str, page: str, question: Question) -> Document:
        """Return a document of a run as it is now.

        Raises what `answer` raises, and NoAnswer for a run that there is not.
        """
        return answer(self.opened(name), page, question)

    def opened(self, name: str) -> OpenRun:
        """Return a run, read as far as it is written.

        Raises NoAnswer where there is none of this name, UnreadableInput where it cannot be read.
        """
        folder = self.folder(name)
        entry = self._entry(name, folder)
        with entry.reading:
            try:
                self._read(entry)
            except UnreadableInput:
                self._forget(name, entry)
                raise
        return entry.run

    def folder(self, name: str) -> RunFolder:
        """Return the directory of a run.

        Raises NoAnswer where the directory lists no run of this name.
        """
        folder = confinement.run_named(name, self.directory)
        if folder is None:
            raise NoAnswer("There is no run of that name; it may have been removed.")
        return folder

    def _entry(self, name: str, folder: RunFolder) -> _Entry:
        identity = _identity(folder.root)
        with self._choosing:
            entry = self._open.pop(name, None)
            if entry is None or entry.identity != identity:
                entry = _Entry(OpenRun(folder, self._here), identity)
            self._open[name] = entry
            while len(self._open) > self._most:
                del self._open[next(iter(self._open))]
        return entry

    def _read(self, entry: _Entry) -> None:
        now_s = self._clock()
        if entry.read_at_s is not None and not _may_be_new(entry, now_s):
            return
        confinement.check(entry.run.folder, self.directory)
        entry.run.refresh()
        entry.read_at_s = now_s
        if entry.run.has_ended:
            entry.ended_at_s = now_s if entry.ended_at_s is None else entry.ended_at_s

    def _forget(self, name: str, entry: _Entry) -> None:
        with self._choosing:
            if self._open.get(name) is entry:
                del self._open[name]


def _may_be_new(entry: _Entry, now_s: float) -> bool:
    """Say whether a run that was read may hold more by now."""
    assert entry.read_at_s is not None
    if entry.ended_at_s is not None and entry.read_at_s >= entry.ended_at_s + SETTLED_S:
        return False
    return now_s >= entry.read_at_s + FRESH_S


def _identity(root: Path) -> tuple[int, int]:
    try:
        found = os.stat(root)
    except OSError:
        raise NoAnswer("The run was removed a moment ago.") from None
    return found.st_dev, found.st_ino
