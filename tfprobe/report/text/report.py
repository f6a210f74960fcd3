"""Render a report: where a step goes first, then what ran, ops, cost and problems."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from tfprobe.analysis.breakdown.cycles import Breakdown
from tfprobe.analysis.core.no_data_reasons import SERVER_ROLE
from tfprobe.analysis.ops.op_stats import OpTable
from tfprobe.analysis.steps.recent_steps import Overhead
from tfprobe.analysis.system import endings
from tfprobe.errors import Missing
from tfprobe.findings.engine import QUEUED_LOOPS, Advice
from tfprobe.findings.finding import Severity
from tfprobe.profile.profile import Process
from tfprobe.report.documents.process_groups import (
    FEW,
    LoopGroup,
    NotableProcess,
    ProcessGroups,
    Reason,
    process_groups,
)
from tfprobe.report.documents.run_report import (
    LoopReport,
    ProcessReport,
    Report,
    queue_note,
)
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import TextColumn
from tfprobe.report.text import account, breakdown, machines, runs
from tfprobe.report.text.findings import finding_summary
from tfprobe.report.text.stacks import stacks_summary

# What fits on a screen with the rest of the report; --json has all.
TOP_OPS = 6
TOP_LOOPS = 12
# Of the time of all loops: what takes less has no note of its own.
_NOTED_RATIO = 0.1
TOP_CAUSES = 3
TOP_FINDINGS = 3
SHOWN_PROBLEMS = 10


def render_report(report: Report, advice: Advice, *, width: int, colour: bool) -> str:
    """Return the report as text."""
    return page.render(_parts(report, advice, width), width=width, colour=colour)


def _parts(report: Report, advice: Advice, width: int) -> Iterator[RenderableType]:
    yield from _run(report)
    has_steps = any(process.loops for process in report.processes)
    if report.processes:
        yield page.blank()
        yield from account.account_parts(report.account, width)
    if has_steps:
        yield page.blank()
        yield from _breakdown(report.breakdown, width)
        if advice.findings or _has_completed(report):
            yield page.blank()
            yield from _findings(advice)
    yield from _processes(report, width)
    if has_steps:
        if len(report.processes) > 1:
            # What follows belongs to the run, not to the process above.
            yield page.blank()
        yield from machines.hardware_summary(report.hardware)
        if report.stacks:
            yield from stacks_summary(report.stacks)
    for text in silences(report.silences):
        yield page.blank()
        yield page.paragraph(text, indent=0)
    if has_steps:
        yield page.blank()
        yield from _ops(report.ops, width)
    if report.problems:
        yield page.blank()
        yield from _problems(report)


def _run(report: Report) -> Iterator[RenderableType]:
    run = report.run
    if isinstance(run.command, Missing):
        yield page.heading(f"Run {run.id}")
    else:
        yield page.heading(shlex.join(run.command))
    started = "" if isinstance(run.started, Missing) else f" · started {_moment(run.started)}"
    state = endings.run_state(run, (item.process for item in report.processes))
    yield page.paragraph(f"{state}{started}")
    labels = runs.labels(run)
    if labels:
        yield page.paragraph(labels)
    yield page.paragraph(run.directory, style="dim")


def _has_completed(report: Report) -> bool:
    """Say whether a step was completed: without one there is nothing to make faster."""
    return any(item.loop.count for process in report.processes for item in process.loops)


def _moment(started: str) -> str:
    return started.replace("T", " ").replace("+00:00", " UTC")


def _processes(report: Report, width: int) -> Iterator[RenderableType]:
    if len(report.processes) > FEW:
        yield page.blank()
        yield from group_parts(process_groups(report), width=width)
        return
    for process in report.processes:
        yield page.blank()
        yield from _process(process, width)


def _process(item: ProcessReport, width: int) -> Iterator[RenderableType]:
    process = item.process
    facts = [f"{process.host} · {process.label}"]
    if process.rank is not None:
        facts.append(f"{process.role or 'rank'} {process.rank}")
    if process.restarts:
        facts.append(f"restart {process.restarts}")
    if not isinstance(process.tensorflow, Missing):
        facts.append(f"TensorFlow {process.tensorflow}")
    if process.jax is not None:
        facts.append(f"JAX {process.jax}")
    if process.torch is not None:
        facts.append(f"PyTorch {process.torch}")
    if not isinstance(process.python, Missing):
        facts.append(f"Python {process.python}")
    facts.append(process.state)
    yield page.heading(" · ".join(facts))
    ending = endings.process_state(process)
    if ending != process.state:
        yield page.paragraph(ending)
    if item.loops:
        yield from _loops(item.loops, width)
    elif process.role == SERVER_ROLE:
        yield page.paragraph("It serves variables; the steps that use them run in the workers.")
    yield page.paragraph(_cost(item.overhead, process))


def _loops(loops: tuple[LoopReport, ...], width: int) -> Iterator[RenderableType]:
    show_raised = any(item.loop.raised for item in loops)
    columns = [
        TextColumn("kind", is_number=False),
        TextColumn("name", is_number=False, may_be_cut=True),
        TextColumn("count"),
        *([TextColumn("raised")] if show_raised else []),
        TextColumn("traced", may_go=True),
        TextColumn("mean", may_go_last=True),
        TextColumn("p50"),
        TextColumn("p95", may_go_last=True),
        TextColumn("max", may_go=True),
        TextColumn("total"),
    ]
    rows = [_loop(item, show_raised) for item in loops[:TOP_LOOPS]]
    yield page.table(columns, rows, width=width)
    yield from _queue_notes(loops[:TOP_LOOPS])
    hidden = loops[TOP_LOOPS:]
    if hidden:
        time = numbers.duration(sum(item.loop.times.sum_ns for item in hidden))
        yield page.paragraph(f"and {len(hidden)} more, {time} in all; --json has them")


def _queue_notes(loops: tuple[LoopReport, ...]) -> Iterator[RenderableType]:
    """Say what the times of loops are whose calls only queue steps, at length if they take long."""
    whole_ns = sum(item.loop.times.sum_ns for item in loops)
    queued = [item.loop for item in loops if item.loop.queue is not None]
    short = []
    for place, loop in enumerate(queued):
        if loop.queue is None or (place and loop.times.sum_ns < _NOTED_RATIO * whole_ns):
            short.append(f"{loop.kind} {loop.name}")
        else:
            yield page.paragraph(queue_note(loop, loop.queue))
    if short:
        yield page.paragraph(
            f"Calls of {', '.join(short)} only queue their steps, too; `tfprobe steps` says more."
        )


def _loop(item: LoopReport, show_raised: bool) -> list[str]:
    loop, times = item.loop, item.times
    cells = [loop.kind, loop.name, numbers.count(loop.count)]
    if show_raised:
        cells.append(numbers.count(loop.raised))
    cells.append(numbers.count(loop.sampled))
    if isinstance(times, Missing):
        return [*cells, *[numbers.NOTHING] * 5]
    # Quantiles of the histogram are approximate, which ~ marks.
    about = "~" if times.error_ratio else ""
    shown = [numbers.duration(times.mean_ns)]
    shown += [f"{about}{numbers.duration(t)}" for t in (times.p50_ns, times.p95_ns)]
    shown += [numbers.duration(t) for t in (times.max_ns, times.total_ns)]
    return [*cells, *shown]


def _cost(item: Overhead | Missing, process: Process) -> str:
    captures = process.captures
    if isinstance(item, Missing):
        return f"recording cost unknown: {item.reason}"
    whole = f"{numbers.percent(item.fraction_ratio)} of {numbers.duration(item.wall_ns)}"
    rest = f"{numbers.duration(item.hook_ns)} for the rest"
    if item.unmeasured_calls:
        rest += f", without {numbers.count(item.unmeasured_calls)} hook calls not yet measured"
    if not captures:
        why = f" ({process.untraced})" if process.untraced else ""
        return f"recording cost {whole}: no step was traced{why}, {rest}"
    steps = "1 step" if captures == 1 else f"{numbers.count(captures)} steps"
    traced = f"{numbers.duration(item.traced_ns)} to trace {steps}"
    return f"recording cost {whole}: {traced}, {rest}"


def _breakdown(item: Breakdown | Missing, width: int) -> Iterator[RenderableType]:
    yield page.heading("Where a step goes")
    if isinstance(item, Missing):
        yield page.paragraph(f"no breakdown: {item.reason}")
        return
    yield page.paragraph(breakdown.answer(item.shares))
    yield breakdown.shares_table(item.shares, width=width)
    yield from breakdown.causes_of_run(item, most=TOP_CAUSES, width=width)


def _findings(advice: Advice) -> Iterator[RenderableType]:
    """Yield the most important findings, and how many more there are."""
    matter = [each for each in advice.findings if each.severity > Severity.INFO]
    yield page.heading("What to change")
    for finding in matter[:TOP_FINDINGS]:
        yield from finding_summary(finding)
    hidden = len(advice.findings) - len(matter[:TOP_FINDINGS])
    queued = next((rule for rule in advice.unchecked if rule.rule == QUEUED_LOOPS), None)
    if queued is not None:
        yield page.paragraph(f"Loops of JAX are not judged: {queued.reason}.")
    elif not matter:
        yield page.paragraph("No significant optimization was found.")
    if hidden:
        more = "finding" if hidden == 1 else "findings"
        yield page.paragraph(f"{hidden} {'more ' if matter else 'small '}{more}: `tfprobe advise`")


def _ops(table: OpTable | Missing, width: int) -> Iterator[RenderableType]:
    if isinstance(table, Missing):
        yield page.heading("Ops")
        yield page.paragraph(f"no op table: {table.reason}")
        return
    steps = "1 traced step" if table.captures == 1 else f"{table.captures} traced steps"
    yield page.heading(f"Ops in {steps}")
    has_accelerator = any(op.accelerator_ns for op in table.types)
    columns = [
        TextColumn("type", is_number=False, may_be_cut=True),
        TextColumn("count"),
        TextColumn("total"),
        TextColumn("share"),
        *([TextColumn("accelerator"), TextColumn("cpu")] if has_accelerator else []),
        *([TextColumn("requested")] if table.has_bytes else []),
    ]
    rows = []
    whole_ns = table.time_ns or 1
    for op in table.types[:TOP_OPS]:
        cells = [op.type, numbers.count(op.runs), numbers.duration(op.time_ns)]
        cells.append(numbers.percent(op.time_ns / whole_ns))
        if has_accelerator:
            times_ns = (op.accelerator_ns, op.cpu_ns)
            cells += [numbers.duration(t) if t else numbers.NOTHING for t in times_ns]
        if table.has_bytes:
            cells.append(numbers.size(op.bytes) if op.bytes else numbers.NOTHING)
        rows.append(cells)
    yield page.table(columns, rows, width=width)
    hidden = table.types[TOP_OPS:]
    if hidden:
        share = sum(op.time_ns for op in hidden) / whole_ns
        yield page.paragraph(
            f"and {len(hidden)} more types, {numbers.percent(share)}; --json has all"
        )


def _problems(report: Report) -> Iterator[RenderableType]:
    yield page.heading("Problems")
    for problem in report.problems[:SHOWN_PROBLEMS]:
        yield page.paragraph(f"{problem.where}: {problem.what}")
    hidden = len(report.problems) - SHOWN_PROBLEMS
    if hidden > 0:
        yield page.paragraph(f"and {hidden} more; --json has all")


TOP_GROUPS = 12
# At most this many reasons why processes have no steps.
TOP_SILENCES = 3


def group_parts(item: ProcessGroups, *, width: int) -> Iterator[RenderableType]:
    """Yield the groups of a report's processes: counts, loops by role, and outliers."""
    yield page.heading(group_title(item))
    if item.loops:
        columns = [TextColumn(name, is_number=at > 2) for at, name in enumerate(HEADINGS)]
        columns[2] = TextColumn("name", is_number=False, may_be_cut=True)
        columns[0] = TextColumn("role", is_number=False, may_be_cut=True)
        rows = [group_cells(group) for group in item.loops[:TOP_GROUPS]]
        yield page.table(columns, rows, width=width)
    if len(item.loops) > TOP_GROUPS:
        yield page.paragraph(f"and {len(item.loops) - TOP_GROUPS} more; --json has them")
    yield from (page.paragraph(text) for text in remarks(item))


HEADINGS = ("role", "kind", "name", "processes", "steps", "fastest mean", "median", "slowest")


def group_title(item: ProcessGroups) -> str:
    """Return the number of processes, their hosts, and how they ended."""
    hosts = "1 host" if item.hosts == 1 else f"{numbers.count(item.hosts)} hosts"
    states = _several(item.states)
    versions = f" · TensorFlow {_several(item.tensorflows)}" if item.tensorflows else ""
    return f"{numbers.count(item.processes)} processes on {hosts} · {states}{versions}"


def group_cells(item: LoopGroup) -> list[str]:
    """Return the cells of a group, in the order of HEADINGS."""
    role = " ".join(filter(None, (item.program, item.role))) or "-"
    head = [role, item.kind, item.name]
    head += [numbers.count(item.processes), numbers.count(item.steps)]
    if isinstance(item.mean_ns, Missing):
        return [*head, *[numbers.NOTHING] * 3]
    extent = (item.mean_ns.least, item.mean_ns.median, item.mean_ns.most)
    return [*head, *(numbers.duration(duration_ns) for duration_ns in extent)]


def remarks(item: ProcessGroups) -> Iterator[str]:
    """Yield what recording cost, which processes stand out, and how many more there are."""
    cost = item.recording_ratio
    if isinstance(cost, Missing):
        yield f"recording cost unknown: {cost.reason}"
    else:
        least, middle, most = map(numbers.percent, (cost.least, cost.median, cost.most))
        between = least if least == most else f"{least} to {most}"
        yield f"recording cost {between} of a process" + (
            "" if least == most else f", median {middle}"
        )
    for process in item.notable:
        yield f"{name_of(process.report)}: {_why(process)}"
    named = {process.report.process.index for process in item.notable}
    rest = item.processes - len(named)
    if rest > 0:
        more = f"and {numbers.count(rest)} more" if named else "none stands out"
        yield f"{more}; --json has all"


def name_of(report: ProcessReport) -> str:
    """Return rank, host and label of a process."""
    process = report.process
    rank = "" if process.rank is None else f"{process.role or 'rank'} {process.rank} · "
    return f"{rank}{process.host} · {process.label}"


def silences(texts: Sequence[str]) -> Iterator[str]:
    """Yield the first reasons why processes have no steps, and how many more there are."""
    yield from texts[:TOP_SILENCES]
    hidden = len(texts) - TOP_SILENCES
    if hidden > 0:
        yield f"and {numbers.count(hidden)} more processes without steps; --json says why"


def _why(item: NotableProcess) -> str:
    if item.reason is Reason.STATE:
        return item.report.process.state
    if item.reason is Reason.SLOW:
        return f"slow, {numbers.percent(item.ratio)} longer than the median in {item.loop}"
    return f"recording cost {numbers.percent(item.ratio)}"


def _several(counted: Sequence[tuple[str, int]]) -> str:
    """Return the one value that all have, or the count of each value."""
    if len(counted) == 1:
        return counted[0][0]
    return ", ".join(f"{numbers.count(count)} {what}" for what, count in counted)
