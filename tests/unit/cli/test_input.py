"""`tfprobe input` answers from a recorded run, and refuses limits that make no sense."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.captures import CPU, Node, run_metadata
from tests.support.rundir import WrittenLoop, WrittenProcess, regular_steps, write_run
from tfprobe.cli.main import main


@pytest.fixture
def run(tmp_path: Path) -> str:
    """A run with one recorded Session step that waits for an iterator."""
    name = "000002-session_run-0.run_metadata.pb"
    nodes = [Node("IteratorGetNext", 0, 60), Node("dense/MatMul", 60, 100)]
    process = WrittenProcess(
        manifest={"rank": {"index": 3}},
        loops=[WrittenLoop(steps=regular_steps(30), sampled=[2])],
        captures={name: run_metadata({CPU: nodes})},
        events=[{"event": "sample", "work": 0, "step": 2, "capture": name}],
    )
    return str(write_run(tmp_path / "runs" / "r1", [process]))


@pytest.mark.parametrize(
    "limits",
    [["--moderate", "nan"], ["--high", "nan"], ["--moderate", "30"], ["--high", "4"]],
)
def test_limits_that_order_nothing_are_usage_errors(run: str, capsys, limits: list[str]) -> None:
    """Both are percentages, and a loop is moderately bound before it is highly bound."""
    assert main(["input", run, *limits]) == 2
    assert "--moderate" in capsys.readouterr().err


def test_a_name_that_no_work_has_is_said(run: str, capsys) -> None:
    """With the names that there are, as the other commands do."""
    assert main(["input", run, "--loop", "zzz"]) == 1

    said = capsys.readouterr().err
    assert "No loop has 'zzz' in its kind and name." in said
    assert "There are: session_run" in said


def test_works_have_the_rank_of_their_process(run: str, capsys) -> None:
    """A script tells processes of one job apart by it."""
    assert main(["input", run, "--json"]) == 0

    (loop,) = json.loads(capsys.readouterr().out)["works"]
    assert loop["rank"] == 3
