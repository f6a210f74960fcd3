"""Lay out the steps of a run: phases, and of each work how long steps took and which stand out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from tfprobe.analysis.steps.step_summary import RecentStep, StepTimes
from tfprobe.analysis.steps.step_times import QUANTILES, Distribution
from tfprobe.analysis.steps.trend import Trend
from tfprobe.errors import Missing
from tfprobe.profile.profile import SERVICE_KIND
from tfprobe.report.documents.step_report import StepsReport, WorkSteps
from tfprobe.report.format import numbers, page
from tfprobe.report.format.bars import sparkline
from tfprobe.report.format.page import Column
from tfprobe.report.text import phases
from tfprobe.report.text.outliers import lines_of, table_of

# What fits on a screen; `--work` and --json show the others.
SHOWN_WORKS = 3
# What is to be said of fewer stands on one line.
LEAST_STEPS = 4
_BARS_WIDTH = 40
_RECENT = (
    Column("step"),
    Column("time"),
    Column("gap before"),
    Column("", is_number=False),
)
_TIMES = (
    Column("", is_number=False),
    Column("mean"),
    Column("p5", may_go=True),
    Column("p50"),
    Column("p95"),
    Column("p99", may_go=True),
    Column("max"),
    Column("total"),
    Column("of it", may_go=True),
)
_SHOWN_QUANTILES = tuple(QUANTILES.index(each) for each in (0.05, 0.50, 0.95, 0.99))


def lay_out(report: StepsReport, *, width: int, colour: bool) -> str:
    """Return the page of `tfprobe steps`: the works with most time."""
    return page.render(_parts(report, width), width=width, colour=colour)


def _parts(report: StepsReport, width: int) -> Iterator[RenderableType]:
    yield from phases.parts(report.lives, width)
    works = sorted(report.works, key=lambda each: -each.item.work.times.sum_ns)
    several = len({each.process.index for each in works}) > 1
    for each in works[:SHOWN_WORKS]:
        yield page.blank()
        yield from _work(each, width, several=several)
    hidden = works[SHOWN_WORKS:]
    if hidden:
        time = numbers.duration(sum(each.item.work.times.sum_ns for each in hidden))
        yield page.blank()
        yield page.paragraph(
            f"and {len(hidden)} more kinds of step, {time} in all; --work NAME shows them", indent=0
        )


def _work(each: WorkSteps, width: int, *, several: bool) -> Iterator[RenderableType]:
    place = f" · {phases.name(each.process)}" if several else ""
    yield page.heading(f"{each.item.work.kind} {each.item.work.name}{place}")
    yield page.paragraph(_summary(each))
    if each.item.work.executed < LEAST_STEPS:
        return
    rows = [
        _times(label, found, _all_ns(each))
        for label, found in (("step", each.steps), ("gap", each.gaps))
        if isinstance(found, Distribution)
    ]
    if rows:
        yield page.table(_TIMES, rows, width=width)
    if isinstance(each.steps, Distribution):
        yield page.paragraph(_drawn(each.steps, width))
    for text in (*lines_of(each), *_trend(each.trend)):
        yield page.paragraph(text)
    table = table_of(each, width)
    if table is not None:
        yield table
    if each.recent:
        yield page.table(_RECENT, [_step(step) for step in each.recent], width=width)


def _summary(each: WorkSteps) -> str:
    work = each.item.work
    facts = ["1 step" if work.count == 1 else f"{numbers.count(work.count)} steps"]
    if work.executed < LEAST_STEPS and isinstance(each.item.times, StepTimes):
        facts[0] += f" in {numbers.duration(each.item.times.total_ns)}"
    if work.kind == SERVICE_KIND:
        facts.append("all traced by the profiler service")
    elif work.sampled:
        facts.append(f"{numbers.count(work.sampled)} traced by tfprobe{_left_out(each.steps)}")
    if work.raised:
        facts.append(f"{numbers.count(work.raised)} raised")
    if isinstance(each.warm_up_steps, int) and each.warm_up_steps > 1:
        facts.append(f"the first {numbers.count(each.warm_up_steps)} were warm-up")
    if isinstance(each.steps, Missing):
        facts.append(each.steps.reason)
    return ", ".join(facts)


def _left_out(found: Distribution | Missing) -> str:
    if isinstance(found, Missing):
        return ""
    return " (in these times too)" if found.error_ratio else " (left out of these times)"


def _all_ns(each: WorkSteps) -> int:
    found = (each.steps, each.gaps)
    return sum(times.total_ns for times in found if isinstance(times, Distribution))


def _times(label: str, found: Distribution, all_ns: int) -> list[str]:
    # Quantiles of the histogram are about right; ~ says so.
    about = "~" if found.error_ratio else ""
    quantiles = [f"{about}{numbers.duration(found.quantiles_ns[at])}" for at in _SHOWN_QUANTILES]
    return [
        label,
        numbers.duration(found.mean_ns),
        *quantiles,
        numbers.duration(found.max_ns),
        numbers.duration(found.total_ns),
        numbers.percent(found.total_ns / all_ns) if all_ns else numbers.NOTHING,
    ]


def _drawn(found: Distribution, width: int) -> str:
    least, most = numbers.duration(found.min_ns), numbers.duration(found.max_ns)
    wide = min(_BARS_WIDTH, width - len(least) - len(most) - 6)
    return f"{least} {sparkline(found.bars, wide)} {most}"


def _trend(found: Trend | Missing) -> Sequence[str]:
    if isinstance(found, Missing):
        return ()
    if not found.is_significant:
        return ("Trend: none that is significant.",)
    way = "slower" if found.change_ratio > 0 else "faster"
    least, most = sorted((abs(found.low_ratio), abs(found.high_ratio)))
    return (
        f"Trend: steps get {numbers.percent(abs(found.change_ratio))} {way} from step "
        f"{numbers.count(found.first_step)} to {numbers.count(found.last_step)} "
        f"(95 % interval: {numbers.percent(least)} to {numbers.percent(most)}).",
    )


def _step(step: RecentStep) -> tuple[str, str, str, str]:
    marks = [name for name, holds in (("traced", step.sampled), ("raised", step.raised)) if holds]
    gap = "" if step.gap_ns is None else numbers.duration(max(step.gap_ns, 0))
    return str(step.step), numbers.duration(step.duration_ns), gap, " ".join(marks)
