"""`tfprobe ranks` sets the processes of a run beside each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.rank_runs import write_ranks
from tests.support.rundir import WrittenLoop, WrittenProcess, regular_steps, write_run
from tfprobe.cli.main import main


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Nine ranks on two hosts; rank 0 comes late to the collective of both traced steps."""
    return write_ranks(tmp_path / "r1", 9, 40, sampled=2, resource_samples=2)


def document(capsys, *words: str) -> Any:  # Any: a JSON document
    assert main(["ranks", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_page_tells_who_is_there_and_who_waits(run, capsys) -> None:
    """Each rank has a row; rank 1 waits for rank 0."""
    status = main(["ranks", str(run)])

    text = capsys.readouterr().out
    assert status == 0
    assert "Run r1: 9 processes" in text
    assert "Roles: 9 workers of a world of 9." in text
    assert all(f"rank {rank}" in text for rank in range(9))
    assert "rank 1 rank 0 2 600 µs 300 µs" in " ".join(text.split())


def test_the_document_holds_all_ranks(run, capsys) -> None:
    """With clocks, steps and waits, whatever the page leaves out."""
    found = document(capsys, str(run))

    assert [each["rank"] for each in found["ranks"]] == list(range(9))
    assert (found["schema"], found["world"], found["processes"]) == ("tfprobe.ranks/1", 9, 9)
    [pair] = found["waits"]["pairs"]
    assert (pair["who"], pair["whom"], pair["waiting_us"]) == (1, 0, 600)


@pytest.mark.slow
def test_workers_tell_the_same(run, capsys) -> None:
    """Whoever reads the processes."""
    assert document(capsys, str(run)) == document(capsys, str(run), "--workers", "2")


def test_of_many_processes_the_few_that_matter_are_shown(tmp_path, capsys) -> None:
    """A thousand rows would tell nothing."""
    run = write_ranks(tmp_path / "r1", 40, 20, resource_samples=2)

    assert main(["ranks", str(run)]) == 0

    text = capsys.readouterr().out
    assert "the 16 that matter most" in text
    assert "and 24 more; --json has all." in text


def test_a_corrupt_process_is_said_and_the_rest_answered(run, capsys) -> None:
    """Nothing of the others is lost."""
    [folder] = run.glob("node0/4003-*")
    (folder / "process.json").write_text("{")
    (folder / "steps.bin").write_bytes(b"no steps")

    found = document(capsys, str(run))

    assert found["processes"] == 9
    assert any("Of 9 ranks 1 is not in this run: 3." in each for each in found["facts"])


def test_one_process_is_a_world_of_its_own(tmp_path, capsys) -> None:
    """There is nobody to be compared with, and nothing to complain of."""
    one = WrittenProcess(loops=[WrittenLoop(steps=regular_steps(30))])

    status = main(["ranks", str(write_run(tmp_path / "r1", [one]))])

    said = capsys.readouterr()
    assert status == 0
    assert "Run r1: 1 process" in said.out
    assert "waits" not in said.out


def test_a_run_without_a_process_has_no_answer(tmp_path, capsys) -> None:
    """None has reported yet."""
    status = main(["ranks", str(write_run(tmp_path / "r1"))])

    assert status == 1
    assert "no processes yet" in capsys.readouterr().err


def test_a_work_that_is_not_there_has_no_answer(run, capsys) -> None:
    """It is said where the names of loops are."""
    status = main(["ranks", str(run), "--loop", "nothing"])

    said = capsys.readouterr()
    assert status == 1
    assert "no loop has 'nothing' in its kind and name" in said.err


def test_steps_are_chosen_by_a_range(run, capsys) -> None:
    """Both ends are in it."""
    found = document(capsys, str(run), "--steps", "20-29")

    assert (found["first_step"], found["last_step"]) == (20, 29)


@pytest.mark.parametrize("steps", ["", "x", "9-3", "1-2-3", "-4", "９"])
def test_what_is_no_range_of_steps_is_a_mistake_in_the_command(run, capsys, steps: str) -> None:
    """One paragraph says what one looks like."""
    status = main(["ranks", str(run), "--steps", steps])

    assert status == 2
    assert "--steps 100-200" in capsys.readouterr().err


def test_of_processes_without_roles_no_roles_are_counted(tmp_path, capsys) -> None:
    """As of a script of several programs; the host of a process has a column of its own."""
    run = write_run(tmp_path / "r1", [WrittenProcess(pid=1), WrittenProcess(pid=2)])

    assert main(["ranks", str(run)]) == 0

    text = capsys.readouterr().out
    assert "Roles" not in text
    assert "  States: 2 unknown. On 1 machine (node7)." in text
    assert "  pid 1    node7 " in text
