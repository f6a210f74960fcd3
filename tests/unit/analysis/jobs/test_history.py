"""Runs of one job are found among all of a directory, by name or by command."""

from __future__ import annotations

from typing import Any

from tfprobe.analysis.jobs.run_selection import earlier_runs, job_key, jobs
from tfprobe.errors import Missing
from tfprobe.profile.snapshots import RunLine


def line(at: int, command: str = "python a.py", **facts: Any) -> RunLine:
    known: dict[str, Any] = {"processes": 1, "steps": 100, "state": "finished", **facts}
    started = f"2026-11-20T20:{at:02}:00+00:00"
    return RunLine(f"r{at}", f"/runs/r{at}", tuple(command.split()), started, "node7", **known)


def test_a_job_is_its_name_or_its_command():
    """Another interpreter runs the same job; a name outweighs the command."""
    assert job_key(line(1)) == job_key(line(2, "/opt/python a.py"))
    assert job_key(line(1)) != job_key(line(2, "python a.py --jit"))
    assert job_key(line(1, name="night")) == job_key(line(2, "python b.py", name="night"))
    assert job_key(line(1, name="night")) != job_key(line(1))
    assert job_key(line(1, "train")) != job_key(line(1, "serve"))


def test_earlier_runs_are_those_that_can_be_compared():
    """The same job, before it, ended, with steps; oldest first."""
    run = line(9)
    runs = [
        run,
        line(12),
        line(5),
        line(3),
        line(4, "python b.py"),
        line(6, state="running"),
        line(7, steps=0),
    ]

    assert [each.id for each in earlier_runs(run, runs)] == ["r3", "r5"]


def test_a_run_that_does_not_say_what_it_is_has_no_history():
    """Without run.json nothing tells what job it was."""
    lost = RunLine("lost", "/runs/lost", *[Missing("run.json is lost")] * 3, 1, 9, "unknown")

    assert earlier_runs(lost, [lost, line(1)]) == ()
    assert jobs([lost, line(1)]) == ((line(1),),)


def test_jobs_are_groups_of_runs():
    """The job that ran last comes first, and its runs oldest first."""
    runs = [line(4), line(1), line(3, "python b.py"), line(2, "python b.py")]

    assert [[run.id for run in job] for job in jobs(runs)] == [["r1", "r4"], ["r2", "r3"]]
