"""Running jobs are asked for their next steps, all at once, and each records its own."""

from __future__ import annotations

import time
from pathlib import Path

from tests.tf.laboratory import JOB_TIMEOUT_S, Laboratory, Started
from tfprobe.live.trace_requests import request_traces
from tfprobe.profile.snapshots import ProcessAnswer, RequestAnswer
from tfprobe.recording import open_run
from tfprobe.runs.layout import RunFolder, parse_capture_name
from tfprobe.runs.liveness import this_machine

STEPS = 2
KINDS = {"session": "session_run", "fit": "fit", "function": "function"}


def test_jobs_of_all_kinds_record_their_next_steps(laboratory: Laboratory, tmp_path: Path) -> None:
    """A Session, Keras' fit and a tf.function, below one directory of runs.

    TensorFlow 1 has no profiler for functions: that job says so.
    """
    never = ["--every", "1000000000"]
    jobs = {
        kind: laboratory.start("endless.py", kind, record=[*never, "-o", str(tmp_path / kind)])
        for kind in KINDS
    }
    runs = {kind: _run_of(job, tmp_path / kind) for kind, job in jobs.items()}

    given = [request_traces(run, this_machine(), steps=STEPS) for run in runs.values()]
    for each in given:
        each.follow(until_met=True, patience_s=JOB_TIMEOUT_S, tell=_ignore)
    found = {kind: each.answers() for kind, each in zip(runs, given, strict=True)}
    for job in jobs.values():
        job.process.kill()
        job.process.wait()

    for kind, ((answer,), run) in {k: (found[k], runs[k]) for k in KINDS}.items():
        if kind == "function" and laboratory.tensorflow < (2, 0):
            assert (answer.answer, answer.captures) == (RequestAnswer.DECLINED, ())
            assert "no profiler for this kind of step" in str(answer.why)
            continue
        _check(answer, run, KINDS[kind])


def _check(answer: ProcessAnswer, run: RunFolder, kind: str) -> None:
    """The captures are of consecutive steps of the job's work, readable, and in its folder."""
    (folder,) = run.processes()
    steps = [capture.step for capture in answer.captures]
    names = [parse_capture_name(capture.file) for capture in answer.captures]
    assert answer.is_met
    assert steps == list(range(steps[0], steps[0] + STEPS))
    assert [name and name.kind for name in names] == [kind] * STEPS
    assert {path.name for path in folder.capture_files()} == {c.file for c in answer.captures}
    profile = open_run(run.root).profile()
    assert profile.problems == ()
    assert [capture.step for capture in profile.captures] == steps


def _run_of(job: Started, runs: Path) -> RunFolder:
    deadline_s = time.monotonic() + JOB_TIMEOUT_S
    while b"STEPPING" not in job.said():
        assert job.process.poll() is None
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    (run,) = runs.iterdir()
    return RunFolder(run)


def _ignore(_: tuple[ProcessAnswer, ...]) -> None:
    """Hear no news."""
