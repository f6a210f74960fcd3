"""The views of what steps wait for and move take a file from elsewhere in the place of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import kineto
from tfprobe.cli.main import main


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace of PyTorch's profiler with two steps."""
    path = tmp_path / "trace.json"
    path.write_bytes(kineto.training())
    return path


def test_the_steps_of_a_file_are_divided(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each step that the file marks is one, and its parts sum to its time."""
    assert main(["breakdown", str(trace), "--json", "--steps"]) == 0

    (loop,) = json.loads(capsys.readouterr().out)["works"]
    steps = loop["recorded"]
    assert [step["step"] for step in steps] == [4, 5]
    assert [sum(step["parts_us"].values()) for step in steps] == [
        step["cycle_us"] for step in steps
    ]


def test_copies_of_a_file_are_told(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Direction, size and memory of each are read from the trace."""
    assert main(["transfers", str(trace)]) == 0

    shown = capsys.readouterr().out
    assert "host to device" in shown
    assert "traced steps of 2" in shown


def test_input_is_asked_of_a_file(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A trace without input says so."""
    assert main(["input", str(trace)]) == 0

    assert "does not wait for input" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["breakdown", "input", "transfers", "memory"])
def test_a_file_has_no_ranks(trace: Path, command: str) -> None:
    """It is of one process."""
    assert main([command, str(trace), "--rank", "0"]) == 2


@pytest.mark.parametrize("command", ["breakdown", "input", "transfers", "memory"])
def test_a_file_that_is_no_recording_is_refused(tmp_path: Path, command: str) -> None:
    """What is wrong with it is said in words."""
    path = tmp_path / "notes.txt"
    path.write_text("nothing")

    assert main([command, str(path)]) == 3
