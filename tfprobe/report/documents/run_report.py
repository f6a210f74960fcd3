"""Gather the report of a run, process by process, and write it as a document.

A part holds a process, without steps, rows or histograms; `merge_report` makes one report of parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from tfprobe.analysis.account import account, collectives
from tfprobe.analysis.account.account import Account
from tfprobe.analysis.account.collectives import ProcessCollectives
from tfprobe.analysis.breakdown.cycles import (
    Breakdown,
    Cycle,
    LoopParts,
    mean_cycle,
    merge_cycles,
    parts_by_loop,
)
from tfprobe.analysis.core import no_data_reasons
from tfprobe.analysis.core.main_loop import unknown_times
from tfprobe.analysis.distributed import synchronization_events
from tfprobe.analysis.distributed.rank_parts import RankSteps, rank_steps
from tfprobe.analysis.distributed.slow_ranks import Straggler, slow_ranks
from tfprobe.analysis.distributed.synchronization_events import SynchronizationEvents
from tfprobe.analysis.ops import op_stats
from tfprobe.analysis.ops.op_stats import OpTable
from tfprobe.analysis.steps.recent_steps import Overhead, recording_overhead
from tfprobe.analysis.steps.step_times import StepTimeSummary, step_time_summary
from tfprobe.analysis.system import endings, hardware
from tfprobe.analysis.system.hardware import (
    NO_ACCELERATOR,
    DeviceHardware,
    Hardware,
    ProcessHardware,
)
from tfprobe.analysis.system.stack_lines import StackSummary, stack_summaries
from tfprobe.errors import Missing
from tfprobe.profile.profile import (
    TORCH_KINDS,
    Interpreter,
    Loop,
    Problem,
    Process,
    Profile,
    Run,
    StepQueue,
    in_sum,
)
from tfprobe.profile.programs import RANKS
from tfprobe.report.documents.account_document import account_document
from tfprobe.report.documents.breakdown_document import shares_document
from tfprobe.report.documents.document import Document
from tfprobe.report.documents.findings_document import finding_document
from tfprobe.report.documents.stacks_document import summary_document
from tfprobe.report.format import numbers

if TYPE_CHECKING:
    from tfprobe.findings.engine import Advice

SCHEMA = "tfprobe.report/1"
# Where problems lie that are of no process: of the run, and of the accelerators of a host.
_RUN, _MACHINE = ("run.json", RANKS, "captures"), "machine/"


@dataclass(frozen=True, slots=True)
class LoopReport:
    """A loop with the times of its steps."""

    loop: Loop
    times: StepTimeSummary | Missing


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """A process with its loops, longest first, and what recording cost it."""

    process: Process
    loops: tuple[LoopReport, ...]
    overhead: Overhead | Missing


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a report says; `accounts` are of the processes, `account` of the whole run.

    `slow` are the slow processes, the slowest first (docs/ranks.md has the criterion).
    """

    run: Run
    account: Account | Missing
    accounts: tuple[Account | Missing, ...]
    processes: tuple[ProcessReport, ...]
    breakdown: Breakdown | Missing
    ops: OpTable | Missing
    hardware: Hardware
    silences: tuple[str, ...]
    problems: tuple[Problem, ...]
    stacks: tuple[StackSummary, ...] = ()
    slow: tuple[Straggler, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportPart:
    """What a report takes of some processes, mostly of one; small, and without files.

    The `accounts` are of each process alone. What processes waited for each other is known once all
    parts are there, from their `collectives` and the events in `ranks`, which also has the latest
    steps, to find out which processes are slow.
    """

    processes: tuple[ProcessReport, ...]
    accounts: tuple[Account | Missing, ...]
    cycles: tuple[Cycle, ...]
    ops: OpTable
    hardware: tuple[ProcessHardware | Missing, ...]
    silences: tuple[str, ...]
    problems: tuple[Problem, ...]
    collectives: tuple[ProcessCollectives, ...]
    ranks: tuple[RankSteps, ...]
    stacks: tuple[StackSummary, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What a report takes of a run that belongs to no process, written once for all of them.

    `devices` are those of all hosts, `problems` those of run.json and of the samples of devices.
    """

    interpreters: tuple[Interpreter, ...] = ()
    devices: tuple[DeviceHardware, ...] = ()
    problems: tuple[Problem, ...] = ()


def gather_report(profile: Profile) -> Report:
    """Return the report of a profile."""
    return merge_report(profile.run, (report_part(profile),), run_facts(profile))


def report_part(
    profile: Profile,
    loops: Sequence[LoopParts] | None = None,
    accounts: tuple[Account | Missing, ...] | None = None,
) -> ReportPart:
    """Return what a report takes of the processes of a profile.

    `loops` are their traced steps and `accounts` what their time went to, if they are computed
    already.
    """
    loops = parts_by_loop(profile) if loops is None else loops
    reports = (process_report(process, profile) for process in profile.processes)
    return ReportPart(
        processes=tuple(map(_without_steps, reports)),
        accounts=account.process_accounts(profile, loops) if accounts is None else accounts,
        cycles=tuple(map(mean_cycle, loops)),
        ops=op_stats.op_sums(profile),
        hardware=hardware.processes(profile),
        silences=no_data_reasons.explain_no_steps(profile),
        problems=tuple(problem for problem in profile.problems if not _is_of_no_process(problem)),
        collectives=collectives.process_collectives(profile, loops),
        ranks=rank_steps(profile),
        stacks=stack_summaries(profile),
    )


def run_facts(profile: Profile) -> ProcessFacts:
    """Return the facts of a run that belong to no process; the profile may have no processes."""
    return ProcessFacts(
        interpreters=profile.interpreters,
        devices=hardware.devices(profile),
        problems=tuple(filter(_is_of_no_process, profile.problems)),
    )


def merge_report(run: Run, parts: Sequence[ReportPart], rest: ProcessFacts) -> Report:
    """Return one report of a run, whose processes are those of the parts, in this order."""
    reports = [process for part in parts for process in part.processes]
    placed = [replace(report.process, index=at) for at, report in enumerate(reports)]
    used = (machine for part in parts for machine in part.hardware)
    silences = tuple(text for part in parts for text in part.silences)
    of_run = tuple(problem for problem in rest.problems if problem.where in _RUN)
    of_hosts = tuple(problem for problem in rest.problems if problem.where not in _RUN)
    accounts = collectives.with_waits(
        [each for part in parts for each in part.accounts],
        [collective for part in parts for collective in part.collectives],
        placed,
        synchronizations(parts),
    )
    return Report(
        run=run,
        account=account.merge_accounts(accounts),
        accounts=accounts,
        processes=tuple(map(_placed, reports, placed)),
        breakdown=merge_cycles(
            (cycle for part in parts for cycle in part.cycles),
            sum(part.ops.captures for part in parts),
        ),
        ops=op_stats.merge([part.ops for part in parts]),
        hardware=Hardware(
            tuple(
                each if isinstance(each, Missing) else replace(each, process=at)
                for each, at in zip(used, placed, strict=True)
            ),
            rest.devices or NO_ACCELERATOR,
        ),
        silences=silences
        if reports
        else no_data_reasons.explain_no_process(run, rest.interpreters),
        problems=(*of_run, *(problem for part in parts for problem in part.problems), *of_hosts),
        stacks=tuple(stack for part in parts for stack in part.stacks),
        slow=slow_ranks([rank for part in parts for rank in part.ranks])
        if len(reports) > 1
        else (),
    )


def synchronizations(parts: Sequence[ReportPart]) -> SynchronizationEvents:
    """Return where the processes of the parts synchronize, numbered in this order."""
    return synchronization_events.merge_events(
        [rank.events for part in parts for rank in part.ranks]
    )


def report_document(report: Report, advice: Advice | None = None) -> Document:
    """Return the document, tfprobe.report/1 when published: times in ns, bytes, fractions of 1."""
    return {
        "schema": SCHEMA,
        "run": run_document(report.run),
        "account": account_document(report.account),
        "processes": [
            _process_document(process, account)
            for process, account in zip(report.processes, report.accounts, strict=True)
        ],
        "breakdown": shares_document(report.breakdown),
        "ops": _ops_document(report.ops),
        "findings": []
        if advice is None
        else [finding_document(finding) for finding in advice.findings],
        "stacks": [summary_document(stack) for stack in report.stacks],
        "silences": list(report.silences),
        "problems": [{"where": p.where, "what": p.what} for p in report.problems],
    }


def run_document(run: Run) -> Document:
    """Return the run as every document of a run shows it."""
    return {
        "id": run.id,
        "dir": run.directory,
        "command": _or_missing(run.command),
        "started": _or_missing(run.started),
        "name": None if isinstance(run.name, Missing) else run.name,
        "tags": dict(run.tags),
        "state": run.state,
        "why_unknown": run.why_unknown or None,
    }


def loop_document(item: LoopReport) -> Document:
    """Return a loop as every document shows it."""
    loop = item.loop
    facts: Document = {
        "kind": loop.kind,
        "name": loop.name,
        "thread": loop.thread,
        "threads": loop.threads,
        "count": loop.count,
        "raised": loop.raised,
        "sampled": loop.sampled,
        "steps": loop.count * loop.steps_per_execution,
        "steps_per_execution": loop.steps_per_execution,
        "optimizer_steps": _or_missing(loop.optimizer_steps),
        "retraces": loop.retraces,
    }
    if loop.queue is not None:
        facts["queue"] = {**asdict(loop.queue), "note": queue_note(loop, loop.queue)}
    return facts | _times_document(item.times)


# Of few calls that were waited for, one that compiles is most of the mean.
_LEAST_CALLS = 20


def queue_note(loop: Loop, queue: StepQueue) -> str:
    """Return what the times of a loop are whose calls only queue its steps."""
    unknown = unknown_times(loop)
    if unknown is not None:
        return f"{loop.kind} {loop.name}: {unknown.reason}. How long its steps take is not known."
    sentence = f"Calls of {loop.kind} {loop.name} only queue its steps"
    if queue.waits >= _LEAST_CALLS:
        sentence += f" (a call takes {numbers.duration(queue.call_ns / queue.waits)} in the mean)"
    if loop.kind in TORCH_KINDS:
        sentence += "; a step ends when the device has run it, by the time of traced steps"
    else:
        sentence += "; a step ends when the program has waited for it"
    if not queue.is_one_by_one:
        who = ". The program waits" if loop.kind in TORCH_KINDS else ","
        sentence += (
            f"{who} about once in {queue.steps_per_wait:.3g} steps, so times of single steps are "
            f"means of the steps up to a wait, and the time shown between steps is that in which "
            f"the device was idle"
        )
    if queue.unfinished:
        last = "the last" if queue.unfinished == 1 else f"the last {queue.unfinished:,}"
        sentence += f". Not waited for: {last}"
    if queue.undivided:
        first = "the first" if queue.undivided == 1 else f"the first {queue.undivided:,}"
        sentence += (
            f". Without a time, because the program waited for them together with those of "
            f"another loop: {first}"
        )
    return sentence + "."


def process_report(process: Process, profile: Profile) -> ProcessReport:
    """Return a process with its loops, longest first, and what recording cost it."""
    loops = [w for w in profile.loops if w.process == process.index]
    reports = [LoopReport(loop, step_time_summary(loop)) for loop in loops]
    return ProcessReport(
        process=process,
        loops=tuple(sorted(reports, key=lambda item: (-item.loop.times.sum_ns, item.loop.index))),
        overhead=recording_overhead(process, loops),
    )


def _without_steps(item: ProcessReport) -> ProcessReport:
    loops = (LoopReport(in_sum(loop.loop), loop.times) for loop in item.loops)
    return replace(item, loops=tuple(loops))


def _placed(item: ProcessReport, process: Process) -> ProcessReport:
    """Return the report of a process that has its place among all of a run now."""
    loops = (
        LoopReport(replace(loop.loop, process=process.index), loop.times) for loop in item.loops
    )
    return replace(item, process=process, loops=tuple(loops))


def _is_of_no_process(problem: Problem) -> bool:
    return problem.where in _RUN or problem.where.startswith(_MACHINE)


def _process_document(item: ProcessReport, account: Account | Missing) -> Document:
    process = item.process
    return {
        "host": process.host,
        "pid": process.pid or None,
        "folder": process.folder,
        "program": process.shown_program,
        "rank": process.rank,
        "python": _or_missing(process.python),
        "tensorflow": _or_missing(process.tensorflow),
        **({} if process.jax is None else {"jax": process.jax}),
        **({} if process.torch is None else {"torch": process.torch}),
        "state": process.state,
        **endings.ending_document(process.ending),
        "devices": _or_missing(process.devices),
        "work": [loop_document(loop) for loop in item.loops],
        "captures": process.captures,
        "account": account_document(account),
        "overhead": overhead_document(item.overhead),
    }


def _times_document(times: StepTimeSummary | Missing) -> Document:
    names = ("total_ns", "mean_ns", "p50_ns", "p95_ns", "min_ns", "max_ns", "error_ratio")
    if isinstance(times, Missing):
        # None, so that every loop has the same keys; "missing" says why.
        return {**dict.fromkeys(names), "missing": times.reason}
    values = (times.total_ns, times.mean_ns, times.p50_ns, times.p95_ns, times.min_ns, times.max_ns)
    return {**dict(zip(names, values, strict=False)), "error_ratio": times.error_ratio}


def overhead_document(item: Overhead | Missing) -> Document:
    """Return what recording cost a process."""
    if isinstance(item, Missing):
        return {"missing": item.reason}
    return {
        "fraction": item.fraction_ratio,
        "traced_ns": item.traced_ns,
        "hook_ns": item.hook_ns,
        "wall_ns": item.wall_ns,
        "unmeasured_calls": item.unmeasured_calls,
    }


def _ops_document(table: OpTable | Missing) -> list[Document]:
    if isinstance(table, Missing):
        return []
    return [
        {
            "type": op.type,
            "occurrences": op.runs,
            "total_ns": op.time_ns,
            "accelerator_ns": op.accelerator_ns,
            "cpu_ns": op.cpu_ns,
            "bytes": op.bytes if table.has_bytes else None,
        }
        for op in table.types
    ]


def _or_missing(value: object) -> object:
    if isinstance(value, Missing):
        return None
    return list(value) if isinstance(value, tuple) else value
