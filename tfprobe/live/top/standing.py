"""Say in a word how a process stands: runs, stopped, makes no steps, has ended."""

from __future__ import annotations

from dataclasses import dataclass

from tfprobe.analysis.jobs.fleet import ProcessRow, RunRow
from tfprobe.errors import Missing

# An epoch's end, an evaluation or a save often take seconds; a person begins to wonder after this.
QUIET_NS = 10_000_000_000
# And jobs whose steps take long by nature are quiet only after as many of them.
QUIET_STEPS = 5

# State -> a mark, so that it can be told without colour, and its style.
_MARKS = {
    "running": ("●", "green"),
    "stopped": ("‖", "yellow"),
    "finished": ("✓", "dim"),
    "failed": ("✗", "red"),
    "terminated": ("■", "dim"),
    "replaced": ("↻", "dim"),
    "killed": ("✗", "red"),
    "unknown": ("?", "dim"),
}
_QUIET = ("◌", "bold yellow")
_STARTING = ("◌", "cyan")


@dataclass(frozen=True, slots=True)
class Standing:
    """A mark, a word and, of what takes its time, for how long; and the style of all."""

    mark: str
    word: str
    style: str
    since: str = ""

    def told(self, width: int) -> str:
        """Return it in at most so many cells, without the time where that does not fit."""
        short = f"{self.mark} {self.word}"
        whole = f"{short} {self.since}".rstrip()
        return whole if len(whole) <= width else short


def standing(run: RunRow, row: ProcessRow | Missing, at_unix_ns: int) -> Standing:
    """Return how a line stands at a moment: `row` is its process, or all of the run together."""
    state = run.state if isinstance(row, Missing) else row.state
    if state == "running" and (isinstance(row, Missing) or not row.steps):
        started = run.started_unix_ns if isinstance(row, Missing) else row.started_unix_ns
        return _timed(_STARTING, "starting", _since(started, at_unix_ns))
    if state == "running" and not isinstance(row, Missing) and is_quiet(row):
        return _timed(_QUIET, "no step", row.since_last_step_ns)
    mark, style = _MARKS.get(state, _MARKS["unknown"])
    return Standing(mark, state, style)


def is_quiet(row: ProcessRow) -> bool:
    """Say whether no step has come for longer than this process's steps explain."""
    if row.state != "running" or isinstance(row.since_last_step_ns, Missing):
        return False
    usual_ns = 0.0 if isinstance(row.p95_ns, Missing) else row.p95_ns
    return row.since_last_step_ns > max(QUIET_NS, QUIET_STEPS * usual_ns)


def short_time(time_ns: float) -> str:
    """Write a time in at most four cells, whole units: 45s, 12m, 3h, 5d."""
    seconds = int(time_ns / 1e9)
    for unit, size_s in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size_s:
            return f"{seconds // size_s}{unit}"
    return f"{max(seconds, 0)}s"


def _timed(look: tuple[str, str], word: str, time_ns: float | Missing) -> Standing:
    mark, style = look
    return Standing(mark, word, style, "" if isinstance(time_ns, Missing) else short_time(time_ns))


def _since(started_unix_ns: int | Missing, at_unix_ns: int) -> int | Missing:
    if isinstance(started_unix_ns, Missing):
        return started_unix_ns
    return max(at_unix_ns - started_unix_ns, 0)
