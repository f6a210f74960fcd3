"""Render where the cycle of a step goes: the answer first, then the parts, then the causes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import RenderableType

from tfprobe.analysis.breakdown.cycles import DOES, Breakdown, LoopParts, StepParts, bottleneck
from tfprobe.analysis.breakdown.gap_breakdown import GapCause
from tfprobe.analysis.breakdown.step_parts import GROUPS, LABELS, Part
from tfprobe.errors import Missing
from tfprobe.profile.profile import Process
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import TextColumn

_BAR_WIDTH = 20
# Parts with a smaller share of a cycle are not named; --json has all.
_SHOWN_RATIO = 0.001
SHOWN_CAUSES = 5
SHOWN_LOOPS = 4
SHOWN_STEPS = 20


def render_breakdown(
    loops: Sequence[LoopParts],
    processes: Sequence[Process],
    *,
    width: int,
    colour: bool,
    each_step: bool = False,
) -> str:
    """Return the page of `tfprobe breakdown`: loops with the most time first."""
    return page.render(_parts(loops, processes, width, each_step), width=width, colour=colour)


def _parts(
    loops: Sequence[LoopParts], processes: Sequence[Process], width: int, each_step: bool
) -> Iterator[RenderableType]:
    for at, loop in enumerate(loops if each_step else loops[:SHOWN_LOOPS]):
        if at:
            yield page.blank()
        yield page.heading(title(loop, processes))
        yield page.paragraph(answer(loop.shares))
        yield shares_table(loop.shares, width=width)
        yield from causes(loop, most=SHOWN_CAUSES, width=width)
        if each_step:
            yield page.blank()
            yield _steps_table(loop.steps, width=width)
    hidden = len(loops) - SHOWN_LOOPS
    if hidden > 0 and not each_step:
        yield page.paragraph(f"and {hidden} more kinds of step; --steps shows all", indent=0)


def title(item: LoopParts, processes: Sequence[Process] = ()) -> str:
    """Return the name of a loop and the mean times of its cycle, in one line."""
    loop = item.loop
    name = "Steps" if isinstance(loop, Missing) else f"{loop.kind} {loop.name}"
    if len(processes) > 1 and not isinstance(loop, Missing):
        name += f", {processes[loop.process].place}"
    times = f"{numbers.duration(item.step_ns)} a step"
    between_ns = item.between_ns
    if not isinstance(between_ns, Missing):
        times += f" and {numbers.duration(between_ns)} to the next"
    count = "1 traced step" if len(item.steps) == 1 else f"{len(item.steps)} traced steps"
    return f"{name}: {times}, mean of {count}"


def answer(shares: Mapping[Part, float]) -> str:
    """Return what most of a cycle is spent on, and what comes next, in one sentence."""
    largest = bottleneck(shares).shares
    if not largest:
        return "The traced steps took no time."
    bound, share = largest[0]
    text = f"{numbers.percent(share)} of the time it {DOES[bound]}"
    others = [
        f"{numbers.percent(share)} it {DOES[bound]}"
        for bound, share in largest[1:3]
        if share >= 0.01
    ]
    return "; ".join([text, *others]) + "."


def shares_table(shares: Mapping[Part, float], *, width: int) -> RenderableType:
    """Return a table of the groups before, on, after and other, with their parts."""
    rows = []
    for name, parts in GROUPS.items():
        total = sum(shares.get(part, 0.0) for part in parts)
        largest_first = sorted(
            ((shares.get(part, 0.0), part) for part in parts), key=lambda item: -item[0]
        )
        of_which = [
            f"{LABELS[part]} {numbers.percent(share)}"
            for share, part in largest_first
            if share >= _SHOWN_RATIO
        ]
        bar = "█" * round(total * _BAR_WIDTH)
        rows.append((name, numbers.percent(total), bar, ", ".join(of_which)))
    columns = (
        TextColumn("", is_number=False),
        TextColumn("share"),
        TextColumn("", is_number=False, may_go=True),
        TextColumn("of which", is_number=False, may_be_cut=True),
    )
    return page.table(columns, rows, width=width)


def causes(item: LoopParts, *, most: int, width: int) -> Iterator[RenderableType]:
    """Yield what idle time, waiting and the time between steps of one loop went to."""
    rows = [_cause(cause, cause.duration_ns / (item.cycle_ns or 1)) for cause in item.causes[:most]]
    yield from _causes_table(rows, width)


def causes_of_run(item: Breakdown, *, most: int, width: int) -> Iterator[RenderableType]:
    """Yield the same for all loops: shares of the whole, times of one cycle."""
    rows = [_cause(cause, share) for cause, share in item.causes[:most]]
    yield from _causes_table(rows, width)


def _causes_table(rows: Sequence[tuple[str, ...]], width: int) -> Iterator[RenderableType]:
    if not rows:
        return
    columns = (
        TextColumn("of these", is_number=False),
        TextColumn("time"),
        TextColumn("share"),
        TextColumn("spent in", is_number=False, may_be_cut=True),
        TextColumn("at", is_number=False, may_be_cut=True),
    )
    yield page.table(columns, rows, width=width)


def _cause(item: GapCause, share: float) -> tuple[str, ...]:
    where = f"{page.short_path(item.file)}:{item.line}" if item.file else ""
    time = numbers.duration(item.duration_ns)
    return (LABELS[item.part], time, numbers.percent(share), item.what, where)


def _steps_table(steps: Sequence[StepParts], *, width: int) -> RenderableType:
    shown = steps[:SHOWN_STEPS]
    there = [part for part in Part if any(part in step.parts for step in shown)]
    columns = [
        TextColumn("step"),
        TextColumn("cycle"),
        *(TextColumn(LABELS[part]) for part in there),
    ]
    rows = [[str(step.capture.step), numbers.duration(step.cycle_ns)] for step in shown]
    for row, step in zip(rows, shown, strict=True):
        row += [_time(step.parts, part) for part in there]
    return page.table(_fitting(columns), rows, width=width)


def _fitting(columns: Iterable[TextColumn]) -> list[TextColumn]:
    """Let a narrow page drop all but the first few columns."""
    return [
        column if at < 4 else TextColumn(column.heading, may_go=True)
        for at, column in enumerate(columns)
    ]


def _time(parts: Mapping[Part, int], part: Part) -> str:
    return numbers.duration(parts[part]) if part in parts else numbers.NOTHING
