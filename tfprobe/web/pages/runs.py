"""The runs of a directory: what each is, how fast it is, and what it waits for."""

from __future__ import annotations

from tfprobe.analysis.jobs.fleet import ProcessRow, RunRow, run_rows
from tfprobe.errors import Missing
from tfprobe.profile.profile import LIVE_STATES
from tfprobe.profile.snapshots import FleetSnapshot
from tfprobe.report.documents.document import Document, with_reasons

# More than a person looks through; newest are first.
MOST_RUNS = 2000
# Of a command as somebody wrote it; the rest is in the run's own pages.
MOST_CHARACTERS = 2000

NO_PROCESS = Missing("no process has reported yet")


def document(look: FleetSnapshot) -> Document:
    """Return the runs of a look, newest first.

    Steps, times and shares of a run are those of its process with most steps, since the ranks of a
    job step together. What is not known is null, and `missing` says why, by key.
    """
    rows = run_rows(look)
    return {
        "at_unix_ns": look.at_unix_ns,
        "runs": [_run(row) for row in rows[:MOST_RUNS]],
        "left_out": max(len(rows) - MOST_RUNS, 0),
        "problems": [problem.what for problem in look.problems],
    }


def _run(row: RunRow) -> Document:
    lead = max(row.processes, key=lambda process: process.steps, default=None)
    facts: Document = {
        "id": row.id,
        "state": row.state,
        "started_unix_ns": row.started_unix_ns,
        "command": row.command if isinstance(row.command, Missing) else _written(row.command),
        "host": row.host,
        "user": row.user,
        "processes": len(row.processes),
        "live_processes": sum(process.state in LIVE_STATES for process in row.processes),
        "captures": sum(process.captures for process in row.processes),
        **_pace(lead),
    }
    return {**with_reasons(facts), "problems": len(row.problems)}


def _pace(lead: ProcessRow | None) -> Document:
    if lead is None:
        keys = ("steps", "steps_per_s", "p50_ns", "trend_ns", "since_last_step_ns", "shares")
        return dict.fromkeys(keys, NO_PROCESS)
    shares = lead.shares
    return {
        "steps": lead.steps,
        "steps_per_s": lead.steps_per_s,
        "p50_ns": lead.p50_ns,
        "trend_ns": lead.trend_ns,
        "since_last_step_ns": lead.since_last_step_ns,
        "shares": shares
        if isinstance(shares, Missing)
        else {
            "before_ratio": shares.before_ratio,
            "on_ratio": shares.on_ratio,
            "after_ratio": shares.after_ratio,
            "other_ratio": shares.other_ratio,
        },
    }


def _written(command: tuple[str, ...]) -> str:
    return " ".join(command)[:MOST_CHARACTERS]
