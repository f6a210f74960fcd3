"""Many running jobs of different kinds at once: listed, watched, traced, each in its folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import toy_tensorflow
from tests.support.agent import PATIENCE_S, TFPROBE
from tfprobe.cli.main import main
from tfprobe.errors import Missing
from tfprobe.live.trace_requests import request_traces
from tfprobe.live.watched_runs import Fleet
from tfprobe.profile.snapshots import FleetSnapshot, ProcessAnswer, RequestAnswer
from tfprobe.runs.layout import ProcessFolder, RunFolder, parse_capture_name
from tfprobe.runs.liveness import this_machine
from tfprobe.runs.process_folder.events import read_events
from tfprobe.runs.process_folder.steps import read_steps

STEPS = 3
# The kind of steps that each kind of job makes, and how many of its processes take a trace request.
KINDS = {
    "session": ("session_run", 1),
    "callable": ("callable", 1),
    "fit": ("fit", 1),
    "batches": ("train_on_batch", 1),
    "function": ("function", 1),
    "eager": ("eager", 1),
    "threads": ("session_run", 1),
    "forks": ("session_run", 2),
    "stopped": ("session_run", 0),
    "short": ("session_run", 0),
}
COUNTS = {"session": 5, "callable": 4, "fit": 4, "batches": 3, "function": 4, "eager": 4}
JOB = """
import os, sys, threading, time
import tensorflow.python.client.session as session_module
import tensorflow.python.eager.def_function as def_function
import tensorflow.python.keras.engine.training as training
import tensorflow.python.profiler.profiler_v2
import tensorflow.python.training.optimizer as optimizer_module
from tensorflow.python.eager.backprop import GradientTape

kind = sys.argv[1]
session, function, model = session_module.BaseSession(), def_function.Function(), training.Model()
made, optimizer = session.make_callable("loss"), optimizer_module.Optimizer()

def eager():
    with GradientTape(): pass
    optimizer.apply_gradients([])

step = {"callable": made, "fit": model.fit, "batches": lambda: model.train_on_batch(1),
        "function": lambda: function(1), "eager": eager}.get(kind, lambda: session.run("loss"))

def go_on():
    while True:
        time.sleep(0.02)
        step()

for _ in range(30): step()
if kind == "short": print("stepping"); sys.exit()
if kind == "forks" and os.fork() == 0:
    step()
    os.write(1, b"and the child\\n")
    go_on()
if kind == "threads": threading.Thread(target=go_on, daemon=True).start()
print("stepping", flush=True)
go_on()
"""


@dataclass
class Running:
    """A job, and its run."""

    kind: str
    process: subprocess.Popen[bytes]
    run: RunFolder


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[list[Running]]:
    """Thirty-two jobs that step, except those that have ended or are stopped."""
    toy_tensorflow.write(tmp_path / "packages")
    (tmp_path / "train.py").write_text(JOB)
    counts = {**COUNTS, "threads": 2, "forks": 2, "stopped": 2, "short": 2}
    kinds = [kind for kind, count in counts.items() for _ in range(count)]
    jobs: list[Running] = []
    try:
        with ThreadPoolExecutor(8) as pool:
            jobs += pool.map(lambda kind: _started(tmp_path, kind), kinds)
        for job in jobs:
            _wait_for(job)
        yield jobs
    finally:
        for job in jobs:
            for folder in job.run.processes():
                _kill(int(folder.name.split("-")[0]))
            job.process.kill()
            job.process.communicate()


def _started(folder: Path, kind: str) -> Running:
    command = [sys.executable, "-c", TFPROBE, "run", "--every", "1000000", "-o", folder / "runs"]
    process = subprocess.Popen(
        [*command, "--", sys.executable, folder / "train.py", kind],
        env={"PYTHONPATH": str(folder / "packages"), "PATH": "/usr/bin:/bin", "HOME": "/"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    said = process.stderr.readline().decode()
    return Running(kind, process, RunFolder(Path(said.split("recording to ")[1].strip())))


def _wait_for(job: Running) -> None:
    """Wait until it steps; stop it or let it end, if it is such a job."""
    assert job.process.stdout is not None
    said = {job.process.stdout.readline() for _ in range(2 if job.kind == "forks" else 1)}
    assert b"stepping\n" in said
    if job.kind == "stopped":
        job.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, job.process.pid, os.WSTOPPED)
    if job.kind == "short":
        job.process.wait(PATIENCE_S)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # ended by itself


def _state(job: Running) -> str:
    return {"stopped": "stopped", "short": "finished"}.get(job.kind, "running")


def _expected(job: Running, answer: ProcessAnswer) -> bool:
    if job.kind == "stopped":
        return (answer.answer, answer.state) == (RequestAnswer.NONE, "stopped")
    if job.kind == "short":
        return (answer.answer, answer.state) == (RequestAnswer.ENDED, "finished")
    return answer.answer is RequestAnswer.TAKEN and answer.is_met


@pytest.mark.slow
@pytest.mark.timeout(6 * PATIENCE_S)
def test_thirty_two_jobs_are_listed_watched_and_traced(
    fleet: list[Running], capsys: pytest.CaptureFixture[str]
) -> None:
    """Sessions, Keras, functions, eager loops, forks, threads; some end, some are stopped."""
    runs = fleet[0].run.root.parent

    assert main(["ls", str(runs), "--json"]) == 0
    listed = {run["id"]: run for run in json.loads(capsys.readouterr().out)["runs"]}
    watched = Fleet(runs, this_machine())
    before = watched.look()
    given = [request_traces(job.run, this_machine(), steps=STEPS) for job in fleet]
    for request in given:
        request.follow(until_met=True, patience_s=PATIENCE_S, tell=_ignore)
    after = watched.look()
    answers = [request.answers() for request in given]
    for job in fleet:
        job.process.kill()

    assert len(fleet) == len(listed) == 32
    assert {job.run.id: _state(job) for job in fleet} == {i: r["state"] for i, r in listed.items()}
    assert [
        (job.kind, answer)
        for job, of_job in zip(fleet, answers, strict=True)
        for answer in of_job
        if not _expected(job, answer)
    ] == []
    for job, of_job in zip(fleet, answers, strict=True):
        _check_watched(job, before, after)
        _check_captures(job, of_job)


def _check_watched(job: Running, before: FleetSnapshot, after: FleetSnapshot) -> None:
    """Its steps went on, and the second snapshot has its captures and nothing left to take."""
    kind, takers = KINDS[job.kind]
    first, second = (
        {
            process.process.pid: process
            for run in look.runs
            if run.run.id == job.run.id
            for process in run.processes
        }
        for look in (before, after)
    )
    assert len(first) == len(second) == max(takers, 1)
    for pid, process in second.items():
        assert process.process.state == _state(job)
        assert {loop.kind for loop in process.loops} == {kind}
        made = [sum(loop.executed for loop in snapshot.loops) for snapshot in (first[pid], process)]
        assert made[0] < made[1] if takers else made[0] == made[1]
        assert not isinstance(process.request, Missing)
        assert (process.request.seen, process.request.left) == ((1, 0) if takers else (0, 0))
        assert process.process.captures >= (STEPS if takers else 0)


def _check_captures(job: Running, answers: tuple[ProcessAnswer, ...]) -> None:
    """Each process has the captures of its own steps and its own kind of loop, and no others."""
    kind, takers = KINDS[job.kind]
    folders = {folder.name: folder for folder in job.run.processes()}
    pids = {str(answer.pid) for answer in answers}
    assert str(job.process.pid) in pids
    assert len(folders) == len(pids) == max(takers, 1)
    for answer in answers:
        captures = {capture.file for capture in answer.captures}
        assert {path.name for path in folders[answer.process].capture_files()} == captures
        assert len(captures) >= (STEPS if takers else 0)
        assert {(name and name.kind) for name in map(parse_capture_name, captures)} <= {kind}
        assert captures == _flagged(folders[answer.process])


def _flagged(folder: ProcessFolder) -> set[str]:
    """Return the captures of the steps that steps.bin flags as traced, from the events."""
    loops = read_steps(folder.steps).loops
    flagged = {
        (loop.index, loop.recent.first_step + row)
        for loop in loops
        for row, sampled in enumerate(loop.recent.sampled)
        if sampled
    }
    events = [event for event in read_events(folder.events).events if event.kind == "sample"]
    assert {(event.integer("work"), event.integer("step")) for event in events} == flagged
    return {str(event.text("capture")) for event in events}


def _ignore(_: tuple[ProcessAnswer, ...]) -> None:
    """Ignore the news."""
