"""Fault injection: whatever function of the agent fails, the job never notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import faults
from tests.tf.laboratory import JOBS, Laboratory

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
    if (workload == "eager") != (laboratory.tensorflow >= (2, 0)):
        pytest.skip("TensorFlow 1 runs sessions, and TensorFlow 2 executes eagerly")
    boot = tmp_path / "run" / "boot"
    faults.build(boot)
    command = [laboratory.python, str(JOBS / "faults.py"), workload]

    faults.assert_harmless(command, boot, patience_s=PATIENCE_S)
