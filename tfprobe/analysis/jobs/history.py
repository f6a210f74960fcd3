"""Find the runs of one job among all of a directory: those of its name, or of its command."""

from __future__ import annotations

from collections.abc import Sequence

from tfprobe.errors import Missing
from tfprobe.profile.snapshots import RunLine

Key = tuple[str, tuple[str, ...]]


def job_key(run: RunLine) -> Key | Missing:
    """Return what runs of one job have in common: their name, else their command.

    The path of the program is left out: another interpreter runs the same job.
    """
    if not isinstance(run.name, Missing):
        return "name", (run.name,)
    if isinstance(run.command, Missing):
        return run.command
    return "command", tuple(run.command[1:] or run.command)


def earlier_runs(run: RunLine, runs: Sequence[RunLine]) -> tuple[RunLine, ...]:
    """Return the runs of the same job that ended before this one and have steps, oldest first."""
    key = job_key(run)
    if isinstance(key, Missing) or isinstance(run.started, Missing):
        return ()
    found = [
        other
        for other in runs
        if other.id != run.id
        and job_key(other) == key
        and other.steps
        and not other.is_live
        and _start(other) < run.started
    ]
    return tuple(sorted(found, key=_start))


def jobs(runs: Sequence[RunLine]) -> tuple[tuple[RunLine, ...], ...]:
    """Return the runs of each job, oldest first; the job that ran last comes first."""
    groups: dict[Key, list[RunLine]] = {}
    for run in sorted(runs, key=_start):
        key = job_key(run)
        if not isinstance(key, Missing):
            groups.setdefault(key, []).append(run)
    return tuple(sorted(map(tuple, groups.values()), key=lambda job: _start(job[-1]), reverse=True))


def _start(run: RunLine) -> str:
    # As run.json writes it, which sorts by time.
    return "" if isinstance(run.started, Missing) else run.started
