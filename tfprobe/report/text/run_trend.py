"""Lay out the runs of one job over time."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from tfprobe.analysis.compare.change_cause import Cause, Whose
from tfprobe.analysis.compare.run_trend import TrendRow
from tfprobe.errors import Missing
from tfprobe.report.diff.diff import signed
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import Column

_MINUTES = len("2026-11-20 20:15")


def lay_out(rows: Sequence[TrendRow], others: int, *, width: int, colour: bool) -> str:
    """Return the page; `others` is how many more jobs there are."""
    return page.render(_parts(rows, others, width), width=width, colour=colour)


def _parts(rows: Sequence[TrendRow], others: int, width: int) -> Iterator[RenderableType]:
    newest = rows[-1].run
    named = not isinstance(newest.name, Missing)
    command = "?" if isinstance(newest.command, Missing) else shlex.join(newest.command)
    yield page.heading(f"{newest.name}: {command}" if named else command)
    columns = (
        Column("started", is_number=False),
        Column("host", is_number=False, may_go=True),
        Column("Python", is_number=False, may_go=True),
        Column("TensorFlow", is_number=False, may_go=True),
        Column("steps"),
        Column("step p50"),
        Column("goodput"),
        Column("change"),
        Column("whose", is_number=False),
        Column("run", is_number=False, may_be_cut=True),
    )
    cells = [_row(row) for row in rows]
    yield page.table(columns, cells, width=width)
    yield page.paragraph("change: from the run before; ~ within what the two recordings scatter")
    if others:
        jobs = "job" if others == 1 else "jobs"
        more = f"and {others} more {jobs}: choose with --name, --tag or --command"
        yield page.paragraph(more, indent=0)


def _row(row: TrendRow) -> tuple[str, ...]:
    started = row.run.started
    step_ns, goodput = row.step_p50_ns, row.goodput_ratio
    return (
        "?" if isinstance(started, Missing) else started.replace("T", " ")[:_MINUTES],
        _text(row.run.host),
        _text(row.python),
        _text(row.tensorflow),
        numbers.count(row.run.steps),
        numbers.NOTHING if isinstance(step_ns, Missing) else numbers.duration(step_ns),
        numbers.NOTHING if isinstance(goodput, Missing) else numbers.percent(goodput),
        _change(row),
        _whose(row),
        row.run.id,
    )


def _text(value: str | Missing) -> str:
    return numbers.NOTHING if isinstance(value, Missing) else value


def _change(row: TrendRow) -> str:
    if isinstance(row.change, Missing):
        return numbers.NOTHING
    return f"{'' if row.change.is_significant else '~'}{signed(row.change.ratio)}"


def _whose(row: TrendRow) -> str:
    if isinstance(row.change, Missing) or not isinstance(row.change.cause, Cause):
        return ""
    whose = row.change.cause.whose
    return "cannot be told" if whose is Whose.UNKNOWN else whose.value
