"""Fault injection: whatever function of the agent fails, a job of PyTorch never notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import faults
from tests.tf.laboratory import Laboratory

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

    faults.assert_harmless([laboratory.python, str(JOB)], boot, patience_s=PATIENCE_S)
