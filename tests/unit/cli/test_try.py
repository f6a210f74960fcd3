"""`tfprobe try` with a run of the same command: what cannot apply is told, and not run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.rundir import (
    LAYOUT,
    UNIX_NS,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)
from tests.support.trials import TRIAL
from tfprobe.cli.main import main
from tfprobe.findings.fixes import ChosenFix
from tfprobe.findings.trials import Trial
from tfprobe.trial.conduct import Conductor

JOB = ["--", "python", "train.py", "--epochs", "3"]


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch) -> Path:
    """A run of an eager loop; in the directory of all runs, which is below the working one."""
    monkeypatch.chdir(tmp_path)
    loop = WrittenLoop(kind="eager", name="Adam", steps=regular_steps(30))
    ended = {LAYOUT.STATE_WORD: LAYOUT.FINISHED, LAYOUT.EXIT_WORD: UNIX_NS}
    process = WrittenProcess(loops=[loop], header=ended)
    return write_run(tmp_path / "tfprobe-runs" / "r1", [process])


@pytest.fixture
def conducted(monkeypatch) -> list[str]:
    """What would be run, by name; nothing is."""
    names: list[str] = []

    def conduct(_self: Any, fixes: tuple[ChosenFix, ...], *_rest: Any) -> Trial:
        names.extend(one.text for one in fixes)
        return replace(TRIAL, fixes=(), combined=None, delays=())

    monkeypatch.setattr(Conductor, "conduct", conduct)
    return names


def _said(text: str) -> str:
    return " ".join(text.split())


def test_what_the_recording_excludes_is_told_without_an_arm(conducted, capsys) -> None:
    """As not applied, beside the others."""
    assert main(["try", "--yes", "predict_direct", "function_step", *JOB]) == 0

    assert conducted == ["function_step"]
    said = _said(capsys.readouterr().out)
    assert "predict_direct not applied" in said
    assert "Not applied: it is for Keras, and the job uses TensorFlow." in said


def test_where_nothing_can_apply_nothing_is_started(conducted, capsys) -> None:
    """The reasons are the answer."""
    assert main(["try", "--yes", "pin_memory", *JOB]) == 1

    assert conducted == []
    said = _said(capsys.readouterr().err)
    assert "No fix can change anything in this job. pin_memory: it is for PyTorch" in said


def test_the_list_says_the_same(capsys) -> None:
    """From the same decision."""
    assert main(["try", "--list", *JOB]) == 0

    shown, _, left_out = _said(capsys.readouterr().out).partition("Not applied")
    assert "function_step" in shown
    assert "predict_direct" not in shown
    assert "predict_direct" in left_out
    assert "it is for PyTorch, and the job uses TensorFlow" in left_out
