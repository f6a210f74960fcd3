"""Keep at hand where the time of processes goes: no scrape waits until captures are decoded."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tfprobe.errors import Missing
from tfprobe.profile.snapshots import TimeUse
from tfprobe.runs.layout import ProcessFolder

# Each round costs a stat for each process; how much is decoded in one is for `read` to bound.
_BETWEEN_ROUNDS_S = 1.0
# Whatever was not asked for in so many rounds is no longer looked after: scrapes are seldom.
_ROUNDS_REMEMBERED = 600
_UNREAD = Missing("its captures have not been read yet")
_NOT_YET = TimeUse(_UNREAD, _UNREAD)

Read = Callable[[ProcessFolder], TimeUse]


class Keeper:
    """Answers with what a thread of its own has read of the processes that were asked for."""

    def __init__(self, read: Read, is_worth_it: Callable[[ProcessFolder], bool]) -> None:
        """Take what reads the time use of a process, and what says whether to, for the thread."""
        self._read = read
        self._is_worth_it = is_worth_it
        self._lock = threading.Lock()
        self._known: dict[Path, TimeUse] = {}
        self._asked: dict[Path, int] = {}
        self._round = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="shares", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End, at the next process."""
        self._stopping.set()
        self._thread.join()

    def time_use(self, folder: ProcessFolder) -> TimeUse:
        """Return what is known of a process by now."""
        with self._lock:
            self._asked[folder.root] = self._round
            return self._known.get(folder.root, _NOT_YET)

    def _work(self) -> None:
        while not self._stopping.wait(_BETWEEN_ROUNDS_S):
            for folder in map(ProcessFolder, self._wanted()):
                if self._stopping.is_set():
                    return
                if self._is_worth_it(folder):
                    self._known[folder.root] = self._answer(folder)

    def _answer(self, folder: ProcessFolder) -> TimeUse:
        try:
            return self._read(folder)
        except Exception as problem:
            # A capture that nobody foresaw must not end the thread, nor the metrics of the others.
            why = Missing(f"its captures cannot be read: {type(problem).__name__}: {problem}")
            return TimeUse(why, why)

    def _wanted(self) -> tuple[Path, ...]:
        with self._lock:
            self._round += 1
            oldest = self._round - _ROUNDS_REMEMBERED
            self._asked = {root: at for root, at in self._asked.items() if at >= oldest}
            self._known = {root: told for root, told in self._known.items() if root in self._asked}
            return tuple(self._asked)


def is_recent(folder: ProcessFolder, *, within_s: float) -> bool:
    """Say whether a process has written something lately: a directory may hold runs of months.

    One that steps writes pulses, one that samples captures, each its manifest.
    """
    signs = (folder.pulses, folder.captures, folder.manifest)
    return time.time() - max(map(_changed_s, signs)) <= within_s


def _changed_s(path: Path) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
