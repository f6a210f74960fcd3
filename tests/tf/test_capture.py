"""A running job of TensorFlow is recorded through its own profiler service."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.tf.laboratory import JOB_TIMEOUT_S, JOBS, Laboratory, environment_of_a_job
from tests.tf.requirements import need_tensorflow

WANTED = 5


@contextmanager
def served(laboratory: Laboratory, *how: str) -> Iterator[str]:
    """Give the address of the service of a job that trains."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [laboratory.python, str(JOBS / "served.py"), str(port), *how]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment_of_a_job({}),
        text=True,
    ) as job:
        try:
            assert job.stdin is not None
            assert job.stdout is not None
            assert job.stdout.readline() == "ready\n"
            yield f"localhost:{port}"
            # It has come to no harm, and trains to its end.
            job.stdin.close()
            assert job.stdout.readline() == "over\n"
        finally:
            job.kill()


def tfprobe(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tfprobe", *arguments]
    return subprocess.run(command, capture_output=True, timeout=JOB_TIMEOUT_S, text=True)


def captured(laboratory: Laboratory, runs: Path, *how: str) -> Path:
    """Return the run that a capture of a job makes."""
    with served(laboratory, *how) as address:
        done = tfprobe("capture", address, "--steps", str(WANTED), "-o", str(runs), "--json")
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)["dir"])


def test_a_running_loop_is_recorded_and_read(laboratory: Laboratory, tmp_path: Path) -> None:
    """The steps are whole, the ops are those of the job, and every command answers or says why."""
    need_tensorflow(laboratory, (2, 3))

    run = captured(laboratory, tmp_path / "runs", "loop")

    assert [each.name for each in run.parent.iterdir()] == [run.name]
    report = json.loads(tfprobe("report", str(run), "--json").stdout)
    (loop,) = report["processes"][0]["work"]
    assert (report["run"]["state"], report["problems"]) == ("finished", [])
    assert (loop["kind"], loop["name"]) == ("service", "train_step")
    assert loop["count"] >= WANTED
    types = {op["type"] for op in report["ops"]}
    assert any("MatMul" in each for each in types), types
    for command in ("advise", "breakdown", "input", "op", "scope", "steps", "tiers"):
        assert (command, tfprobe(command, str(run)).returncode) == (command, 0)
    for command in ("code", "graph", "memory", "transfers"):
        done = tfprobe(command, str(run))
        assert done.returncode == 0 or (done.returncode, done.stderr.count("\n")) == (1, 1), done
    timeline = tmp_path / "timeline.json"
    assert tfprobe("export", str(run), "--to", "chrome", "-f", str(timeline)).returncode == 0
    assert json.loads(timeline.read_text())["traceEvents"]


def test_steps_of_keras_are_told_apart(laboratory: Laboratory, tmp_path: Path) -> None:
    """Until Keras 3 it marks them, anew in each epoch; later a step is a call of its function."""
    need_tensorflow(laboratory, (2, 3))

    run = captured(laboratory, tmp_path / "runs", "fit")

    (loop,) = json.loads(tfprobe("steps", str(run), "--json").stdout)["work"]
    assert loop["count"] >= WANTED
    assert loop["step_times"]["count"] == loop["count"]


def test_a_job_that_is_profiled_already_says_so(laboratory: Laboratory, tmp_path: Path) -> None:
    """TensorFlow has one profiler in a process, and this one profiles itself."""
    need_tensorflow(laboratory, (2, 3))

    with served(laboratory, "profiled", str(tmp_path / "its own")) as address:
        done = tfprobe("capture", address, "-o", str(tmp_path / "runs"))

    assert (done.returncode, done.stdout) == (1, "")
    assert "Another profiler is active" in done.stderr
    assert list((tmp_path / "runs").iterdir()) == []
