"""Render what changed between two sides of several runs, as a page and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from tfprobe.analysis.compare.several_runs import RunsChange
from tfprobe.analysis.compare.sides import RUN_MEASURES, LoopSides, SideCosts, Sides, SidesAnswer
from tfprobe.printable import printable
from tfprobe.report.diff.pair import SHOWN_COSTS, SHOWN_LOOPS, Verdicts, verdict_lines
from tfprobe.report.format import numbers, page
from tfprobe.report.format.numbers import signed_percent
from tfprobe.report.format.page import TextColumn
from tfprobe.report.text.markdown import code, table

_JUDGED, _SIGNIFICANT = "judged", "*"
_TITLES = {"parts": "parts of a step", "ops": "types of op"}
_HEAD = ("", "A", "B", "change", "interval", "")
# An interval that reaches beyond this says that nothing is known.
_MOST_RATIO = 10.0


def render_sides(found: Sides, verdicts: Verdicts, *, width: int, colour: bool) -> str:
    """Return the page of `tfprobe diff` for several runs a side."""
    return page.render(_parts(found, verdicts, width), width=width, colour=colour)


def render_sides_markdown(found: Sides, verdicts: Verdicts) -> str:
    """Return the comparison as one Markdown document."""
    return "\n".join(map(printable, _lines(found, verdicts))) + "\n"


def answer(found: Sides) -> str:
    """Say whether steps got slower or faster by more than runs vary, in a few sentences."""
    judged = [loop for loop in found.loops if loop.judged]
    answers = [_answer(loop) for loop in judged]
    return " ".join([*answers, *_notes(found)])


def _answer(loop: LoopSides) -> str:
    changes = [change for _, change in loop.verdicts]
    if not changes:
        return f"{loop.name}: unknown, because not all runs have enough steps."
    if loop.answer is SidesAnswer.NO_CHANGE:
        least = numbers.percent(max(change.least_ratio for change in changes))
        return f"{loop.name}: no change; one of {least} would have been detected."
    if loop.answer is SidesAnswer.UNKNOWN:
        seen = " or ".join(
            f"{numbers.percent(change.least_ratio)} of the {RUN_MEASURES[name]}"
            for name, change in loop.verdicts
        )
        return f"{loop.name}: unknown, because the runs vary: only {seen} would be detected."
    changed = [
        f"the {RUN_MEASURES[name]} is {numbers.percent(abs(change.ratio))} "
        f"{'more' if change.ratio > 0 else 'less'}"
        for name, change in loop.decisive
    ]
    return f"{loop.name}: B is {loop.answer.value}, {', '.join(changed)}."


def _notes(found: Sides) -> Iterator[str]:
    if found.load:
        yield f"The load was {found.load}: only fast steps and CPU time are compared."
    if not found.is_in_turns:
        yield (
            "The sides were recorded one after the other, so changes of the machine count as "
            "changes of the program: alternate the sides."
        )


def _parts(found: Sides, verdicts: Verdicts, width: int) -> Iterator[RenderableType]:
    yield page.paragraph(answer(found), indent=0, style="bold")
    for side, runs in (("A", found.before), ("B", found.after)):
        for run in runs:
            yield page.paragraph(f"{side} {run.directory}", style="dim")
    if found.differences:
        yield page.blank()
        yield page.heading("Differences between the first runs of A and B")
        columns = [
            TextColumn(name, is_number=False, may_be_cut=bool(name)) for name in ("", "A", "B")
        ]
        rows = [
            (difference.of, difference.before, difference.after) for difference in found.differences
        ]
        yield page.table(columns, rows, width=width)
    for loop in found.loops[:SHOWN_LOOPS]:
        yield page.blank()
        yield from _loop(loop, width)
    if len(found.loops) > SHOWN_LOOPS:
        yield page.blank()
        more = len(found.loops) - SHOWN_LOOPS
        yield page.paragraph(f"and {more} more kinds of step; --json has them", indent=0)
    if verdicts:
        yield page.blank()
    for text in verdict_lines(verdicts):
        yield page.paragraph(text, indent=0)


def _loop(loop: LoopSides, width: int) -> Iterator[RenderableType]:
    rank = "" if loop.rank is None else f" · rank {loop.rank}"
    yield page.heading(f"{loop.name}{rank}")
    rows = _measure_rows(loop)
    if not rows:
        yield page.paragraph("not all runs have enough steps to compare")
    else:
        yield page.table(_columns("", rows_of=loop), rows, width=width)
    for costs in (loop.parts, loop.ops):
        if costs.changes:
            yield page.table(_columns(_TITLES[costs.of]), _cost_rows(costs), width=width)
    yield page.paragraph(f"{_SIGNIFICANT} more than runs vary", style="dim")


def _columns(first: str, rows_of: LoopSides | None = None) -> Sequence[TextColumn]:
    confidence = next(
        (
            c.confidence
            for _, c in (rows_of.measures if rows_of else ())
            if isinstance(c, RunsChange)
        ),
        None,
    )
    interval = "interval" if confidence is None else f"{confidence * 100:.4g} % interval"
    return (
        TextColumn(first, is_number=False, may_be_cut=True),
        TextColumn("A"),
        TextColumn("B"),
        TextColumn("change"),
        TextColumn(interval),
        TextColumn("", is_number=False),
    )


def _measure_rows(loop: LoopSides) -> list[tuple[str, ...]]:
    return [
        (RUN_MEASURES[name], *_cells(change), _mark(change, is_judged=name in loop.judged))
        for name, change in loop.measures
        if isinstance(change, RunsChange)
    ]


def _cost_rows(costs: SideCosts) -> list[tuple[str, ...]]:
    return [(name, *_cells(change), _mark(change)) for name, change in costs.changes[:SHOWN_COSTS]]


def _cells(change: RunsChange) -> tuple[str, str, str, str]:
    interval = (
        "not known"
        if change.high_ratio > _MOST_RATIO
        else f"{signed_percent(change.low_ratio)} to {signed_percent(change.high_ratio)}"
    )
    return (
        numbers.duration(change.before),
        numbers.duration(change.after),
        signed_percent(change.ratio),
        interval,
    )


def _mark(change: RunsChange, *, is_judged: bool = False) -> str:
    marks = [_SIGNIFICANT] if change.is_significant else []
    return " ".join([*marks, *([_JUDGED] if is_judged else [])])


def _lines(found: Sides, verdicts: Verdicts) -> Iterator[str]:
    yield f"# {answer(found)}"
    for side, runs in (("A", found.before), ("B", found.after)):
        yield from ("", f"{side} is {', '.join(code(run.id) for run in runs)}.")
    for text in verdict_lines(verdicts):
        yield from ("", f"**{text}**")
    if found.differences:
        yield from ("", "## Differences between the first runs of A and B", "")
        rows = [
            (difference.of, difference.before, difference.after) for difference in found.differences
        ]
        yield from table(("", "A", "B"), rows, texts=3)
    for loop in found.loops:
        yield from ("", f"## {loop.name}", "")
        yield from table(_HEAD, _measure_rows(loop), texts=1)
        for costs in (loop.parts, loop.ops):
            if costs.changes:
                yield ""
                yield from table((_TITLES[costs.of], *_HEAD[1:]), _cost_rows(costs), texts=1)
