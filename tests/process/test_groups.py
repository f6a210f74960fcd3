"""Tests of the matrix that share a job run in one process, so that the job is run once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = ("tests/tf/test_fixes.py", "tests/jax/test_trial.py", "tests/torch/test_lines.py")
# What pytest-xdist prints of a test that has ended.
ENDED = re.compile(r"\[(gw\d+)\].* SKIPPED (\S+\.py)::.*@(\w+)")


def test_tests_of_one_job_are_run_by_one_worker() -> None:
    """Without an interpreter to test they are skipped, where they would have run."""
    command = [sys.executable, "-m", "pytest", *MODULES, "-v", "-n", "2", "--dist=loadgroup"]
    environment = {key: value for key, value in os.environ.items() if key != "TFPROBE_TEST_PYTHON"}

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout
    workers = defaultdict(set)
    for worker, module, group in ENDED.findall(done.stdout):
        workers[module, group].add(worker)
    assert {module for module, _ in workers} == set(MODULES)
    assert all(len(of_group) == 1 for of_group in workers.values()), workers
