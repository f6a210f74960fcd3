"""Gather what a report says of a run, and write it as the tfprobe.report/1 document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfprobe.errors import Missing
from tfprobe.model.profile import Problem, Process, Profile, Run, Work
from tfprobe.views import application, hardware, ops, overhead, silence, steps
from tfprobe.views.application import ProcessActivities
from tfprobe.views.breakdown import whole
from tfprobe.views.breakdown.documents import shares_document
from tfprobe.views.breakdown.whole import Breakdown
from tfprobe.views.hardware import Hardware
from tfprobe.views.ops import OpTable
from tfprobe.views.overhead import Overhead
from tfprobe.views.steps import StepTimes

SCHEMA = "tfprobe.report/1"
# Any: a JSON document, whose values are whatever the schema says.
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WorkReport:
    """A work with the times of its steps."""

    work: Work
    times: StepTimes | Missing


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """A process with its works, longest first, and what recording cost it."""

    process: Process
    works: tuple[WorkReport, ...]
    overhead: Overhead | Missing


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a report says."""

    run: Run
    processes: tuple[ProcessReport, ...]
    breakdown: Breakdown | Missing
    ops: OpTable | Missing
    activities: tuple[ProcessActivities, ...]
    hardware: Hardware
    silences: tuple[str, ...]
    problems: tuple[Problem, ...]


def gather(profile: Profile) -> Report:
    """Return the report of a profile."""
    return Report(
        run=profile.run,
        processes=tuple(process_report(process, profile) for process in profile.processes),
        breakdown=whole.divide(profile),
        ops=ops.by_type(profile),
        activities=application.activities(profile),
        hardware=hardware.hardware(profile),
        silences=silence.explain(profile),
        problems=profile.problems,
    )


def document(report: Report, findings: Sequence[Document] = ()) -> Document:
    """Return the tfprobe.report/1 document: times in µs, bytes, fractions of 1.

    `findings` are those of the advice, as documents.
    """
    return {
        "schema": SCHEMA,
        "run": run_document(report.run),
        "processes": [_process_document(process) for process in report.processes],
        "breakdown": shares_document(report.breakdown),
        "ops": _ops_document(report.ops),
        "findings": list(findings),
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
        "state": run.state,
    }


def work_document(item: WorkReport) -> Document:
    """Return a work as every document shows it."""
    work = item.work
    facts: Document = {
        "kind": work.kind,
        "name": work.name,
        "thread": work.thread,
        "count": work.count,
        "raised": work.raised,
        "sampled": work.sampled,
        "steps": work.count * work.steps_per_execution,
        "steps_per_execution": work.steps_per_execution,
        "optimizer_steps": _or_missing(work.optimizer_steps),
        "retraces": work.retraces,
    }
    return facts | _times_document(item.times)


def process_report(process: Process, profile: Profile) -> ProcessReport:
    """Return a process with its works, longest first, and what recording cost it."""
    works = [w for w in profile.works if w.process == process.index]
    reports = [WorkReport(work, steps.summarise(work)) for work in works]
    return ProcessReport(
        process=process,
        works=tuple(sorted(reports, key=lambda item: (-item.work.times.sum_ns, item.work.index))),
        overhead=overhead.measure(process, works),
    )


def _process_document(item: ProcessReport) -> Document:
    process = item.process
    return {
        "host": process.host,
        "pid": process.pid or None,
        "folder": process.folder,
        "rank": process.rank,
        "python": _or_missing(process.python),
        "tensorflow": _or_missing(process.tensorflow),
        "state": process.state,
        "devices": _or_missing(process.devices),
        "work": [work_document(work) for work in item.works],
        "captures": process.captures,
        "overhead": _overhead_document(item.overhead),
    }


def _times_document(times: StepTimes | Missing) -> Document:
    names = ("total_us", "mean_us", "p50_us", "p95_us", "min_us", "max_us", "error_ratio")
    if isinstance(times, Missing):
        # None, so that every work has the same keys; "missing" says why.
        return {**dict.fromkeys(names), "missing": times.reason}
    values = (times.total_ns, times.mean_ns, times.p50_ns, times.p95_ns, times.min_ns, times.max_ns)
    return {**dict(zip(names, map(_us, values), strict=False)), "error_ratio": times.error_ratio}


def _overhead_document(item: Overhead | Missing) -> Document:
    if isinstance(item, Missing):
        return {"missing": item.reason}
    return {
        "fraction": item.fraction_ratio,
        "traced_us": _us(item.traced_ns),
        "hook_us": _us(item.hook_ns),
        "wall_us": _us(item.wall_ns),
        "unmeasured_calls": item.unmeasured_calls,
    }


def _ops_document(table: OpTable | Missing) -> list[Document]:
    if isinstance(table, Missing):
        return []
    return [
        {
            "type": op.type,
            "occurrences": op.occurrences,
            "total_us": _us(op.total_ns),
            "accelerator_us": _us(op.accelerator_ns),
            "cpu_us": _us(op.cpu_ns),
            "bytes": op.bytes if table.has_bytes else None,
        }
        for op in table.types
    ]


def _or_missing(value: object) -> object:
    if isinstance(value, Missing):
        return None
    return list(value) if isinstance(value, tuple) else value


def _us(duration_ns: float) -> float:
    return duration_ns / 1000
