"""Write the numbers of a line in few cells, each with its style."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tfprobe.analysis.jobs.fleet import NOT_SEEN, ProcessRow, RunRow
from tfprobe.errors import Missing
from tfprobe.profile.snapshots import LoopShares
from tfprobe.report.format import numbers
from tfprobe.report.format.page import sparkline

# Texts of one cell of a table, each with a style of rich.
Cell = tuple[tuple[str, str], ...]
Known = TypeVar("Known", int, float)

NOTHING: Cell = ((numbers.NOTHING, "dim"),)
# Part of a cycle -> what draws it: a texture, since colour may not be there, and a style.
PARTS = (
    ("before", "░", "yellow"),
    ("on", "█", "green"),
    ("after", "▒", "magenta"),
    ("other", "·", "dim"),
)
# A process whose slow steps take twice the usual is worth a look.
UNEVEN_RATIO = 2.0
# The default budget of recording is 1 % of the time; more than this is worth a look.
DEAR_RATIO = 0.03
_LONG_NS = 600e9
_HOUR_S = 3600
_MINUTE_S = 60
_DAY_S = 86_400


def known(value: Known | Missing, write: Callable[[Known], str], style: str = "") -> Cell:
    """Write a value, or a dash."""
    return NOTHING if isinstance(value, Missing) else ((write(value), style),)


def known_text(value: str | Missing) -> Cell:
    """Write a text, or a dash."""
    return NOTHING if isinstance(value, Missing) else ((value, ""),)


def per_second(rate: float) -> str:
    """Write a rate in at most six cells: 0.25, 28.3, 1,234, 12.3k."""
    if rate >= 9_999.5:
        return f"{rate / 1e3:.1f}k" if rate < 99_950 else f"{rate / 1e3:.0f}k"
    if rate >= 99.95:
        return f"{rate:,.0f}"
    if rate >= 9.995:
        return f"{rate:.1f}"
    if 0 < rate < 0.005:
        return "<0.01"
    return f"{rate:.2f}" if rate else "0"


def step_time(time_ns: float) -> str:
    """Write a time in at most seven cells: 35.0 ms, 12 min."""
    return numbers.duration(time_ns) if time_ns < _LONG_NS else age(time_ns)


def age(time_ns: float) -> str:
    """Write how long ago in at most seven cells: 45 s, 12 min, 3.2 h, 5.1 d."""
    seconds = max(time_ns, 0) / 1e9
    if seconds < _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    return f"{seconds / _HOUR_S:.1f} h" if seconds < _DAY_S else f"{seconds / _DAY_S:.1f} d"


def cores(used: float) -> str:
    """Write how many CPUs are busy: 0.45, 12.3."""
    return f"{used:.2f}" if used < 9.995 else f"{used:.1f}"


def whole_percent(ratio: float) -> str:
    """Write a share without decimals: 87 %."""
    return f"{ratio * 100:.0f} %"


def slow_steps(p95_ns: float | Missing, p50_ns: float | Missing) -> Cell:
    """Write a p95, and mark it where steps differ much."""
    uneven = (
        not isinstance(p95_ns, Missing)
        and not isinstance(p50_ns, Missing)
        and p95_ns > UNEVEN_RATIO * p50_ns
    )
    return known(p95_ns, step_time, "yellow" if uneven else "")


def overhead(ratio: float | Missing) -> Cell:
    """Write what recording costs, and mark it where that is much."""
    dear = not isinstance(ratio, Missing) and ratio > DEAR_RATIO
    return known(ratio, numbers.percent, "yellow" if dear else "")


def samples(captures: int, left: int | Missing) -> Cell:
    """Write how many traces there are and, if more are requested, how many are to come."""
    done = (numbers.count(captures), "")
    if left == NOT_SEEN:
        return (done, ("+?", "bold cyan"))
    if isinstance(left, Missing) or left <= 0:
        return (done,)
    return (done, (f"+{left}", "bold cyan"))


def trend(times_ns: Sequence[float] | Missing, width: int) -> Cell:
    """Draw the latest step times, newest last: half height is the usual one, full height twice it.

    Drawn between least and most, the noise of a steady job would look like trouble.
    """
    if isinstance(times_ns, Missing) or not times_ns:
        return NOTHING
    latest = times_ns[-width:]
    usual_ns = sorted(latest)[len(latest) // 2]
    return ((sparkline(latest, width=width, least=0, most=2 * usual_ns or 1), "cyan"),)


def shares_bar(shares: LoopShares | Missing, width: int) -> Cell:
    """Draw where a cycle goes: before, on, after the accelerator, and the rest."""
    if isinstance(shares, Missing):
        return NOTHING
    wide = split(ratios(shares), width)
    return tuple(
        (mark * cells, style) for (_, mark, style), cells in zip(PARTS, wide, strict=True) if cells
    )


def ratios(shares: LoopShares) -> tuple[float, float, float, float]:
    """Return the four shares in the order of PARTS."""
    return shares.before_ratio, shares.on_ratio, shares.after_ratio, shares.other_ratio


def split(parts: Sequence[float], width: int) -> list[int]:
    """Divide `width` cells by the largest remainders, so that they sum to it."""
    whole = sum(parts) or 1
    exact = [max(part, 0) / whole * width for part in parts]
    cells = [int(part) for part in exact]
    most_lost = sorted(range(len(parts)), key=lambda at: cells[at] - exact[at])
    for at in most_lost[: width - sum(cells)]:
        cells[at] += 1
    return cells


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

    def text(self, width: int) -> str:
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
