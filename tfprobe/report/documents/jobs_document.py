"""Write a snapshot of running jobs as a document: times in ns."""

from __future__ import annotations

from collections.abc import Sequence

from tfprobe.analysis.jobs.fleet import LoopRow, ProcessRow, RunRow, run_rows
from tfprobe.errors import Missing
from tfprobe.profile.profile import Problem
from tfprobe.profile.snapshots import FleetSnapshot, LoopShares, WallTime
from tfprobe.report.documents.document import Document, with_reasons

SCHEMA = "tfprobe.top/1"


def jobs_document(look: FleetSnapshot) -> Document:
    """Return the document, tfprobe.top/1 when published: times in ns, bytes, fractions of 1.

    What is not known is null, and `missing` says why, by key.
    """
    return {
        "schema": SCHEMA,
        "dir": look.directory,
        "at_unix_ns": look.at_unix_ns,
        "runs": [_run_document(row) for row in run_rows(look)],
        "problems": _problems(look.problems),
    }


def _run_document(row: RunRow) -> Document:
    facts: Document = {
        "id": row.id,
        "dir": row.directory,
        "command": list(row.command) if isinstance(row.command, tuple) else row.command,
        "started": row.started,
        "started_unix_ns": row.started_unix_ns,
        "state": row.state,
        "host": row.host,
        "user": row.user,
    }
    return {
        **with_reasons(facts),
        "processes": [_process_document(process) for process in row.processes],
        "problems": _problems(row.problems),
    }


def _process_document(row: ProcessRow) -> Document:
    facts: Document = {
        "host": row.host,
        "pid": row.pid,
        "folder": row.folder,
        "program": row.title or row.program or None,
        "rank": row.rank,
        "role": row.role,
        "state": row.state,
        "started_unix_ns": row.started_unix_ns,
        "steps": row.steps,
        **_pace(row),
        "since_last_step_ns": row.since_last_step_ns,
        "overhead_ratio": row.overhead_ratio,
        "cpus_used": row.cpus_used,
        "resident_bytes": row.resident_bytes,
        "gpu_ratio": row.gpu_ratio,
        "gpu_memory_bytes": row.gpu_memory_bytes,
        "captures": row.captures,
        "samples_left": row.samples_left,
        "shares": row.shares if isinstance(row.shares, Missing) else _shares(row.shares),
        "goodput_ratio": row.goodput_ratio,
        "account": _account(row.wall_time),
    }
    return {**with_reasons(facts), "work": [_loop_document(loop) for loop in row.loops]}


def _loop_document(row: LoopRow) -> Document:
    facts: Document = {
        "index": row.index,
        "kind": row.kind,
        "name": row.name,
        "thread": row.thread,
        "count": row.count,
        "raised": row.raised,
        "sampled": row.sampled,
        **_pace(row),
    }
    return with_reasons(facts)


def _pace(row: ProcessRow | LoopRow) -> Document:
    trend = row.trend_ns
    return {
        "steps_per_s": row.steps_per_s,
        "p50_ns": row.p50_ns,
        "p95_ns": row.p95_ns,
        "trend_ns": trend if isinstance(trend, Missing) else list(trend),
    }


def _shares(shares: LoopShares) -> Document:
    return {
        "unit": "fraction",
        "before": shares.before_ratio,
        "on": shares.on_ratio,
        "after": shares.after_ratio,
        "other": shares.other_ratio,
        "captures": shares.captures,
        "newest_unix_ns": shares.newest_unix_ns,
    }


def _account(found: WallTime | Missing) -> Document | Missing:
    """Return the account of docs/account.md by parts alone."""
    if isinstance(found, Missing):
        return found
    parts = [{"part": part, "ns": ns} for part, ns in found.parts_ns]
    return {"wall_ns": found.wall_ns, "parts": parts}


def _problems(problems: Sequence[Problem]) -> list[Document]:
    return [{"where": problem.where, "what": problem.what} for problem in problems]
