"""The runs of a directory that are open: a few at a time, each read again only where it grew."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tfprobe.errors import NoAnswer, UnreadableInput
from tfprobe.report.documents.document import Document
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine
from tfprobe.runs.process_folder.file_cache import SETTLED_S
from tfprobe.web import answers
from tfprobe.web.opened import OpenRun, Reading
from tfprobe.web.params import Params

# Who compares two runs has two open, and goes back to a third.
MOST_OPEN = 4
# But of large ones no more than two: a million take some 300 MB with what is made of them.
MOST_ROWS = 1_500_000
_FOR_COMPARING = 2
# Pages ask for several documents at once; what came within a second is on the next look.
FRESH_S = 1.0


@dataclass(slots=True)
class _Part:
    """What is known of one reading of a run: when it was read, and when it was seen to be over."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    read_at_s: float | None = None
    ended_at_s: float | None = None
    has_grown: bool = True

    def may_grow(self, now_s: float) -> bool:
        """Say whether a further look may find more."""
        if self.read_at_s is None or self.has_grown:
            return True
        if self.ended_at_s is not None and self.read_at_s >= self.ended_at_s + SETTLED_S:
            return False
        return now_s >= self.read_at_s + FRESH_S


@dataclass(slots=True)
class _Entry:
    """A run that is open. `identity` tells it from another that takes its name later."""

    run: OpenRun
    identity: tuple[int, int]
    early: _Part = field(default_factory=_Part)
    whole: _Part = field(default_factory=_Part)


class RunCache:
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
        self._directory = directory
        self._here = here
        self._most = most
        self._clock = clock
        self._choosing = threading.Lock()
        # The least recently used is first.
        self._open: dict[str, _Entry] = {}

    def answer(self, name: str, page: str, question: Params) -> Document:
        """Return a document of a run as it is now.

        Raises what `answers.answer` raises, and NoAnswer for a run that there is not.
        """
        entry = self._entry(name)
        if page in answers.EARLY:
            self._read(name, entry, entry.run.early, entry.early)
        else:
            answers.check(page)
            self._read(name, entry, entry.run, entry.whole)
        return answers.answer(entry.run, page, question)

    def opened(self, name: str) -> OpenRun:
        """Return a run, read as far as it is written.

        Raises NoAnswer where there is none of this name, UnreadableInput where it cannot be read.
        """
        entry = self._entry(name)
        self._read(name, entry, entry.run, entry.whole)
        return entry.run

    def has_grown(self, names: Iterable[str]) -> None:
        """Read these runs again at the next question, however long ago they were read.

        A page that got an event requests them, and gets no second event.
        """
        with self._choosing:
            entries = [self._open[name] for name in names if name in self._open]
        for entry in entries:
            entry.early.has_grown = entry.whole.has_grown = True

    def folder(self, name: str) -> RunFolder:
        """Return the directory of a run.

        Raises NoAnswer where the directory lists no run of this name.
        """
        folder = run_named(name, self._directory)
        if folder is None:
            raise NoAnswer("There is no run of that name here; it may have been removed.")
        return folder

    def checked_folder(self, name: str) -> RunFolder:
        """Return the directory of a run that no link leads out of.

        Raises NoAnswer where there is none of this name, UnreadableInput where there is a link.
        """
        folder = self.folder(name)
        check_path(folder, self._directory)
        return folder

    def _entry(self, name: str) -> _Entry:
        folder = self.folder(name)
        identity = _identity(folder.root)
        with self._choosing:
            entry = self._open.pop(name, None)
            if entry is None or entry.identity != identity:
                entry = _Entry(OpenRun(folder, self._here, sibling=self.opened), identity)
            self._open[name] = entry
            while self._are_too_many():
                del self._open[next(iter(self._open))]
        return entry

    def _are_too_many(self) -> bool:
        rows = sum(opened.run.row_count for opened in self._open.values())
        return len(self._open) > self._most or (
            len(self._open) > _FOR_COMPARING and rows > MOST_ROWS
        )

    def _read(self, name: str, entry: _Entry, reading: Reading, part: _Part) -> None:
        with part.lock:
            now_s = self._clock()
            if not part.may_grow(now_s):
                return
            # Before it is read: what is noted meanwhile is for the next time.
            part.has_grown = False
            try:
                check_path(entry.run.folder, self._directory)
                reading.refresh()
            except UnreadableInput:
                self._forget(name, entry)
                raise
            part.read_at_s = now_s
            if reading.has_ended and part.ended_at_s is None:
                part.ended_at_s = now_s

    def _forget(self, name: str, entry: _Entry) -> None:
        with self._choosing:
            if self._open.get(name) is entry:
                del self._open[name]


def _identity(root: Path) -> tuple[int, int]:
    try:
        status = os.stat(root)
    except OSError:
        raise NoAnswer("The run was removed a moment ago.") from None
    return status.st_dev, status.st_ino


def run_named(name: str, directory: Path) -> RunFolder | None:
    """Return the run of this name that a listing of the directory shows, or that it is itself.

    A name is compared, and never joined before: nothing in it can lead anywhere.
    """
    alone = RunFolder(directory)
    if alone.is_run():
        return alone if name == alone.id else None
    try:
        is_listed = name in os.listdir(directory)
    except OSError:
        return None
    run = RunFolder(directory / name)
    return run if is_listed and is_shown(run, directory) else None


def is_shown(run: RunFolder, directory: Path) -> bool:
    """Say whether this is a run of the directory, and none that a link of it leads to elsewhere."""
    return not run.id.startswith(".") and is_inside(run.root, directory) and run.is_run()


def check_path(run: RunFolder, directory: Path) -> None:
    """Raise UnreadableInput where a link in the run leads out of the directory.

    What is read of a run is shown, so a link is all that somebody who may write a run would need to
    have a file shown that only whoever looks may read.
    """
    for link in _links(run.root):
        if not is_inside(link, directory):
            raise UnreadableInput(
                f"Run {run.id} is not read: {link.relative_to(run.root)} in it is a link that leads"
                " out of the directory of runs.",
                hint="Remove the link, or serve a directory that it stays in.",
            )


def is_inside(path: Path, directory: Path) -> bool:
    """Say whether what a path leads to lies in the directory."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(directory))


def _links(root: Path) -> Iterator[Path]:
    """Give all links below a folder, and below what they lead to."""
    waiting, seen = [root], set()
    while waiting:
        folder = waiting.pop()
        place = os.path.realpath(folder)
        if place in seen:
            continue
        seen.add(place)
        for entry in _entries(folder):
            path = folder / entry.name
            if entry.is_symlink():
                yield path
            if os.path.isdir(path) if entry.is_symlink() else entry.is_dir():
                waiting.append(path)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
