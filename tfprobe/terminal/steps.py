"""Lay out the steps of a run: each work, what its steps took, and the latest of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from tfprobe.errors import Missing
from tfprobe.terminal import numbers, page
from tfprobe.terminal.page import Column
from tfprobe.views.report import WorkReport
from tfprobe.views.steps import RecentStep

_COLUMNS = (
    Column("step"),
    Column("time"),
    Column("gap before"),
    Column("", is_number=False),
)


def lay_out(
    works: Sequence[tuple[WorkReport, Sequence[RecentStep]]], *, width: int, colour: bool
) -> str:
    """Return works with their latest steps as text."""
    return page.render(_parts(works, width), width=width, colour=colour)


def _parts(
    works: Sequence[tuple[WorkReport, Sequence[RecentStep]]], width: int
) -> Iterator[RenderableType]:
    for number, (item, recent) in enumerate(works):
        if number:
            yield page.blank()
        yield page.heading(f"{item.work.kind} {item.work.name}")
        yield page.paragraph(_summary(item))
        yield page.table(_COLUMNS, [_step(step) for step in recent], width=width)


def _summary(item: WorkReport) -> str:
    work, times = item.work, item.times
    facts = [f"{numbers.count(work.count)} steps", f"{numbers.count(work.sampled)} sampled"]
    if work.raised:
        facts.append(f"{numbers.count(work.raised)} raised")
    if isinstance(times, Missing):
        return ", ".join([*facts, times.reason])
    about = "~" if times.error_ratio else ""
    facts += [
        f"mean {numbers.duration(times.mean_ns)}",
        f"p50 {about}{numbers.duration(times.p50_ns)}",
        f"p95 {about}{numbers.duration(times.p95_ns)}",
        f"max {numbers.duration(times.max_ns)}",
    ]
    return ", ".join(facts)


def _step(step: RecentStep) -> tuple[str, str, str, str]:
    marks = [name for name, holds in (("sampled", step.sampled), ("raised", step.raised)) if holds]
    gap = "" if step.gap_ns is None else numbers.duration(max(step.gap_ns, 0))
    return str(step.step), numbers.duration(step.duration_ns), gap, " ".join(marks)
