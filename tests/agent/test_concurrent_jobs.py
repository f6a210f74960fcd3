"""Many jobs at once with one output directory: nothing is mixed or lost."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tfprobe
from tests.support import toy_tensorflow
from tests.support.agent import PATIENCE_S, TFPROBE

JOB = """
import sys
import tensorflow.python.client.session as session_module
import tensorflow.python.eager.def_function as def_function
session, step = session_module.BaseSession(), def_function.Function()
for i in range(int(sys.argv[1])):
    session.run("loss")
    if i % 3 == 0: step(1)
print(sys.argv[1])
"""


def _launch(folder: Path, steps: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", TFPROBE, "run", "-o", str(folder / "runs"), "--"]
    return subprocess.run(
        [*command, sys.executable, str(folder / "train.py"), str(steps)],
        env={"PYTHONPATH": str(folder / "packages"), "PATH": "/usr/bin:/bin", "HOME": "/"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def _counts(run: Path) -> dict[str, int]:
    return {loop.name: loop.count for loop in tfprobe.open_run(run).loops}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A training script and the toy TensorFlow."""
    toy_tensorflow.write(tmp_path / "packages")
    (tmp_path / "train.py").write_text(JOB)
    return tmp_path


@pytest.mark.slow
def test_jobs_started_at_once_stay_separate_and_complete(folder: Path) -> None:
    """32 of them, each with another number of steps; all end well and print their own number."""
    numbers = [3000 + 7 * index for index in range(32)]

    with ThreadPoolExecutor(32) as pool:
        ended = list(pool.map(lambda number: _launch(folder, number), numbers))

    assert [(job.returncode, job.stdout) for job in ended] == [(0, f"{n}\n") for n in numbers]
    runs = [Path(job.stderr.split("recording to ")[1].splitlines()[0]) for job in ended]
    assert sorted(runs) == sorted((folder / "runs").iterdir())
    assert len(set(runs)) == 32
    for run, number in zip(runs, numbers, strict=True):
        assert _counts(run) == {"loss": number, "step": (number + 2) // 3}
        recording = tfprobe.open_run(run)
        assert [process.state for process in recording.processes] == ["finished"]
        assert recording.profile().problems == ()


def test_two_runs_of_one_job_in_the_same_second_are_two(folder: Path) -> None:
    """Same command, same directory, same moment."""
    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(lambda number: _launch(folder, number), [50, 50]))

    assert [job.returncode for job in ended] == [0, 0]
    runs = sorted((folder / "runs").iterdir())
    assert len(runs) == 2
    assert [_counts(run) for run in runs] == [{"loss": 50, "step": 17}] * 2
