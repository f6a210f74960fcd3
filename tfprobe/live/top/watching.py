"""Do what may take long beside the page, so that no key ever waits for a disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from tfprobe.errors import TfprobeError
from tfprobe.live.top.source import Seen, Source

Result = TypeVar("Result")
# A slow file system is not asked again at once: between two looks lies at least as much rest.
_LEAST_REST_S = 0.1


class Watching:
    """A thread that looks again and again, and tells each look or why there is none.

    A daemon thread and none of textual's workers: those are waited for at exit, and a look at a
    hung file system would keep `q` from ending the page.
    """

    def __init__(
        self, source: Source, *, every_s: float, tell: Callable[[Seen | TfprobeError], None]
    ) -> None:
        """Take what to look with and whom to tell; `tell` is called in the thread."""
        self._source = source
        self._every_s = every_s
        self._tell = tell
        self._is_paused = False
        self._ended = False
        self._wake = threading.Event()
        self.began_s: float | None = None

    def start(self) -> None:
        """Begin to look."""
        threading.Thread(target=self._run, name="tfprobe top", daemon=True).start()

    def pause(self, is_paused: bool) -> None:
        """Look no more, or again."""
        self._is_paused = is_paused
        self._wake.set()

    def now(self) -> None:
        """Look at once."""
        self._wake.set()

    def end(self) -> None:
        """Look no more for good; what is under way is told nobody."""
        self._ended = True
        self._wake.set()

    def under_way_s(self) -> float:
        """Return for how long the look that is under way has been."""
        began_s = self.began_s
        return 0.0 if began_s is None else time.monotonic() - began_s

    def _run(self) -> None:
        while not self._ended:
            self.began_s = time.monotonic()
            if not self._is_paused:
                found = answer(self._source.look)
                if not self._ended:
                    self._tell(found)
            took_s = time.monotonic() - self.began_s
            self.began_s = None
            self._wake.wait(max(self._every_s - took_s, _LEAST_REST_S))
            self._wake.clear()


def answer(work: Callable[[], Result]) -> Result | TfprobeError:
    """Do some work; whatever goes wrong becomes an error with one paragraph."""
    try:
        return work()
    except TfprobeError as problem:
        return problem
    except Exception as problem:
        # A directory that changes under us must not end the page; the text is for a bug report.
        return TfprobeError(f"{type(problem).__name__}: {problem}.", hint="This is a bug of ours.")


def beside(
    work: Callable[[], Result], then: Callable[[Result | TfprobeError], None], *, name: str
) -> None:
    """Do some work in a thread that nobody waits for; `then` is called there."""
    threading.Thread(target=lambda: then(answer(work)), name=name, daemon=True).start()
