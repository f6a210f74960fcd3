"""Say what the page asks of whoever reads run directories. Nothing here reads or draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tfprobe.analysis.jobs.fleet import RunRow
from tfprobe.analysis.ops.op_totals import OpTable
from tfprobe.errors import Missing
from tfprobe.findings.finding import Finding

# Told (done, all) of the captures that are being read.
Watch = Callable[[int, int], None]


class Key(NamedTuple):
    """Which line is meant, however lines move: a run directory, and a process folder or ""."""

    directory: str
    host: str = ""
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """One look: where, when, and the rows of all runs, newest first."""

    directory: str
    at_unix_ns: int
    runs: tuple[RunRow, ...]


@dataclass(frozen=True, slots=True)
class Noted:
    """Something that a process noted: a sample, one that was declined, an error ..."""

    at_unix_ns: int
    what: str
    told: str


class Source(Protocol):
    """Where the page gets what it shows. Each may take long, and is called in a thread of its own.

    All raise TfprobeError where there is no answer; the page shows its text.
    """

    def look(self) -> Seen:
        """Return how all runs stand now."""

    def ops(self, key: Key, watch: Watch) -> OpTable | Missing:
        """Return the ops of the latest captures of a process."""

    def findings(self, key: Key, watch: Watch) -> Sequence[Finding]:
        """Return what could be faster in a process, the most important first."""

    def notes(self, key: Key, watch: Watch) -> Sequence[Noted]:
        """Return what a process noted, oldest first."""

    def sample(self, key: Key, steps: int) -> Sequence[str]:
        """Ask a process, or all of a run, to record its next steps; return who answered what."""

    def report(self, directory: str, width: int, watch: Watch) -> str:
        """Return the report of a run as text with the escape codes of colours."""
