"""Keep the shares of processes at hand, so that no scrape waits until captures are decoded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from tfprobe.errors import Missing
from tfprobe.model.fleet import Shares
from tfprobe.store.layout import ProcessFolder

# Each round costs a stat for each process; how much is decoded in one is for `read` to bound.
_BETWEEN_ROUNDS_S = 1.0
# Whatever was not asked for in so many rounds is no longer looked after: scrapes are seldom.
_ROUNDS_REMEMBERED = 600
_NOT_YET = Missing("its captures have not been read yet")

Read = Callable[[ProcessFolder], Shares | Missing]


class Keeper:
    """Answers with what a thread of its own has read of the processes that were asked for."""

    def __init__(self, read: Read) -> None:
        """Take what reads the shares of a process; only the thread calls it."""
        self._read = read
        self._lock = threading.Lock()
        self._known: dict[Path, Shares | Missing] = {}
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

    def shares(self, folder: ProcessFolder) -> Shares | Missing:
        """Return what is known of a process by now."""
        with self._lock:
            self._asked[folder.root] = self._round
            return self._known.get(folder.root, _NOT_YET)

    def _work(self) -> None:
        while not self._stopping.wait(_BETWEEN_ROUNDS_S):
            for root in self._wanted():
                if self._stopping.is_set():
                    return
                self._known[root] = self._answer(root)

    def _answer(self, root: Path) -> Shares | Missing:
        try:
            return self._read(ProcessFolder(root))
        except Exception as problem:
            # A capture that nobody foresaw must not end the thread, nor the metrics of the others.
            return Missing(f"its captures cannot be read: {type(problem).__name__}: {problem}")

    def _wanted(self) -> tuple[Path, ...]:
        with self._lock:
            self._round += 1
            oldest = self._round - _ROUNDS_REMEMBERED
            self._asked = {root: at for root, at in self._asked.items() if at >= oldest}
            self._known = {root: told for root, told in self._known.items() if root in self._asked}
            return tuple(self._asked)
