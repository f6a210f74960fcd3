"""`tfprobe try` on a real program: fixes are applied and compared, and its files stay."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tf.laboratory import environment_of_a_job

JOB = Path(__file__).parent / "jobs" / "slowed_down.py"


@pytest.fixture(scope="module")
def tried(laboratory, tmp_path_factory) -> tuple[dict[str, Any], Path]:
    """Return the document of a trial, and the directory of the job."""
    folder = tmp_path_factory.mktemp("try")
    work = folder / "work"
    work.mkdir()
    shutil.copy(JOB, work / "train.py")
    command = [sys.executable, "-m", "tfprobe", "try", "--yes", "--json", "--steps", "60"]
    command += ["anomaly_off", "pin_memory", "-o", str(folder / "runs")]
    ended = subprocess.run(
        [*command, "--", laboratory.python, "train.py"],
        cwd=work,
        env=environment_of_a_job({"PYTHONPATH": str(Path(__file__).parents[2])}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout), work


def test_a_fix_is_applied_and_leaves_the_weights_as_they_were(tried) -> None:
    """Whatever it wins on this machine."""
    document, _ = tried
    fix = next(fix for fix in document["fixes"] if fix["fix"] == "anomaly_off")

    assert fix["applied"]["anomaly_off"]["times"] > 0
    assert fix["applied"]["anomaly_off"]["source"].endswith("train.py:5")
    assert fix["verdict"] in ("won", "lost", "cannot be told")
    if fix["gain_ratio"] is None:
        assert "units after the warm-up" in fix["missing"]["gain"]  # a machine that stood still
    else:
        assert fix["low_ratio"] <= fix["gain_ratio"] <= fix["high_ratio"] < 1
    assert fix["results"] == "identical"


def test_a_fix_that_does_not_apply_says_why(tried) -> None:
    """There is no accelerator to copy to, as the first base shows: it is not run."""
    document, _ = tried
    fix = next(fix for fix in document["fixes"] if fix["fix"] == "pin_memory")

    assert fix["verdict"] == "not applied"
    assert fix["gain_ratio"] is None
    assert (fix["missing"]["gain"], fix["processes"]) == ("the job uses no accelerator", 0)


def test_nothing_that_the_job_wrote_is_there(tried) -> None:
    """It saves its weights at each step."""
    _, work = tried

    assert [path.name for path in work.iterdir()] == ["train.py"]
