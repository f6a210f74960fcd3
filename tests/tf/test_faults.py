"""Fault injection: whatever function of the agent fails, the job never notices."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import faults
from tests.tf.laboratory import JOBS, Laboratory, environment_of_a_job

# One process for each of some 200 functions takes minutes on a busy machine.
PATIENCE_S = 900


@pytest.mark.timeout(2 * PATIENCE_S)
@pytest.mark.parametrize("workload", ["session", "eager"])
def test_no_fault_of_ours_reaches_the_job(
    laboratory: Laboratory, workload: str, tmp_path: Path
) -> None:
    """Each function that the agent enters while the workload runs is made to raise in a process of
    its own: every one prints and ends as the bare job does.
    """
    if workload == "eager" and laboratory.tensorflow < (2, 0):
        pytest.skip("TensorFlow 1 does not execute eagerly by itself")
    boot = tmp_path / "run" / "boot"
    faults.build(boot)
    command = [laboratory.python, str(JOBS / "faults.py"), workload]

    bare = _run(command, {})
    faulty = _run(command, {"PYTHONPATH": str(boot)})

    assert bare.stdout == faulty.stdout
    assert _faults_tried(faulty.stderr) > 60


def _run(command: list[str], extra: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environment = environment_of_a_job(extra)
    done = subprocess.run(
        command,
        env=environment,
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
