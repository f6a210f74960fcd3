"""Write the texts around the list: the summary, the chosen line, the tabs of a process."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timezone

from rich.cells import cell_len, set_cell_size
from rich.console import Group, RenderableType
from rich.text import Text

from tfprobe.analysis.jobs.fleet import LoopRow, ProcessRow, RunRow
from tfprobe.analysis.jobs.job_totals import is_live, straggler
from tfprobe.analysis.ops.op_stats import OpStats, OpTable
from tfprobe.errors import Missing
from tfprobe.findings.finding import Finding
from tfprobe.live.top import cells
from tfprobe.live.top.cells import is_quiet
from tfprobe.live.top.columns import process_named
from tfprobe.live.top.lines import ListLine
from tfprobe.live.top.source import Noted, TopSnapshot
from tfprobe.printable import printable
from tfprobe.profile.profile import titled
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import TextColumn

_ELLIPSIS = "…"
_TREND_WIDTH = 24
_LOOPS = (
    TextColumn("kind", is_number=False),
    TextColumn("name", is_number=False, may_be_cut=True),
    TextColumn("steps"),
    TextColumn("raised", may_go=True),
    TextColumn("traced", may_go=True),
    TextColumn("steps/s"),
    TextColumn("p50"),
    TextColumn("p95"),
    TextColumn("trend", is_number=False, may_go_last=True),
    TextColumn("thread", is_number=False, may_go=True),
)
_NOTES = (
    TextColumn("when", is_number=False),
    TextColumn("what", is_number=False),
    TextColumn("details", is_number=False, may_be_cut=True),
)


def summary(seen: TopSnapshot | None, *, width: int, right: str) -> Text:
    """Return the first line: how many runs there are in each state, where, and `right`."""
    counts = "" if seen is None else counted(seen)
    room = width - cell_len(right) - 2
    text = Text(no_wrap=True, overflow="ellipsis", end="")
    text.append(cut(counts, room), style="bold")
    room -= cell_len(counts) + 2
    if seen is not None and room >= len(_ELLIPSIS) + 8:
        text.append(f"  {cut_front(printable(seen.directory), room)}", style="dim")
    text.append(" " * max(width - text.cell_len - cell_len(right), 1))
    text.append(right)
    return text


def about(line: ListLine, seen: TopSnapshot, *, width: int) -> Text:
    """Return three lines on the chosen one: its command, who and where it is, what to know."""
    texts = (_command(line), " · ".join(_facts(line)), _remark(line, seen))
    styles = ("bold", "", _remark_style(line))
    parts = [
        Text(cut(printable(text), width), style=style)
        for text, style in zip(texts, styles, strict=True)
    ]
    return Text("\n").join(parts)


def loops(row: ProcessRow, width: int) -> RenderableType:
    """Return the kinds of step of a process, busiest first."""
    if not row.loops:
        return page.paragraph("No step yet.")
    rows = [_loop(loop) for loop in row.loops]
    return page.table(_LOOPS, rows, width=width)


def ops(table: OpTable | Missing, width: int) -> RenderableType:
    """Return the ops of the latest captures by type."""
    if isinstance(table, Missing):
        return page.paragraph(f"No ops to show: {table.reason}.")
    shown = [column for column in _ops_columns(table) if any(column[1](op) for op in table.types)]
    rows = [[tell(op) or numbers.NOTHING for _, tell in shown] for op in table.types]
    columns = [column for column, _ in shown]
    steps = "1 traced step" if table.captures == 1 else f"{table.captures} traced steps"
    return Group(
        page.paragraph(f"By type, over {steps}:", style="dim"),
        page.table(columns, rows, width=width),
    )


def _ops_columns(table: OpTable) -> Iterator[tuple[TextColumn, Callable[[OpStats], str]]]:
    """Give the columns; one that is empty for all ops is left out."""
    whole_ns = table.time_ns or 1
    yield TextColumn("type", is_number=False, may_be_cut=True), lambda op: op.type
    yield TextColumn("count"), lambda op: numbers.count(op.runs)
    yield TextColumn("total"), lambda op: numbers.duration(op.time_ns)
    yield TextColumn("share"), lambda op: numbers.percent(op.time_ns / whole_ns)
    yield TextColumn("accelerator", may_go=True), lambda op: _time(op.accelerator_ns)
    yield TextColumn("cpu", may_go=True), lambda op: _time(op.cpu_ns)
    yield (
        TextColumn("requested", may_go=True),
        lambda op: numbers.size(op.bytes) if op.bytes else "",
    )


def _time(time_ns: int) -> str:
    return numbers.duration(time_ns) if time_ns else ""


def findings(found: Sequence[Finding], _width: int) -> RenderableType:
    """Return what could be faster, the most important first."""
    # Imported here: the rules' modules would take a fifth of the time until the page appears.
    from tfprobe.report.text.findings import finding_lines, finding_summary

    if not found:
        return page.paragraph("No optimization was found.")
    parts: list[RenderableType] = []
    for finding in found:
        parts += [*finding_summary(finding), page.paragraph(finding_lines(finding)[1], indent=4)]
        evidence = finding_lines(finding)[2]
        parts += [page.paragraph(evidence, indent=4, style="dim")] if evidence else []
        parts.append(page.blank())
    return Group(*parts)


def notes(found: Sequence[Noted], width: int) -> RenderableType:
    """Return the log of a process, newest first."""
    if not found:
        return page.paragraph("Nothing was recorded yet.")
    rows = [(moment(event.at_unix_ns), event.what, event.text) for event in _newest(found)]
    return page.table(_NOTES, rows, width=width)


def moment(at_unix_ns: int) -> str:
    """Write a time of the clock of this machine."""
    return datetime.fromtimestamp(at_unix_ns / 1e9, tz=timezone.utc).astimezone().strftime("%X")


def cut(text: str, room: int) -> str:
    """Cut text to some cells, with an ellipsis for what is gone."""
    if cell_len(text) <= room:
        return text
    return set_cell_size(text, max(room - 1, 0)).rstrip() + _ELLIPSIS[: max(room, 0)]


def cut_front(text: str, room: int) -> str:
    """Cut text at its front: of a path the end tells most."""
    if cell_len(text) <= room:
        return text
    while text and cell_len(text) > room - 1:
        text = text[1:]
    return _ELLIPSIS + text


def shares_text(row: ProcessRow, at_unix_ns: int) -> str:
    """Write where a cycle goes in words, and how old that is."""
    shares = row.shares
    if isinstance(shares, Missing):
        return f"no shares: {shares.reason}"
    text = ", ".join(
        f"{name} {numbers.percent(ratio)}"
        for (name, _, _), ratio in zip(cells.PARTS, cells.ratios(shares), strict=True)
    )
    captures = "1 capture" if shares.captures == 1 else f"{shares.captures} captures"
    ago = cells.age(at_unix_ns - shares.newest_unix_ns)
    return f"{text} (of {captures}, the newest {ago} ago)"


def counted(seen: TopSnapshot) -> str:
    """Write how many runs are in each state."""
    live = [run for run in seen.runs if is_live(run.state)]
    stopped = sum(run.state == "stopped" for run in live)
    quiet = sum(any(is_quiet(row) for row in run.processes) for run in live)
    facts = [f"{len(live) - stopped} running"]
    facts += [f"{stopped} stopped"] if stopped else []
    facts += [f"{quiet} without steps"] if quiet else []
    ended = len(seen.runs) - len(live)
    return ", ".join([*facts, *([f"{ended} ended"] if ended else [])])


def _command(line: ListLine) -> str:
    command = line.run.command
    return line.run.id if isinstance(command, Missing) else shlex.join(command)


def _facts(line: ListLine) -> Iterator[str]:
    run, row = line.run, line.row
    if not isinstance(row, Missing) and line.is_open is None:
        rank = "" if row.rank is None else f" · {row.role or 'rank'} {row.rank}"
        yield f"{row.host} {titled(f'pid {row.pid}', row.title)}{rank}"
    elif len(run.processes) > 1:
        hosts = len({process.host for process in run.processes})
        on = "1 host" if hosts == 1 else f"{hosts} hosts"
        yield f"{len(run.processes)} processes on {on}"
    if not isinstance(run.user, Missing):
        yield run.user
    started = run.started_unix_ns
    if not isinstance(started, Missing):
        yield f"started {moment(started)}, {cells.age(line.at_unix_ns - started)} ago"
    if not isinstance(row, Missing):
        yield f"{numbers.count(row.steps)} steps"
        yield _samples(row)
        if not isinstance(row.goodput_ratio, Missing):
            yield f"goodput {numbers.percent(row.goodput_ratio)}"
        if not isinstance(row.overhead_ratio, Missing):
            yield f"recording cost {numbers.percent(row.overhead_ratio)}"


def _samples(row: ProcessRow) -> str:
    text = "1 traced" if row.captures == 1 else f"{numbers.count(row.captures)} traced"
    left = row.samples_left
    return text if isinstance(left, Missing) or left <= 0 else f"{text}, {left} to come"


def _remark(line: ListLine, seen: TopSnapshot) -> str:
    """Return what matters most: what could not be read, who holds others up, where time goes."""
    if line.run.problems:
        first = line.run.problems[0]
        more = f" (and {len(line.run.problems) - 1} more)" if len(line.run.problems) > 1 else ""
        return f"{first.where}: {first.what}{more}"
    if isinstance(line.row, Missing):
        return line.row.reason
    slow = straggler(line.run) if line.is_open is not None else None
    if slow is not None and not isinstance(slow.p50_ns, Missing):
        return f"{process_named(slow)} is the slowest: {numbers.duration(slow.p50_ns)} a step"
    return shares_text(line.row, seen.at_unix_ns)


def _remark_style(line: ListLine) -> str:
    return "yellow" if line.run.problems else "dim"


def _loop(loop: LoopRow) -> tuple[str, ...]:
    def text(cell: cells.Cell) -> str:
        return "".join(text for text, _ in cell)

    return (
        loop.kind,
        loop.name,
        numbers.count(loop.count),
        numbers.count(loop.raised) if loop.raised else numbers.NOTHING,
        numbers.count(loop.sampled),
        text(cells.known(loop.steps_per_s, cells.per_second)),
        text(cells.known(loop.p50_ns, cells.step_time)),
        text(cells.known(loop.p95_ns, cells.step_time)),
        text(cells.trend(loop.trend_ns, _TREND_WIDTH)),
        loop.thread,
    )


def _newest(found: Sequence[Noted]) -> Iterable[Noted]:
    return sorted(found, key=lambda event: -event.at_unix_ns)


def run_named(run: RunRow) -> str:
    """Return what to call a run in a sentence."""
    return printable(run.id)
