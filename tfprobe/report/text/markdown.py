"""Write a report as Markdown, for a pull request or a notebook."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from tfprobe.analysis.account.account import Account
from tfprobe.analysis.breakdown.cycles import Breakdown
from tfprobe.analysis.breakdown.step_parts import GROUPS, LABELS
from tfprobe.analysis.ops.op_stats import OpTable
from tfprobe.analysis.system import endings
from tfprobe.errors import Missing
from tfprobe.findings.engine import Advice
from tfprobe.printable import printable
from tfprobe.report.documents.process_groups import FEW, ProcessGroups, process_groups
from tfprobe.report.documents.run_report import LoopReport, ProcessReport, Report
from tfprobe.report.format import numbers
from tfprobe.report.text import account, breakdown
from tfprobe.report.text.findings import action_text, describe_gain, plain
from tfprobe.report.text.report import (
    HEADINGS,
    TOP_GROUPS,
    group_cells,
    group_title,
    remarks,
    silences,
)
from tfprobe.report.text.stacks import sentence

TOP_OPS = 25
# A run with more problems failed as a whole.
SHOWN_PROBLEMS = 100


def render_report_markdown(report: Report, advice: Advice) -> str:
    """Return the report as one Markdown document."""
    return "\n".join(map(printable, _lines(report, advice))) + "\n"


def _lines(report: Report, advice: Advice) -> Iterator[str]:
    run = report.run
    yield f"# {run.id if isinstance(run.command, Missing) else code(shlex.join(run.command))}"
    yield ""
    started = "" if isinstance(run.started, Missing) else f", started {run.started}"
    state = endings.run_state(run, (item.process for item in report.processes))
    yield f"Run {code(run.id)}: {plain(state)}{started}."
    if isinstance(report.account, Account):
        yield from _account(report.account)
    if isinstance(report.breakdown, Breakdown):
        yield from _breakdown(report.breakdown)
    if advice.findings:
        yield from ("", "## What to change", "")
        for finding in advice.findings:
            heading = f"{finding.severity.name.lower()}: {plain(finding.title)}"
            yield f"- **{heading}** ({describe_gain(finding)})"
            yield f"  {plain(action_text(finding))}"
    if len(report.processes) > FEW:
        yield from _process_groups(process_groups(report))
    else:
        for process in report.processes:
            yield from _process(process)
    stacks = sentence(report.stacks)
    if stacks:
        yield from ("", plain(stacks))
    for text in silences(report.silences):
        yield from ("", text)
    if isinstance(report.ops, OpTable):
        yield from _ops(report.ops)
    if report.problems:
        yield from ("", "## Problems", "")
        yield from (f"- {code(p.where)}: {p.what}" for p in report.problems[:SHOWN_PROBLEMS])
        hidden = len(report.problems) - SHOWN_PROBLEMS
        if hidden > 0:
            yield f"- and {hidden} more; --json has all"


def _process_groups(item: ProcessGroups) -> Iterator[str]:
    yield from ("", f"## {group_title(item)}", "")
    rows = [group_cells(group) for group in item.loops[:TOP_GROUPS]]
    yield from table(HEADINGS, rows, texts=3)
    hidden = len(item.loops) - len(rows)
    if hidden:
        yield from ("", f"and {hidden} more; --json has them")
    yield ""
    yield from (f"- {text}" for text in remarks(item))


def _process(item: ProcessReport) -> Iterator[str]:
    process = item.process
    rank = "" if process.rank is None else f", rank {process.rank}"
    yield from ("", f"## {process.host}, {process.label}{rank}: {process.state}", "")
    ending = endings.process_state(process)
    if ending != process.state:
        yield from (f"{plain(ending)}.", "")
    headings = ("kind", "name", "count", "traced", "mean", "p50", "p95", "max", "total")
    yield from table(headings, [_loop(loop) for loop in item.loops], texts=2)
    if not isinstance(item.overhead, Missing):
        share = numbers.percent(item.overhead.fraction_ratio)
        yield from ("", f"Recording cost {share} of {numbers.duration(item.overhead.wall_ns)}.")


def _loop(item: LoopReport) -> list[str]:
    loop, times = item.loop, item.times
    cells = [loop.kind, loop.name, numbers.count(loop.count), numbers.count(loop.sampled)]
    if isinstance(times, Missing):
        return [*cells, *[numbers.NOTHING] * 5]
    values = (times.mean_ns, times.p50_ns, times.p95_ns, times.max_ns, times.total_ns)
    return [*cells, *(numbers.duration(value) for value in values)]


def _account(item: Account) -> Iterator[str]:
    yield from ("", "## Where the time went", "", plain(account.sentence(item)), "")
    rows = [[plain(cell) for cell in row] for row in account.rows(item)]
    yield from table(("part", "most of it", "time", "share"), rows, texts=2)


def _breakdown(item: Breakdown) -> Iterator[str]:
    yield from ("", "## Where a step goes", "", breakdown.answer(item.shares), "")
    rows = [
        (f"{group}: {LABELS[part]}", numbers.percent(item.shares[part]))
        for group, parts in GROUPS.items()
        for part in parts
        if item.shares[part]
    ]
    yield from table(("part", "share"), rows, texts=1)


def _ops(found: OpTable) -> Iterator[str]:
    yield from ("", f"## Ops in {found.captures} traced steps", "")
    rows = [
        (
            op.type,
            numbers.count(op.runs),
            numbers.duration(op.time_ns),
            numbers.duration(op.accelerator_ns),
            numbers.duration(op.cpu_ns),
        )
        for op in found.types[:TOP_OPS]
    ]
    yield from table(("type", "count", "total", "accelerator", "cpu"), rows, texts=1)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int) -> Iterator[str]:
    """Yield the lines of a table; the first `texts` columns are text, the others numbers."""
    yield f"| {' | '.join(headings)} |"
    marks = ["---" if i < texts else "---:" for i in range(len(headings))]
    yield f"| {' | '.join(marks)} |"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def code(text: str) -> str:
    """Return text as inline code."""
    return f"`{text.replace('`', chr(39))}`"
