"""Write lists of runs: a listing, a trend, what would be removed, and trace requests."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import PurePath
from typing import TYPE_CHECKING

from rich.console import RenderableType

from tfprobe.analysis.jobs.run_selection import KEEP, OLDER, Candidate, Retention, RetentionRules
from tfprobe.errors import Missing
from tfprobe.profile.profile import Run, titled
from tfprobe.profile.snapshots import Captured, ProcessAnswer, RequestAnswer, RunLine
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import TextColumn

if TYPE_CHECKING:
    from tfprobe.analysis.compare.several_runs import TrendRow


def render_runs(runs: Sequence[RunLine], now_unix_ns: int, *, width: int, colour: bool) -> str:
    """Return the listing of runs; sizes and names have a column if any run has one."""
    with_size = any(not isinstance(run.size_bytes, Missing) for run in runs)
    with_labels = any(labels(run) for run in runs)
    columns = (
        TextColumn("run", is_number=False),
        TextColumn("state", is_number=False),
        TextColumn("age", may_go_last=True),
        TextColumn("processes", may_go=True),
        TextColumn("steps", may_go_last=True),
        *([TextColumn("size")] if with_size else []),
        *([TextColumn("name", is_number=False, may_be_cut=True)] if with_labels else []),
        TextColumn("command", is_number=False, may_be_cut=True),
    )
    rows = [_row(run, now_unix_ns, with_size=with_size, with_labels=with_labels) for run in runs]
    return page.render(
        [page.table(columns, rows, width=width, indent=0)], width=width, colour=colour
    )


def age(run: RunLine, now_unix_ns: int) -> str:
    """Return how long ago a run gave its last sign of life."""
    if run.is_ahead(now_unix_ns):
        return numbers.NOTHING
    age_ns = run.age_ns(now_unix_ns)
    return numbers.NOTHING if isinstance(age_ns, Missing) else numbers.age(age_ns)


def size(run: RunLine) -> str:
    """Return the size of a run on disk."""
    return numbers.NOTHING if isinstance(run.size_bytes, Missing) else numbers.size(run.size_bytes)


def labels(run: RunLine | Run) -> str:
    """Return the name and the tags of a run, or ""."""
    name = [] if isinstance(run.name, Missing) else [run.name]
    return " · ".join([*name, *(f"{key}={value}" for key, value in run.tags)])


def _row(run: RunLine, now_unix_ns: int, *, with_size: bool, with_labels: bool) -> tuple[str, ...]:
    return (
        run.id,
        run.state,
        age(run, now_unix_ns),
        numbers.count(run.processes),
        numbers.count(run.steps),
        *([size(run)] if with_size else []),
        *([labels(run) or numbers.NOTHING] if with_labels else []),
        _command(run),
    )


def _command(run: RunLine) -> str:
    """Return the command with the name of its program only: a path would hide the arguments."""
    if isinstance(run.command, Missing) or not run.command:
        return "?"
    return shlex.join([PurePath(run.command[0]).name, *run.command[1:]])


_RUN = (TextColumn("run", is_number=False), TextColumn("state", is_number=False), TextColumn("age"))


def render_removals(
    retention: Retention,
    rules: RetentionRules,
    leftovers: int,
    now_unix_ns: int,
    *,
    width: int,
    colour: bool,
) -> str:
    """Return which runs are removed, which are kept and why, and the number of leftovers."""
    parts = _parts(retention, rules, leftovers, now_unix_ns, width)
    return page.render(parts, width=width, colour=colour)


def _parts(
    retention: Retention, rules: RetentionRules, leftovers: int, now_unix_ns: int, width: int
) -> Iterator[RenderableType]:
    if retention.goes:
        removed = [_removed(run, rules, now_unix_ns) for run in retention.goes]
        columns = [*_RUN, TextColumn("size"), _why("reason")]
        yield page.table(columns, removed, width=width, indent=0)
        yield page.blank()
    if retention.locked:
        kept = [[*_run(run, now_unix_ns), run.locked or ""] for run in retention.locked]
        yield page.table([*_RUN, _why("kept because")], kept, width=width, indent=0)
        yield page.blank()
    yield page.paragraph(_sum(retention, rules, leftovers), indent=0)


def _why(heading: str) -> TextColumn:
    return TextColumn(heading, is_number=False, may_be_cut=True)


def _run(candidate: Candidate, now_unix_ns: int) -> list[str]:
    return [candidate.run.id, candidate.run.state, age(candidate.run, now_unix_ns)]


def _removed(candidate: Candidate, rules: RetentionRules, now_unix_ns: int) -> list[str]:
    why = _rules(candidate, rules)
    return [*_run(candidate, now_unix_ns), size(candidate.run), why]


def _rules(candidate: Candidate, rules: RetentionRules) -> str:
    return ", ".join(_rule(rule, rules) for rule in candidate.rules)


def _rule(rule: str, rules: RetentionRules) -> str:
    if rule == KEEP:
        return f"not among the newest {rules.keep}"
    if rule == OLDER:
        return f"older than {numbers.age(rules.older_ns or 0)}"
    return f"above {numbers.size(rules.size_bytes or 0)} in all"


def _sum(retention: Retention, rules: RetentionRules, leftovers: int) -> str:
    goes = [_count(len(retention.goes), "run"), numbers.size(_total(retention.goes))]
    parts = [", ".join(goes)] if retention.goes else []
    if leftovers:
        parts.append(_count(leftovers, "leftover") + " of programs that were killed")
    if rules == RetentionRules() and not parts:
        return "Nothing to remove: no rule was given, and no killed program left anything."
    if not parts:
        return "Nothing to remove."
    return f"To remove: {'; '.join(parts)}."


def _total(candidates: Sequence[Candidate]) -> int:
    sizes = (candidate.run.size_bytes for candidate in candidates)
    return sum(size for size in sizes if not isinstance(size, Missing))


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


_COLUMNS = (
    TextColumn("host", is_number=False, may_be_cut=True),
    TextColumn("pid"),
    TextColumn("state", is_number=False),
    TextColumn("answer", is_number=False),
    TextColumn("captures"),
    TextColumn("steps", is_number=False, may_be_cut=True),
)
_PROGRAM = TextColumn("program", is_number=False, may_be_cut=True)
_STANDS = "The request stands: processes that have not answered take it at their next step."


def render_trace_request(
    run: str, steps: int, answers: Sequence[ProcessAnswer], *, width: int, colour: bool
) -> str:
    """Return a row for each process, then the reasons why captures are missing."""
    columns = list(_COLUMNS)
    rows = [_request_row(answer) for answer in answers]
    if _has_programs(answers):
        columns.insert(2, _PROGRAM)
        for row, answer in zip(rows, answers, strict=True):
            row.insert(2, answer.program)
    parts: list[RenderableType] = [
        page.heading(f"Run {run}: the next {numbers.count(steps)} step{'s' * (steps != 1)}"),
        page.table(columns, rows, width=width),
    ]
    parts += [page.paragraph(text) for text in reasons(answers)]
    if any(answer.answer is RequestAnswer.NONE for answer in answers):
        parts.append(page.paragraph(_STANDS))
    return page.render(parts, width=width, colour=colour)


def reasons(answers: Sequence[ProcessAnswer]) -> Iterator[str]:
    """Yield each reason once, with the processes it applies to."""
    has_programs = _has_programs(answers)
    names: dict[str, list[str]] = {}
    for answer in answers:
        if not isinstance(answer.why, Missing):
            pid = _pid(answer)
            name = titled(f"pid {pid}", answer.program) if has_programs else pid
            names.setdefault(answer.why, []).append(name)
    for why, holders in names.items():
        yield f"{', '.join(holders)}: {why}"


def _has_programs(answers: Sequence[ProcessAnswer]) -> bool:
    """Say whether the processes run different programs."""
    return len({answer.program for answer in answers}) > 1


def _request_row(answer: ProcessAnswer) -> list[str]:
    return [
        answer.host,
        _pid(answer),
        answer.state,
        answer.answer.value,
        f"{numbers.count(len(answer.captures))} of {numbers.count(answer.samples)}"
        if answer.samples
        else "-",
        _steps(answer.captures),
    ]


def _pid(answer: ProcessAnswer) -> str:
    return answer.process if isinstance(answer.pid, Missing) else str(answer.pid)


def _steps(captures: Sequence[Captured]) -> str:
    """Return the steps as ranges, with their loop if there are several."""
    loops = sorted({capture.loop for capture in captures})
    each = {loop: _ranges(sorted(c.step for c in captures if c.loop == loop)) for loop in loops}
    if len(loops) < 2:
        return "".join(each.values())
    return "; ".join(f"loop {loop}: {text}" for loop, text in each.items())


def _ranges(steps: Sequence[int]) -> str:
    """Return steps 5, 6, 7, 9 as 5-7, 9."""
    runs = []
    for _, group in groupby(enumerate(steps), key=lambda pair: pair[1] - pair[0]):
        row = [step for _, step in group]
        runs.append(str(row[0]) if len(row) == 1 else f"{row[0]}-{row[-1]}")
    return ", ".join(runs)


_MINUTES = len("2026-11-20 20:15")


def render_trend(rows: Sequence[TrendRow], others: int, *, width: int, colour: bool) -> str:
    """Return the page of `tfprobe ls --trend`; `others` is the number of other jobs."""
    return page.render(_run_trend_parts(rows, others, width), width=width, colour=colour)


def _run_trend_parts(rows: Sequence[TrendRow], others: int, width: int) -> Iterator[RenderableType]:
    newest = rows[-1].run
    named = not isinstance(newest.name, Missing)
    command = "?" if isinstance(newest.command, Missing) else shlex.join(newest.command)
    yield page.heading(f"{newest.name}: {command}" if named else command)
    columns = (
        TextColumn("started", is_number=False),
        TextColumn("host", is_number=False, may_go=True),
        TextColumn("Python", is_number=False, may_go=True),
        TextColumn("TensorFlow", is_number=False, may_go=True),
        TextColumn("steps"),
        TextColumn("step p50"),
        TextColumn("goodput"),
        TextColumn("change"),
        TextColumn("cause", is_number=False),
        TextColumn("run", is_number=False, may_be_cut=True),
    )
    cells = [_run_trend_row(row) for row in rows]
    yield page.table(columns, cells, width=width)
    yield page.paragraph(
        "change: from the previous run; ~ within the variation of the two recordings"
    )
    if others:
        jobs = "job" if others == 1 else "jobs"
        more = f"and {others} more {jobs}: choose with --name, --tag or --command"
        yield page.paragraph(more, indent=0)


def _run_trend_row(row: TrendRow) -> tuple[str, ...]:
    started = row.run.started
    step_ns, goodput = row.step_p50_ns, row.goodput_ratio
    return (
        "?" if isinstance(started, Missing) else started.replace("T", " ")[:_MINUTES],
        _text(row.run.host),
        _text(row.python),
        _text(row.tensorflow),
        numbers.count(row.run.steps),
        numbers.NOTHING if isinstance(step_ns, Missing) else numbers.duration(step_ns),
        numbers.NOTHING if isinstance(goodput, Missing) else numbers.percent(goodput),
        _change(row),
        _whose(row),
        row.run.id,
    )


def _text(value: str | Missing) -> str:
    return numbers.NOTHING if isinstance(value, Missing) else value


def _change(row: TrendRow) -> str:
    if isinstance(row.change, Missing):
        return numbers.NOTHING
    return f"{'' if row.change.is_significant else '~'}{numbers.signed_percent(row.change.ratio)}"


def _whose(row: TrendRow) -> str:
    if isinstance(row.change, Missing) or isinstance(row.change.cause, Missing):
        return ""
    from tfprobe.analysis.compare.change_cause import CauseKind

    kind = row.change.cause.kind
    return "unknown" if kind is CauseKind.UNKNOWN else kind.value
