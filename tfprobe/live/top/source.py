"""The interface between the page and what reads run directories. Reads and draws nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from tfprobe.analysis.jobs.fleet import RunRow
from tfprobe.analysis.ops.op_stats import OpTable
from tfprobe.errors import Missing, TfprobeError
from tfprobe.findings.finding import Finding

# Called with (done, all) while captures are read.
Watch = Callable[[int, int], None]


class Key(NamedTuple):
    """Which line is meant, however lines move: a run directory, and a process folder or ""."""

    directory: str
    host: str = ""
    folder: str = ""


@dataclass(frozen=True, slots=True)
class TopSnapshot:
    """A snapshot: where, when, and the rows of all runs, newest first."""

    directory: str
    at_unix_ns: int
    runs: tuple[RunRow, ...]


@dataclass(frozen=True, slots=True)
class Noted:
    """An entry in the log of a process: a traced step, one that was declined, an error ..."""

    at_unix_ns: int
    what: str
    text: str


class TopSource(Protocol):
    """Where the page gets what it shows. Each may take long, and is called in a thread of its own.

    All raise TfprobeError where there is no answer; the page shows its text.
    """

    def look(self) -> TopSnapshot:
        """Return a snapshot of all runs."""

    def ops(self, key: Key, watch: Watch) -> OpTable | Missing:
        """Return the ops of the latest captures of a process."""

    def findings(self, key: Key, watch: Watch) -> Sequence[Finding]:
        """Return the findings about a process, the most important first."""

    def notes(self, key: Key, watch: Watch) -> Sequence[Noted]:
        """Return the log of a process, oldest first."""

    def sample(self, key: Key, steps: int) -> Sequence[str]:
        """Request traces of a process, or of all of a run; return sentences about the answers."""

    def report(self, directory: str, width: int, watch: Watch) -> str:
        """Return the report of a run as text with the escape codes of colours."""


Result = TypeVar("Result")
# Pause at least this long between two snapshots, so that a slow file system gets a rest.
_LEAST_REST_S = 0.1


class Watching:
    """A thread that makes snapshots, and hands on each, or the reason why there is none.

    A daemon thread, not a worker of textual: those are waited for at exit, so a hung file system
    would keep `q` from ending the page.
    """

    def __init__(
        self,
        source: TopSource,
        *,
        every_s: float,
        tell: Callable[[TopSnapshot | TfprobeError], None],
    ) -> None:
        """Take what makes snapshots and what receives them; `tell` is called in the thread."""
        self._source = source
        self._every_s = every_s
        self._tell = tell
        self._is_paused = False
        self._ended = False
        self._wake = threading.Event()
        self.began_s: float | None = None

    def start(self) -> None:
        """Start."""
        threading.Thread(target=self._run, name="tfprobe top", daemon=True).start()

    def pause(self, is_paused: bool) -> None:
        """Pause or continue."""
        self._is_paused = is_paused
        self._wake.set()

    def now(self) -> None:
        """Make a snapshot at once."""
        self._wake.set()

    def end(self) -> None:
        """End; the snapshot under way is dropped."""
        self._ended = True
        self._wake.set()

    def under_way_s(self) -> float:
        """Return for how long the snapshot under way has taken."""
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


def answer(loop: Callable[[], Result]) -> Result | TfprobeError:
    """Call it; any failure becomes an error of one paragraph."""
    try:
        return loop()
    except TfprobeError as problem:
        return problem
    except Exception as problem:
        # A directory that changes under us must not end the page; the text is for a bug report.
        return TfprobeError(
            f"{type(problem).__name__}: {problem}.", hint="This is a bug in tfprobe."
        )


def in_background(
    loop: Callable[[], Result], then: Callable[[Result | TfprobeError], None], *, name: str
) -> None:
    """Call it in a daemon thread; `then` is called there with the result."""
    threading.Thread(target=lambda: then(answer(loop)), name=name, daemon=True).start()
