"""Fault injection: whatever function of the agent fails, a job of Keras and JAX never notices."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import faults
from tests.tf.laboratory import Laboratory, environment_of_a_job

JOB = Path(__file__).parent / "jobs" / "faults.py"
# One process for each of some 100 functions takes minutes on a busy machine.
PATIENCE_S = 900


@pytest.mark.timeout(2 * PATIENCE_S)
def test_no_fault_of_ours_reaches_the_job(laboratory: Laboratory, tmp_path: Path) -> None:
    """Each function of `frameworks/` that is entered while the job runs is made to raise in a
    process of its own: every one prints and ends as the bare job does.
    """
    boot = tmp_path / "run" / "boot"
    faults.build(boot)

    bare = _run(laboratory, {})
    faulty = _run(laboratory, {"PYTHONPATH": str(boot)})

    assert bare.stdout == faulty.stdout
    assert _faults_tried(faulty.stderr) > 60


def _run(laboratory: Laboratory, extra: dict[str, str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [laboratory.python, str(JOB)],
        env=environment_of_a_job(extra),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=os.path.sep,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done


def _faults_tried(stderr: str) -> int:
    line = next(line for line in stderr.splitlines() if line.startswith("FAULTS "))
    return int(line.split()[1])
