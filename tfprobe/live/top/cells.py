"""Write the numbers of a line in few cells, each with its style."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tfprobe.analysis.jobs.fleet import NOT_SEEN
from tfprobe.errors import Missing
from tfprobe.profile.snapshots import Shares
from tfprobe.report.format import numbers
from tfprobe.report.format.sparkline import sparkline

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
# Recording may take 1 % of a job's time unless told otherwise; more than this is worth a look.
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
    """Write how many samples there are and, where some are asked for, how many are to come."""
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


def shares_bar(shares: Shares | Missing, width: int) -> Cell:
    """Draw where a cycle goes: before, on, after the accelerator, and the rest."""
    if isinstance(shares, Missing):
        return NOTHING
    wide = split(ratios(shares), width)
    return tuple(
        (mark * cells, style) for (_, mark, style), cells in zip(PARTS, wide, strict=True) if cells
    )


def ratios(shares: Shares) -> tuple[float, float, float, float]:
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
