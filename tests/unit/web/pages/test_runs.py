"""The list of runs: what each is, how fast it is, and what it waits for."""

from __future__ import annotations

import json

from tests.support import looks
from tfprobe.errors import Missing
from tfprobe.web.pages import runs


def test_a_run_is_told_by_its_process_with_most_steps():
    """The ranks of a job step together: adding them up would tell of steps that nobody made."""
    ranks = [looks.process([looks.steps(count)], rank=at) for at, count in enumerate((10, 30, 20))]

    (run,) = runs.document(looks.fleet(looks.run(ranks)))["runs"]

    assert (run["processes"], run["live_processes"]) == (3, 3)
    assert (run["steps"], run["p50_ns"]) == (30, 10_000_000)
    assert run["command"] == "python train.py"
    assert sum(run["shares"].values()) == 1


def test_what_is_not_known_has_a_reason():
    """A dash without one leaves a person guessing."""
    unknown = looks.run([], command=Missing("run.json was lost"), host=Missing("who knows"))

    (run,) = runs.document(looks.fleet(unknown))["runs"]

    assert (run["command"], run["steps"]) == (None, None)
    assert run["missing"]["command"] == "run.json was lost"
    assert run["missing"]["steps"] == "no process has reported yet"
    assert {key for key, value in run.items() if value is None} == set(run["missing"])


def test_a_long_list_is_cut_and_says_so(monkeypatch):
    """Newest first, as they are."""
    monkeypatch.setattr(runs, "MOST_RUNS", 2)

    found = runs.document(looks.fleet(*[looks.run(id=f"r{at}") for at in range(5)]))

    assert [run["id"] for run in found["runs"]] == ["r0", "r1"]
    assert found["left_out"] == 3


def test_a_hostile_command_is_cut():
    """Somebody's argument of a megabyte is not sent each second."""
    (run,) = runs.document(looks.fleet(looks.run(command=("x" * 1_000_000,))))["runs"]

    assert len(json.dumps(run)) < 5000
