"""Render the steps of a run: phases, then the step times and outliers of each loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

import numpy as np
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from tfprobe.analysis.steps import slow_step_causes
from tfprobe.analysis.steps.outliers import Outlier, Outliers, Period, by_cause
from tfprobe.analysis.steps.phases import PHASES, Life
from tfprobe.analysis.steps.recompilations import BreakSite, reason_of, sites_of
from tfprobe.analysis.steps.slow_step_causes import Cause
from tfprobe.analysis.steps.step_series import Trend
from tfprobe.analysis.steps.step_times import QUANTILES, Distribution, RecentStep, StepTimeSummary
from tfprobe.errors import Missing
from tfprobe.profile.compilations import XLA, Compilation
from tfprobe.profile.profile import SERVICE_KIND, Process, titled
from tfprobe.report.documents.run_report import queue_note
from tfprobe.report.documents.step_report import LoopStepReport, StepsReport
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import TextColumn, histogram_sparkline

# What fits on a screen; `--loop` and --json show the others.
SHOWN_LOOPS = 3
# A loop with fewer steps gets one line.
LEAST_STEPS = 4
_BARS_WIDTH = 40
_RECENT = (
    TextColumn("step"),
    TextColumn("time"),
    TextColumn("gap before"),
    TextColumn("", is_number=False),
)
_TIMES = (
    TextColumn("", is_number=False),
    TextColumn("mean"),
    TextColumn("p5", may_go=True),
    TextColumn("p50"),
    TextColumn("p95"),
    TextColumn("p99", may_go=True),
    TextColumn("max"),
    TextColumn("total"),
    TextColumn("of it", may_go=True),
)
_SHOWN_QUANTILES = tuple(QUANTILES.index(quantile) for quantile in (0.05, 0.50, 0.95, 0.99))


def render_steps(report: StepsReport, *, width: int, colour: bool) -> str:
    """Return the page of `tfprobe steps`: the loops with the most time."""
    return page.render(_parts(report, width), width=width, colour=colour)


def _parts(report: StepsReport, width: int) -> Iterator[RenderableType]:
    yield from phase_parts(report.lives, width)
    loops = sorted(report.loops, key=lambda loop: -loop.item.loop.times.sum_ns)
    several = len({loop.process.index for loop in loops}) > 1
    for loop in loops[:SHOWN_LOOPS]:
        yield page.blank()
        yield from _loop(loop, width, several=several)
    hidden = loops[SHOWN_LOOPS:]
    if hidden:
        time = numbers.duration(sum(each.item.loop.times.sum_ns for each in hidden))
        yield page.blank()
        yield page.paragraph(
            f"and {len(hidden)} more kinds of step, {time} in all; --loop NAME shows them", indent=0
        )
    yield from compilation_parts(report, width)
    yield from break_parts(report, width)


def _loop(each: LoopStepReport, width: int, *, several: bool) -> Iterator[RenderableType]:
    place = f" · {phase_name(each.process)}" if several else ""
    yield page.heading(f"{each.item.loop.kind} {each.item.loop.name}{place}")
    yield page.paragraph(_summary(each))
    if each.item.loop.executed < LEAST_STEPS:
        return
    if each.item.loop.queue is not None:
        yield page.paragraph(queue_note(each.item.loop, each.item.loop.queue))
    rows = [
        _times(label, found, _all_ns(each))
        for label, found in (("step", each.steps), ("gap", each.gaps))
        if isinstance(found, Distribution)
    ]
    if rows:
        yield page.table(_TIMES, rows, width=width)
    if isinstance(each.steps, Distribution):
        yield page.paragraph(_drawn(each.steps, width))
    for text in (*outlier_lines(each), *_trend(each.trend)):
        yield page.paragraph(text)
    table = outlier_table(each, width)
    if table is not None:
        yield table
    if each.recent:
        yield page.table(_RECENT, [_step(step) for step in each.recent], width=width)


def _summary(each: LoopStepReport) -> str:
    loop = each.item.loop
    facts = ["1 step" if loop.count == 1 else f"{numbers.count(loop.count)} steps"]
    if loop.executed < LEAST_STEPS and isinstance(each.item.times, StepTimeSummary):
        facts[0] += f" in {numbers.duration(each.item.times.total_ns)}"
    if loop.kind == SERVICE_KIND:
        facts.append("all traced by the profiler service")
    elif loop.sampled:
        facts.append(f"{numbers.count(loop.sampled)} traced by tfprobe{_left_out(each.steps)}")
    if loop.raised:
        facts.append(f"{numbers.count(loop.raised)} raised")
    if isinstance(each.warm_up_steps, int) and each.warm_up_steps > 1:
        facts.append(f"the first {numbers.count(each.warm_up_steps)} were warm-up")
    if isinstance(each.steps, Missing):
        facts.append(each.steps.reason)
    return ", ".join(facts)


def _left_out(found: Distribution | Missing) -> str:
    if isinstance(found, Missing):
        return ""
    return " (in these times too)" if found.error_ratio else " (left out of these times)"


def _all_ns(each: LoopStepReport) -> int:
    distributions = (each.steps, each.gaps)
    return sum(times.total_ns for times in distributions if isinstance(times, Distribution))


def _times(label: str, found: Distribution, all_ns: int) -> list[str]:
    # Quantiles of the histogram are approximate, which ~ marks.
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
    return f"{least} {histogram_sparkline(found.bars, wide)} {most}"


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


# The longest steps and gaps together; --json has a hundred of each.
SHOWN_OUTLIERS = 5
_SHOWN_CAUSES = 3
# Outliers with a smaller share of the time of all steps get no rows.
_ROWS_FROM_RATIO = 0.001

_COLUMNS = (
    TextColumn("", is_number=False),
    TextColumn("took"),
    TextColumn("usual"),
    TextColumn("z", may_go=True),
    TextColumn("cause", is_number=False, may_be_cut=True),
)


def outlier_lines(each: LoopStepReport) -> Iterator[str]:
    """Yield a line about slow steps and one about long gaps."""
    if isinstance(each.slow_steps, Outliers):
        yield _line("Slow steps", each.slow_steps, each)
    if isinstance(each.long_gaps, Outliers) and each.long_gaps.found:
        yield _line("Long gaps", each.long_gaps, each)


def outlier_table(each: LoopStepReport, width: int) -> Text | None:
    """Return a table of the longest of both, or None if they take too little time."""
    known = [o for o in (each.slow_steps, each.long_gaps) if isinstance(o, Outliers)]
    rows = [
        (outlier, of)
        for of in known
        if of.share_ratio >= _ROWS_FROM_RATIO
        for outlier in of.found[:SHOWN_OUTLIERS]
    ]
    rows.sort(key=lambda row: -row[0].excess_ns)
    if not rows:
        return None
    return page.table(_COLUMNS, [_row(*row) for row in rows[:SHOWN_OUTLIERS]], width=width)


def _line(label: str, found: Outliers, each: LoopStepReport) -> str:
    looked_at = numbers.count(found.looked_at)
    of_last = "" if each.remembered.is_whole else " the last"
    if not found.found:
        return f"{label}: none of{of_last} {looked_at} stands out."
    share = numbers.percent(found.share_ratio)
    text = (
        f"{label}: {numbers.count(len(found.found))} of{of_last} {looked_at} took "
        f"{numbers.duration(found.excess_ns)} more than usual, {share} of the time"
    )
    causes = by_cause(found)
    largest = [
        f"{numbers.duration(excess_ns)} {slow_step_causes.describe_cause(cause)}"
        for cause, _, excess_ns in causes[:_SHOWN_CAUSES]
    ]
    why = f": {', '.join(largest)}" if len(causes) > 1 or isinstance(causes[0][0], Cause) else ""
    return f"{text}{why}.{''.join(f' {_period(period)}' for period in found.periods)}"


def _period(period: Period) -> str:
    return (
        f"{_every(period).capitalize()} from {numbers.count(period.first)} on "
        f"({period.times} of {period.turns})."
    )


def _every(period: Period) -> str:
    return "every second" if period.every == 2 else f"every {numbers.ordinal(period.every)}"


def _row(outlier: Outlier, found: Outliers) -> list[str]:
    place = "before " if outlier.is_gap else "step "
    return [
        f"{place}{numbers.count(outlier.step)}",
        numbers.duration(outlier.duration_ns),
        numbers.duration(found.usual_ns),
        numbers.count(outlier.z),
        _why(outlier, found),
    ]


def _why(outlier: Outlier, found: Outliers) -> str:
    """Return the cause of an outlier, and the period it belongs to."""
    cause = slow_step_causes.describe_cause(outlier.cause)
    for period in found.periods:
        if (outlier.step - period.first) % period.every == 0 and outlier.step > 0:
            why = f"why is {cause}" if isinstance(outlier.cause, Missing) else cause
            return f"{_every(period)}; {why}"
    return cause


# Of more, the longest are shown; --json has all.
SHOWN_COMPILATIONS = 10
_BACKEND = 5
_COMPILATIONS = (
    TextColumn("at"),
    TextColumn("step"),
    TextColumn("function", is_number=False, may_be_cut=True),
    TextColumn("trace", may_go=True),
    TextColumn("lower", may_go=True),
    TextColumn("XLA"),
    TextColumn("why", is_number=False, may_be_cut=True),
)


def compilation_parts(report: StepsReport, width: int) -> Iterator[RenderableType]:
    """Yield what JAX and torch.compile compiled: how long each took, and why."""
    found = report.compilations
    if not found:
        return
    yield page.blank()
    yield page.heading("Compilations")
    cached = sum(compilation.is_cached is True for _, compilation in found)
    time = numbers.duration(sum(compilation.duration_ns for _, compilation in found))
    yield page.paragraph(
        f"{numbers.count(len(found))} took {time}"
        f"{f'; {numbers.count(cached)} came from a cache on disk' if cached else ''}."
    )
    longest = sorted(found, key=lambda pair: -pair[1].duration_ns)[:SHOWN_COMPILATIONS]
    rows = [
        _compilation(process, compilation)
        for process, compilation in found
        if (process, compilation) in longest
    ]
    yield page.table(_compilation_columns(found), rows, width=width)
    hidden = len(found) - len(rows)
    if hidden:
        yield page.paragraph(f"and {numbers.count(hidden)} shorter ones; --json has all")


def _compilation_columns(
    found: tuple[tuple[Process, Compilation], ...],
) -> tuple[TextColumn, ...]:
    """Return the columns; the last stage has the name of the compiler, if there is only one."""
    if {compilation.compiler for _, compilation in found} == {XLA}:
        return _COMPILATIONS
    return (*_COMPILATIONS[:_BACKEND], TextColumn("backend"), *_COMPILATIONS[_BACKEND + 1 :])


def _compilation(process: Process, compilation: Compilation) -> list[str]:
    since_ns = compilation.start_ns - process.started_unix_ns
    stages = (compilation.trace_ns, compilation.lower_ns, compilation.backend_ns)
    trace, lower, backend = (
        numbers.NOTHING if ns is None else numbers.duration(ns) for ns in stages
    )
    return [
        numbers.duration(since_ns) if process.started_unix_ns else numbers.NOTHING,
        numbers.NOTHING if compilation.step is None else numbers.count(compilation.step),
        compilation.name,
        trace,
        lower,
        f"{backend} (cached)" if compilation.is_cached else backend,
        reason_of(compilation),
    ]


_BREAKS = (
    TextColumn("function", is_number=False, may_be_cut=True),
    TextColumn("at", is_number=False),
    TextColumn("times"),
    TextColumn("why", is_number=False, may_be_cut=True),
)
_SKIPPED = "runs uncompiled: "


def break_parts(report: StepsReport, width: int) -> Iterator[RenderableType]:
    """Yield where graphs of torch.compile break: each line once, the most frequent first."""
    if not report.graph_breaks:
        return
    sites = sites_of(found for _, found in report.graph_breaks)
    in_order = sorted(sites, key=lambda site: -site.count)
    yield page.blank()
    yield page.heading("Graph breaks")
    yield page.paragraph(
        f"{numbers.count(len(report.graph_breaks))}, each counted in every compilation."
    )
    rows = [_break(site) for site in in_order[:SHOWN_COMPILATIONS]]
    yield page.table(_BREAKS, rows, width=width)
    hidden = len(sites) - len(rows)
    if hidden:
        yield page.paragraph(f"and {numbers.count(hidden)} more; --json has all")


def _break(site: BreakSite) -> list[str]:
    place = PurePath(site.source).name or numbers.NOTHING
    why = f"{_SKIPPED if site.is_skipped else ''}{site.reason}"
    return [site.name, place, numbers.count(site.count), why]


# The mark of each phase, readable without colour, and its colour if it has one.
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
# More processes would fill the screen; --json has all.
SHOWN_PROCESSES = 8
_WIDEST_STRIP = 100
_BETWEEN = "   "

Lives = Sequence[tuple[Process, Life | Missing]]


def phase_parts(lives: Lives, width: int) -> Iterator[RenderableType]:
    """Yield the phases of each process on a common time axis."""
    known = [found for _, found in lives if isinstance(found, Life)]
    if not known:
        reasons = sorted({found.reason for _, found in lives if isinstance(found, Missing)})
        yield page.paragraph(f"no phases: {'; '.join(reasons)}", indent=0)
        return
    start_ns, end_ns = (
        min(life.start_ns for life in known),
        max(life.end_ns for life in known),
    )
    names = [phase_name(life.process) for life in known]
    label = "" if len(known) == 1 else " " * (max(map(len, names[:SHOWN_PROCESSES])) + 2)
    yield page.heading(f"Phases of {numbers.duration(end_ns - start_ns)}")
    wide = min(max(width - 2 - len(label), 20), _WIDEST_STRIP)
    for each, named in zip(known[:SHOWN_PROCESSES], names, strict=False):
        strip = Text(named.ljust(len(label)) if label else "", no_wrap=True)
        yield Padding(strip.append_text(_strip(each, start_ns, end_ns, wide)), (0, 0, 0, 2))
    if len(known) > SHOWN_PROCESSES:
        yield page.paragraph(f"and {len(known) - SHOWN_PROCESSES} more; --json has them")
    yield from _totals(known[:SHOWN_PROCESSES], names, width)
    if not any(life.knows_import for life in known):
        yield page.paragraph(
            "The time of the framework's import is unknown: set-up is part of start-up."
        )


def phase_name(process: Process) -> str:
    """Return the short name of a process: its rank, if it has one."""
    if process.rank is not None:
        return titled(f"{process.role or 'rank'} {process.rank}", process.title)
    return process.label


def _strip(life: Life, start_ns: int, end_ns: int, wide: int) -> Text:
    """Draw each cell of the axis as the phase that takes most of it."""
    edges = np.linspace(start_ns, end_ns, wide + 1)
    spent = np.zeros((len(PHASES), wide))
    for segment in life.segments:
        inside = np.clip(edges, segment.start_ns, segment.end_ns)
        spent[PHASES.index(segment.phase)] += inside[1:] - inside[:-1]
    text = Text(no_wrap=True)
    for cell in spent.T:
        mark, style = _MARKS[PHASES[int(cell.argmax())]] if cell.any() else (" ", "")
        text.append(mark, style=style)
    return text


def _totals(lives: Sequence[Life], names: Sequence[str], width: int) -> Iterator[RenderableType]:
    there = [phase for phase in PHASES if any(live.total_ns(phase) for live in lives)]
    if len(lives) == 1:
        for line in _legend(lives[0], there, width - 2):
            yield Padding(line, (0, 0, 0, 2))
        return
    columns = [TextColumn("", is_number=False), *(TextColumn(f"{_MARKS[p][0]} {p}") for p in there)]
    rows = [
        [named, *(numbers.duration(live.total_ns(phase)) for phase in there)]
        for live, named in zip(lives, names, strict=False)
    ]
    yield page.table(columns, rows, width=width)


def _legend(life: Life, there: Sequence[str], width: int) -> Sequence[Text]:
    """Return the entries in lines, without breaking any of them."""
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
