"""Lay out the lives of processes: a strip of phases each, all on one axis, and what they took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from tfprobe.analysis.steps.phases import PHASES, Life
from tfprobe.errors import Missing
from tfprobe.profile.profile import Process, titled
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import Column

# A mark for each phase, which tells it without colour, and the colour where there is one.
_MARKS: Mapping[str, tuple[str, str]] = {
    "start-up": ("·", "dim"),
    "set-up": ("-", "dim"),
    "compile": ("#", "magenta"),
    "warm-up": ("~", "yellow"),
    "steady": ("=", "green"),
    "evaluation": ("e", "cyan"),
    "checkpoint": ("c", "blue"),
    "between": ("_", "dim"),
    "end": (".", "dim"),
}
# More processes than this take a screen; --json has all.
SHOWN_PROCESSES = 8
_WIDEST_STRIP = 100
_BETWEEN = "   "

Lives = Sequence[tuple[Process, Life | Missing]]


def parts(lives: Lives, width: int) -> Iterator[RenderableType]:
    """Give the lines about the lives of processes."""
    known = [found for _, found in lives if isinstance(found, Life)]
    if not known:
        reasons = sorted({found.reason for _, found in lives if isinstance(found, Missing)})
        yield page.paragraph(f"no phases: {'; '.join(reasons)}", indent=0)
        return
    start_ns, end_ns = min(each.start_ns for each in known), max(each.end_ns for each in known)
    names = [name(each.process) for each in known]
    label = "" if len(known) == 1 else " " * (max(map(len, names[:SHOWN_PROCESSES])) + 2)
    yield page.heading(f"Phases of {numbers.duration(end_ns - start_ns)}")
    wide = min(max(width - 2 - len(label), 20), _WIDEST_STRIP)
    for each, named in zip(known[:SHOWN_PROCESSES], names, strict=False):
        strip = Text(named.ljust(len(label)) if label else "", no_wrap=True)
        yield Padding(strip.append_text(_strip(each, start_ns, end_ns, wide)), (0, 0, 0, 2))
    if len(known) > SHOWN_PROCESSES:
        yield page.paragraph(f"and {len(known) - SHOWN_PROCESSES} more; --json has them")
    yield from _totals(known[:SHOWN_PROCESSES], names, width)
    if not any(each.knows_import for each in known):
        yield page.paragraph("When TensorFlow was imported is not known: set-up is in start-up.")


def name(process: Process) -> str:
    """Name a process shortly: by its rank if it has one."""
    if process.rank is not None:
        return titled(f"{process.role or 'rank'} {process.rank}", process.title)
    return process.label


def _strip(life: Life, start_ns: int, end_ns: int, wide: int) -> Text:
    """Draw the phase that has most of each cell of the axis."""
    edges = np.linspace(start_ns, end_ns, wide + 1)
    spent = np.zeros((len(PHASES), wide))
    for each in life.segments:
        inside = np.clip(edges, each.start_ns, each.end_ns)
        spent[PHASES.index(each.phase)] += inside[1:] - inside[:-1]
    text = Text(no_wrap=True)
    for cell in spent.T:
        mark, style = _MARKS[PHASES[int(cell.argmax())]] if cell.any() else (" ", "")
        text.append(mark, style=style)
    return text


def _totals(lives: Sequence[Life], names: Sequence[str], width: int) -> Iterator[RenderableType]:
    there = [phase for phase in PHASES if any(each.total_ns(phase) for each in lives)]
    if len(lives) == 1:
        for line in _legend(lives[0], there, width - 2):
            yield Padding(line, (0, 0, 0, 2))
        return
    columns = [Column("", is_number=False), *(Column(f"{_MARKS[p][0]} {p}") for p in there)]
    rows = [
        [named, *(numbers.duration(each.total_ns(phase)) for phase in there)]
        for each, named in zip(lives, names, strict=False)
    ]
    yield page.table(columns, rows, width=width)


def _legend(life: Life, there: Sequence[str], width: int) -> Sequence[Text]:
    """Return lines of entries, each of which stays in one piece."""
    lines: list[Text] = []
    for phase in there:
        mark, style = _MARKS[phase]
        time_ns = life.total_ns(phase)
        share = numbers.percent(time_ns / life.wall_ns)
        entry = Text(mark, style=style)
        entry.append(f" {phase} {numbers.duration(time_ns)} ({share})", style="none")
        if lines and lines[-1].cell_len + len(_BETWEEN) + entry.cell_len <= width:
            lines[-1].append(_BETWEEN).append_text(entry)
        else:
            lines.append(Text().append_text(entry))
    return lines
