"""Render what changed between two recordings: parity, the answer, then each loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from tfprobe.analysis.compare.comparison import Diff, LoopDiff
from tfprobe.analysis.compare.gate import GateVerdict
from tfprobe.analysis.compare.measurements import LEAST_BLOCKS, Change
from tfprobe.analysis.compare.op_changes import CostChange, OpChanges
from tfprobe.analysis.compare.step_changes import MEASURES, MemoryChange
from tfprobe.errors import Missing
from tfprobe.printable import printable
from tfprobe.report.format import numbers, page
from tfprobe.report.format.numbers import signed_percent
from tfprobe.report.format.page import TextColumn
from tfprobe.report.text.markdown import code, table

# What fits on a screen; --json has all.
SHOWN_LOOPS = 3
SHOWN_COSTS = 6
SHOWN_NAMES = 8
SHOWN_DIFFERENCES = 12
SIGNIFICANT = "*"
# Smaller changes of memory get no row.
_LEAST_MEMORY_RATIO = 0.02

Verdicts = Sequence[tuple[str, GateVerdict]]


def render_diff(found: Diff, verdicts: Verdicts, *, width: int, colour: bool) -> str:
    """Return the page of `tfprobe diff`."""
    return page.render(_parts(found, verdicts, width), width=width, colour=colour)


def _parts(found: Diff, verdicts: Verdicts, width: int) -> Iterator[RenderableType]:
    yield page.paragraph(answer(found), indent=0, style="bold")
    yield page.paragraph(f"A {found.before.directory}", style="dim")
    yield page.paragraph(f"B {found.after.directory}", style="dim")
    yield page.blank()
    yield from _parity(found, width)
    known = [each for each in found.loops if _can_be_compared(each)] or list(found.loops)
    for loop in known[:SHOWN_LOOPS]:
        yield page.blank()
        yield from _loop(loop, width)
    hidden = len(found.loops) - len(known[:SHOWN_LOOPS])
    if hidden:
        few = "" if len(known) > SHOWN_LOOPS else " with too few steps to compare"
        yield page.blank()
        yield page.paragraph(f"and {hidden} more kinds of step{few}; --json has them", indent=0)
    yield from _memory(found.memory, width)
    if verdicts:
        yield page.blank()
    for text in verdict_lines(verdicts):
        yield page.paragraph(text, indent=0)


def answer(found: Diff) -> str:
    """Say in a sentence whether steps got slower or faster."""
    known = [loop for loop in found.loops if isinstance(loop.steps.step, Change)]
    if not known:
        return "Step times cannot be compared: too few steps."
    changes = [text for loop in known if (text := _step_change(loop, found.judged))]
    busy = f" The load was {found.load}: only fast steps are compared." if found.load else ""
    if changes:
        return f"{' '.join(changes)}{busy}"
    return f"No significant change of step times.{_blind(known[0], found.judged)}{busy}"


def _blind(loop: LoopDiff, judged: Sequence[str]) -> str:
    """Say how large a change of the steps with the most time must be to be detected."""
    least = [
        change.least_growth_ratio
        for name, change in loop.steps.measures
        if name in judged and isinstance(change, Change)
    ]
    return f" Steps slower by less than {numbers.percent(min(least))} would not have been detected."


def _step_change(loop: LoopDiff, judged: Sequence[str]) -> str:
    """Say how the steps of a loop changed; "" if they did not."""
    changes = [
        f"the {MEASURES[name]} is {numbers.percent(abs(change.ratio))} "
        f"{'longer' if change.ratio > 0 else 'shorter'}"
        for name, change in loop.steps.measures
        if name in judged and isinstance(change, Change) and change.is_significant
    ]
    cause = "" if isinstance(loop.cause, Missing) else f" {loop.cause.sentence}"
    return f"{loop.name}: in B {', '.join(changes)}.{cause}" if changes else ""


def verdict_lines(verdicts: Verdicts) -> Iterator[str]:
    """Yield a line for each measure that the gate watches."""
    for on, verdict in verdicts:
        yield f"{verdict.label} ({on}): {verdict.why}."


def _parity(found: Diff, width: int) -> Iterator[RenderableType]:
    if not found.differences:
        text = "No known difference in program, versions, devices or settings."
        yield page.paragraph(text, indent=0)
        return
    yield page.heading("Differences between A and B")
    columns = (
        TextColumn("", is_number=False),
        TextColumn("A", is_number=False, may_be_cut=True),
        TextColumn("B", is_number=False, may_be_cut=True),
    )
    shown = found.differences[:SHOWN_DIFFERENCES]
    yield page.table(columns, [(d.of, d.before, d.after) for d in shown], width=width)
    hidden = len(found.differences) - len(shown)
    if hidden:
        yield page.paragraph(f"and {hidden} more; --json has them")


def _can_be_compared(loop: LoopDiff) -> bool:
    return isinstance(loop.steps.step, Change) or not isinstance(loop.ops, Missing)


def _loop(loop: LoopDiff, width: int) -> Iterator[RenderableType]:
    rank = "" if loop.pair.rank is None else f" · rank {loop.pair.rank}"
    renamed = f" (in B: {loop.pair.after.name})" if loop.pair.is_renamed else ""
    yield page.heading(f"{loop.name}{rank}{renamed}")
    yield from _step_times(loop, width)
    if isinstance(loop.ops, Missing):
        yield page.paragraph(f"no ops to compare: {loop.ops.reason}")
        return
    if not isinstance(loop.parts, Missing):
        yield from _costs("parts of a step", loop.parts, loop.ops, width)
    yield from _costs("types of op", loop.ops.types, loop.ops, width)
    yield from _costs("scopes", loop.ops.scopes, loop.ops, width)
    for label, names in (("Only in B", loop.ops.new), ("Only in A", loop.ops.gone)):
        if names:
            yield page.paragraph(f"{label}: {_some(names)}")


def _step_times(loop: LoopDiff, width: int) -> Iterator[RenderableType]:
    rows = [
        (MEASURES[name], *change_cells(change))
        for name, change in loop.steps.measures
        if isinstance(change, Change)
    ]
    if not rows:
        one, other = loop.pair.before.count, loop.pair.after.count
        counts = f"{numbers.count(one)} and {numbers.count(other)} steps"
        yield page.paragraph(f"{counts}: too few to decide")
        return
    confidence = next(
        change.confidence for _, change in loop.steps.measures if isinstance(change, Change)
    )
    columns = (
        TextColumn("", is_number=False),
        TextColumn("A"),
        TextColumn("B"),
        TextColumn("change"),
        TextColumn(f"{confidence * 100:.4g} % interval"),
        TextColumn("", is_number=False),
    )
    yield page.table(columns, rows, width=width)
    if any(isinstance(each, Change) and each.is_significant for _, each in loop.steps.measures):
        yield page.paragraph(f"{SIGNIFICANT} significant", style="dim")


def change_cells(change: Change) -> tuple[str, str, str, str, str]:
    """Return A, B, the change, its interval, and whether it is significant."""
    return (
        numbers.duration(change.before),
        numbers.duration(change.after),
        signed_percent(change.ratio),
        f"{signed_percent(change.low_ratio)} to {signed_percent(change.high_ratio)}",
        SIGNIFICANT if change.is_significant else "",
    )


def _costs(
    what: str, changes: Sequence[CostChange], ops: OpChanges, width: int
) -> Iterator[RenderableType]:
    if not changes:
        return
    steps = f"{ops.before_steps} and {ops.after_steps} traced steps"
    shown = [change for change in changes if change.is_significant or _is_there_once(change)]
    if min(ops.before_steps, ops.after_steps) < LEAST_BLOCKS:
        yield page.paragraph(f"{what}: too few samples to test for significance ({steps})")
        shown = list(changes)
    if not shown:
        yield page.paragraph(f"{what}: none of {len(changes)} changed significantly ({steps})")
        return
    columns = (
        TextColumn(what, is_number=False, may_be_cut=True),
        TextColumn("A"),
        TextColumn("B"),
        TextColumn("difference"),
        TextColumn("median"),
    )
    rows = [_cost(cost) for cost in shown[:SHOWN_COSTS]]
    yield page.table(columns, rows, width=width)
    if len(shown) > SHOWN_COSTS:
        yield page.paragraph(f"and {len(shown) - SHOWN_COSTS} more; --json has them")


def _is_there_once(each: CostChange) -> bool:
    return each.before_ns is None or each.after_ns is None


def _cost(each: CostChange) -> list[str]:
    sign = "+" if each.delta_ns >= 0 else ""
    return [
        each.name,
        numbers.NOTHING if each.before_ns is None else numbers.duration(each.before_ns),
        numbers.NOTHING if each.after_ns is None else numbers.duration(each.after_ns),
        f"{sign}{numbers.duration(each.delta_ns)}",
        signed_percent(each.change.ratio) if isinstance(each.change, Change) else _unsure(each),
    ]


def _unsure(each: CostChange) -> str:
    """Write a change that was not tested for significance."""
    if isinstance(each.change, Missing) and _is_there_once(each):
        return each.change.reason
    return (
        f"({signed_percent(each.delta_ns / each.before_ns)})" if each.before_ns else numbers.NOTHING
    )


def _some(names: Sequence[str]) -> str:
    more = len(names) - SHOWN_NAMES
    return ", ".join(names[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def _memory(found: Sequence[MemoryChange] | Missing, width: int) -> Iterator[RenderableType]:
    if isinstance(found, Missing):
        return
    yield page.blank()
    changed = [memory for memory in found if abs(memory.ratio) >= _LEAST_MEMORY_RATIO]
    if not changed:
        yield page.paragraph("Memory: no change of 2 % or more.", indent=0)
        return
    columns = (
        TextColumn("memory", is_number=False, may_be_cut=True),
        TextColumn("A"),
        TextColumn("B"),
        TextColumn("change"),
    )
    rows = [
        (
            memory.of,
            numbers.size(memory.before_bytes),
            numbers.size(memory.after_bytes),
            signed_percent(memory.ratio),
        )
        for memory in changed
    ]
    yield page.table(columns, rows, width=width)


SHOWN_MARKDOWN_COSTS = 15


def render_diff_markdown(found: Diff, verdicts: Verdicts) -> str:
    """Return the comparison as one Markdown document."""
    return "\n".join(map(printable, _markdown_lines(found, verdicts))) + "\n"


def _markdown_lines(found: Diff, verdicts: Verdicts) -> Iterator[str]:
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
        yield from _loop_markdown(loop)
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


def _loop_markdown(loop: LoopDiff) -> Iterator[str]:
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
            yield from _costs_markdown("part of a step", loop.parts)
        yield from _costs_markdown("type of op", loop.ops.types)
        yield from _costs_markdown("scope", loop.ops.scopes)


def _costs_markdown(what: str, changes: Sequence[CostChange]) -> Iterator[str]:
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
            cost.name,
            numbers.NOTHING if cost.before_ns is None else numbers.duration(cost.before_ns),
            numbers.NOTHING if cost.after_ns is None else numbers.duration(cost.after_ns),
            signed_percent(cost.change.ratio)
            if isinstance(cost.change, Change)
            else cost.change.reason,
        )
        for cost in shown[:SHOWN_MARKDOWN_COSTS]
    ]
    yield from table((what, "A", "B", "change"), rows, texts=1)
