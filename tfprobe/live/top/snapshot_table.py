"""Lay out a snapshot as one table, for pipes and scripts: the columns of the live page."""

from __future__ import annotations

from rich.text import Text

from tfprobe.analysis.jobs.job_totals import is_live
from tfprobe.live.top import pages
from tfprobe.live.top.columns import BY_NAME, GAP, ORDERS, Fitted, fit, order_of, shown
from tfprobe.live.top.lines import ListLine, lines, starts_open
from tfprobe.live.top.source import TopSnapshot
from tfprobe.report.format import page

# What fits below a table; --json has all.
_SHOWN_PROBLEMS = 5


def lay_out(seen: TopSnapshot, *, width: int, colour: bool) -> str:
    """Return the table as text, with every process of a run that lives."""
    order = order_of(BY_NAME[ORDERS[0]], turned_round=False)
    # Nobody can unfold a line of a table: what lives is shown whole.
    found = lines(seen, order=order, turned=_folded(seen), wanted="", live_only=False)
    fitted = fit(found, width)
    parts = [_headings(fitted), *(_line(line, fitted) for line in found)]
    problems = [
        f"{run.id}: {problem.where}: {problem.what}"
        for run in seen.runs
        for problem in run.problems
    ]
    paragraphs = [page.paragraph(text) for text in problems[:_SHOWN_PROBLEMS]]
    rest = len(problems) - len(paragraphs)
    more = [page.paragraph(f"and {rest} more problems; --json has all")] if rest else []
    head = page.heading(f"{pages.counted(seen)} · {seen.directory}")
    return page.render([head, *parts, *paragraphs, *more], width=width, colour=colour)


def _folded(seen: TopSnapshot) -> set[str]:
    return {run.directory for run in seen.runs if is_live(run.state) and not starts_open(run)}


def _headings(fitted: tuple[Fitted, ...]) -> Text:
    parts = [shown(((each.column.heading, "dim"),), each) for each in fitted]
    return _joined(parts)


def _line(line: ListLine, fitted: tuple[Fitted, ...]) -> Text:
    return _joined([shown(each.column.cell(line, each.width), each) for each in fitted])


def _joined(parts: list[tuple[tuple[str, str], ...]]) -> Text:
    text = Text(no_wrap=True, overflow="crop")
    for at, cell in enumerate(parts):
        text.append(" " * GAP if at else "")
        for part, style in cell:
            text.append(part, style=style)
    return text
