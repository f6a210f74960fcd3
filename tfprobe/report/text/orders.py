"""Lay out what became of an order for samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import RenderableType

from tfprobe.errors import Missing
from tfprobe.profile.profile import titled
from tfprobe.profile.snapshots import Answer, Captured, ProcessAnswer
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import Column

_COLUMNS = (
    Column("host", is_number=False, may_be_cut=True),
    Column("pid"),
    Column("state", is_number=False),
    Column("answer", is_number=False),
    Column("captures"),
    Column("steps", is_number=False, may_be_cut=True),
)
_PROGRAM = Column("program", is_number=False, may_be_cut=True)
_STANDS = "The order stands: whoever has not answered takes it with its next step."


def lay_out(
    run: str, steps: int, answers: Sequence[ProcessAnswer], *, width: int, colour: bool
) -> str:
    """Return one line for each process, and below them why it is not all that was ordered."""
    columns = list(_COLUMNS)
    rows = [_row(answer) for answer in answers]
    if _has_programs(answers):
        columns.insert(2, _PROGRAM)
        for row, answer in zip(rows, answers, strict=True):
            row.insert(2, answer.program)
    parts: list[RenderableType] = [
        page.heading(f"Run {run}: the next {numbers.count(steps)} step{'s' * (steps != 1)}"),
        page.table(columns, rows, width=width),
    ]
    parts += [page.paragraph(text) for text in reasons(answers)]
    if any(answer.answer is Answer.NONE for answer in answers):
        parts.append(page.paragraph(_STANDS))
    return page.render(parts, width=width, colour=colour)


def reasons(answers: Sequence[ProcessAnswer]) -> Iterator[str]:
    """Give why something is lacking, each reason once, with those it holds for."""
    has_programs = _has_programs(answers)
    names: dict[str, list[str]] = {}
    for answer in answers:
        if not isinstance(answer.why, Missing):
            pid = _pid(answer)
            name = titled(f"pid {pid}", answer.program) if has_programs else pid
            names.setdefault(answer.why, []).append(name)
    for why, holders in names.items():
        yield f"{', '.join(holders)}: {why}"


def _has_programs(answers: Sequence[ProcessAnswer]) -> bool:
    """Say whether what they run tells some of the processes apart."""
    return len({answer.program for answer in answers}) > 1


def _row(answer: ProcessAnswer) -> list[str]:
    return [
        answer.host,
        _pid(answer),
        answer.state,
        answer.answer.value,
        f"{numbers.count(len(answer.captures))} of {numbers.count(answer.samples)}"
        if answer.samples
        else "-",
        _steps(answer.captures),
    ]


def _pid(answer: ProcessAnswer) -> str:
    return answer.process if isinstance(answer.pid, Missing) else str(answer.pid)


def _steps(captures: Sequence[Captured]) -> str:
    """Write the steps as ranges, and of which work they are where there are several."""
    works = sorted({capture.work for capture in captures})
    each = {work: _ranges(sorted(c.step for c in captures if c.work == work)) for work in works}
    if len(works) < 2:
        return "".join(each.values())
    return "; ".join(f"work {work}: {text}" for work, text in each.items())


def _ranges(steps: Sequence[int]) -> str:
    """Write 5, 6, 7, 9 as 5-7, 9."""
    runs = []
    for _, group in groupby(enumerate(steps), key=lambda pair: pair[1] - pair[0]):
        row = [step for _, step in group]
        runs.append(str(row[0]) if len(row) == 1 else f"{row[0]}-{row[-1]}")
    return ", ".join(runs)
