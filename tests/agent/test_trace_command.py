"""`tfprobe trace` with real processes that are idle, die, decline, or get two requests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import PATIENCE_S, TFPROBE, Laboratory
from tfprobe.cli.main import main
from tfprobe.live.trace_requests import request_traces
from tfprobe.profile.snapshots import RequestAnswer
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine
from tfprobe.runs.trace_requests import request_status

# One step for each line on stdin: s of a session, f of a function; d exits at once.
BY_LINES = """
step = def_function.Function()
print("ready", flush=True)
for line in sys.stdin:
    if line.startswith("d"): os._exit(7)
    if line.startswith("s"): session.run("loss")
    if line.startswith("f"): step(1)
    print("stepped", flush=True)
"""


class Job:
    """A job that steps on command."""

    def __init__(self, laboratory: Laboratory, process: subprocess.Popen[bytes]) -> None:
        self.laboratory = laboratory
        self.process = process
        self._expect(b"ready\n")

    def step(self, kinds: str) -> None:
        for kind in kinds:
            self.send(kind)
            self._expect(b"stepped\n")

    def send(self, kind: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{kind}\n".encode())
        self.process.stdin.flush()

    def _expect(self, line: bytes) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == line

    @property
    def run(self) -> str:
        return str(self.laboratory.run)

    @property
    def steps(self) -> Path:
        (folder,) = self.laboratory.folders()
        return folder / "steps.bin"


@pytest.fixture
def job(laboratory: Laboratory) -> Iterator[Job]:
    """A job that has made three steps of each kind."""
    with _job(laboratory) as running:
        running.step("sfsfsf")
        yield running


@contextmanager
def _job(laboratory: Laboratory, job: str = "", **config: Any) -> Iterator[Job]:
    laboratory.arm(**{"steps": [[0, 0]], **config})
    process = laboratory.start(job + BY_LINES)
    try:
        yield Job(laboratory, process)
    finally:
        process.kill()
        process.communicate()


def _trace(job: Job, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    status = main(["trace", job.run, "--json", *arguments])
    (process,) = json.loads(capsys.readouterr().out)["processes"]
    return status, process


@contextmanager
def _waiting(job: Job, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start `tfprobe trace --wait` in another process; yield it once its request is written."""
    before = request_status(job.steps).sequence
    command = [sys.executable, "-c", TFPROBE, "trace", job.run, "--wait", "--json", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while request_status(job.steps).sequence == before:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.communicate()


def _ended(process: subprocess.Popen[bytes]) -> tuple[int, Any]:
    stdout, _ = process.communicate(timeout=PATIENCE_S)
    (answer,) = json.loads(stdout)["processes"]
    return process.returncode, answer


def test_waiting_ends_when_the_captures_are_on_disk(job: Job) -> None:
    """The files exist, and are those of the next steps."""
    with _waiting(job, "--steps", "2") as waiting:
        job.step("ss")
        status, answer = _ended(waiting)

    folder = job.steps.parent / "captures"
    assert (status, answer["answer"]) == (0, "taken")
    assert [(c["work"], c["step"]) for c in answer["captures"]] == [(0, 3), (0, 4)]
    assert all((folder / capture["file"]).is_file() for capture in answer["captures"])


def test_an_idle_job_is_reported_as_idle_and_takes_the_request_later(job: Job, capsys) -> None:
    """Nothing new came within the timeout; the request stands."""
    status, answer = _trace(job, capsys, "--steps", "1", "--timeout", "0.1")
    job.step("s")

    assert (status, answer["answer"]) == (1, "no answer")
    assert "no step has begun since; the last one ended" in answer["why"]
    assert request_status(job.steps).left == 0


def test_a_job_without_steps_takes_the_request_with_its_first_step(laboratory, capsys) -> None:
    """A request may come before anything else."""
    with _job(laboratory, steps=[[50, 50]]) as job:
        status, answer = _trace(job, capsys, "--steps", "1", "--timeout", "0")
        job.step("ss")

        assert (status, answer["why"]) == (1, "no step yet")
        assert [e["step"] for e in laboratory.events(kind="sample")] == [0]


def test_ctrl_c_ends_the_waiting_and_not_the_request(job: Job) -> None:
    """The user is told so, and the exit status is that of an interrupt."""
    with _waiting(job, "--steps", "1") as waiting:
        waiting.send_signal(signal.SIGINT)
        _, stderr = waiting.communicate(timeout=PATIENCE_S)
    job.step("s")

    assert waiting.returncode == 130
    assert b"The request stays in effect until another one replaces it." in stderr
    assert request_status(job.steps).left == 0


def test_the_later_of_two_requests_holds_and_the_earlier_is_superseded(job: Job, capsys) -> None:
    """Whether or not the job had seen the first; none is taken twice."""
    with _waiting(job, "--steps", "5") as seen:
        job.step("ss")
        with _waiting(job, "--steps", "4") as unseen:
            _trace(job, capsys, "--steps", "2", "--timeout", "0")
            job.step("ssss")
            first, second = _ended(seen), _ended(unseen)

    assert [(s, a["answer"], len(a["captures"])) for s, a in (first, second)] == [
        (1, "superseded", 2),
        (1, "superseded", 0),
    ]
    assert "replaced it" in first[1]["why"]
    assert len([e for e in job.laboratory.events() if e["event"] == "sample" and e["request"]]) == 4


def test_a_job_that_dies_in_the_middle_is_reported(job: Job) -> None:
    """With what it had recorded by then."""
    with _waiting(job, "--steps", "5") as waiting:
        job.step("ss")
        job.send("d")
        job.process.wait(PATIENCE_S)
        status, answer = _ended(waiting)

    assert (status, answer["answer"], answer["why"]) == (1, "taken", "has ended")
    assert len(answer["captures"]) == 2


def test_a_stopped_job_is_not_waited_for(job: Job, capsys) -> None:
    """It takes the request when it continues."""
    job.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, job.process.pid, os.WSTOPPED)

    status, answer = _trace(job, capsys, "--steps", "1", "--wait", "--timeout", "1000")
    job.process.send_signal(signal.SIGCONT)
    job.step("s")

    assert (status, answer["state"], answer["answer"]) == (1, "stopped", "no answer")
    assert request_status(job.steps).left == 0


def test_a_loop_that_has_stopped_stepping_is_reported(job: Job) -> None:
    """The job has seen the request, and other loops' steps are not for it."""
    given = request_traces(
        RunFolder(job.laboratory.run), this_machine(), steps=1, loop="function step"
    )

    deadline_s = time.monotonic() + PATIENCE_S
    while request_status(job.steps).seen == 0:  # the other loop looks 10 ms after its last look
        assert time.monotonic() < deadline_s
        job.step("s")
    (answer,) = given.answers()

    assert (answer.answer, answer.captures) == (RequestAnswer.TAKEN, ())
    assert "no step of loop 1 has begun since" in str(answer.why)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("os.environ['TF_DISABLE_PROFILING'] = '1'", "TF_DISABLE_PROFILING is set"),
        (
            "sys.modules['tensorflow.python.eager.context']._context._server_def = 'a cluster'",
            "crashes processes of a cluster",
        ),
        ("profiler.start('somewhere')", "the job is profiling"),
    ],
)
def test_the_reason_why_a_job_declines_is_reported(
    laboratory: Laboratory, change: str, why: str
) -> None:
    """The agent writes it for the step that it did not trace."""
    with _job(laboratory, change) as job:
        given = request_traces(RunFolder(laboratory.run), this_machine(), steps=1)
        job.step("f")
        (answer,) = given.answers()

    assert answer.answer is RequestAnswer.DECLINED
    assert why in str(answer.why)


def test_a_job_with_tracing_off_is_not_waited_for(laboratory: Laboratory) -> None:
    """The refusal is final."""
    with _job(laboratory, trace_level="off") as job, _waiting(job, "--timeout", "1000") as waiting:
        job.step("s")
        status, answer = _ended(waiting)

    assert (status, answer["answer"]) == (1, "declined")
    assert answer["why"] == "recorded with --trace-level off"


def test_a_run_that_has_ended_takes_no_request(laboratory: Laboratory, capsys) -> None:
    """One paragraph says so; nothing is written."""
    laboratory.arm().finish("session.run('loss')")

    status = main(["trace", str(laboratory.run)])

    assert status == 1
    assert "got the request" in (said := capsys.readouterr()).err
    assert "had ended before." in said.err
    assert "tfprobe ls --state running" in said.err
    assert said.out == ""


def test_one_process_of_a_run_can_be_named(laboratory: Laboratory, capsys) -> None:
    """RUN/PID, with RUN a path or an id."""
    with _job(laboratory) as job:
        job.step("s")
        pid, output = job.process.pid, str(laboratory.folder)
        wanted = [f"{job.run}/{pid}", f"run/{pid}", f"{job.run}/{os.uname().nodename}/{pid}"]

        for name in wanted:
            main(["trace", name, "-o", output, "--timeout", "0"])
        lines = capsys.readouterr().out.splitlines()
        refused = main(["trace", f"{job.run}/1", "-o", output])

    assert len([line for line in lines if f" {pid} " in line]) == len(wanted)
    assert refused == 1
    assert f"no process '1'. There are: {os.uname().nodename}/{pid}." in capsys.readouterr().err


@pytest.mark.parametrize("value", ["nan", "inf", "-1"])
def test_a_timeout_is_a_finite_time(laboratory: Laboratory, capsys, value: str) -> None:
    """One that would never end is a mistake."""
    assert main(["trace", str(laboratory.run), f"--timeout={value}"]) == 2
    assert "is not a duration" in capsys.readouterr().err
