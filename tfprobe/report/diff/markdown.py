"""Write what changed as Markdown, for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfprobe.analysis.compare.comparison import Diff, LoopDiff
from tfprobe.analysis.compare.measurements import Change
from tfprobe.analysis.compare.op_changes import CostChange, OpChanges
from tfprobe.analysis.compare.step_changes import MEASURES
from tfprobe.errors import Missing
from tfprobe.printable import printable
from tfprobe.report.diff.text import Verdicts, answer, change_cells, verdict_lines
from tfprobe.report.format import numbers
from tfprobe.report.format.numbers import signed_percent
from tfprobe.report.text.markdown import code, table

SHOWN_COSTS = 15


def lay_out(found: Diff, verdicts: Verdicts) -> str:
    """Return the comparison as one Markdown document."""
    return "\n".join(map(printable, _lines(found, verdicts))) + "\n"


def _lines(found: Diff, verdicts: Verdicts) -> Iterator[str]:
    yield f"# {answer(found)}"
    yield ""
    yield f"A is {code(found.before.id)}, B is {code(found.after.id)}."
    for text in verdict_lines(verdicts):
        yield from ("", f"**{text}**")
    if found.differences:
        yield from ("", "## Differences between A and B", "")
        rows = [
            (difference.of, difference.before, difference.after) for difference in found.differences
        ]
        yield from table(("", "A", "B"), rows, texts=3)
    for loop in found.loops:
        yield from _loop(loop)
    if not isinstance(found.memory, Missing):
        yield from ("", "## Memory", "")
        sizes = [
            (
                m.of,
                numbers.size(m.before_bytes),
                numbers.size(m.after_bytes),
                signed_percent(m.ratio),
            )
            for m in found.memory
        ]
        yield from table(("", "A", "B", "change"), sizes, texts=1)


def _loop(loop: LoopDiff) -> Iterator[str]:
    yield from ("", f"## {loop.name}", "")
    rows = [
        (MEASURES[name], *change_cells(change))
        for name, change in loop.steps.measures
        if isinstance(change, Change)
    ]
    if rows:
        yield from table(("", "A", "B", "change", "interval", ""), rows, texts=1)
    else:
        yield "Too few steps to decide."
    if isinstance(loop.ops, OpChanges):
        if not isinstance(loop.parts, Missing):
            yield from _costs("part of a step", loop.parts)
        yield from _costs("type of op", loop.ops.types)
        yield from _costs("scope", loop.ops.scopes)


def _costs(what: str, changes: Sequence[CostChange]) -> Iterator[str]:
    shown = [
        change
        for change in changes
        if change.is_significant or change.before_ns is None or change.after_ns is None
    ]
    if not shown:
        return
    yield ""
    rows = [
        (
            each.name,
            numbers.NOTHING if each.before_ns is None else numbers.duration(each.before_ns),
            numbers.NOTHING if each.after_ns is None else numbers.duration(each.after_ns),
            signed_percent(each.change.ratio)
            if isinstance(each.change, Change)
            else each.change.reason,
        )
        for each in shown[:SHOWN_COSTS]
    ]
    yield from table((what, "A", "B", "change"), rows, texts=1)
