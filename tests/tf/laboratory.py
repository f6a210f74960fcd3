"""Start real TensorFlow jobs, bare and recorded, and read back what was recorded.

The tests themselves run in the analyser's environment, which has no TensorFlow.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

JOBS = Path(__file__).parent / "jobs"

# A job of these tests takes seconds, on a machine with ten others ten times as long; one that hangs
# must not take the matrix with it.
JOB_TIMEOUT_S = 300

# What reads a run takes a second or two.
READ_TIMEOUT_S = 180

# More than a job needs to end after a signal, on a loaded machine.
RESEND_S = 20

# How a job is run: as it is, or recorded with these steps traced.
WAYS = ("bare", "budget", "every")


@dataclass(frozen=True)
class Outcome:
    """What is left of one job process: its output, its exit status and, if it was recorded, its
    run directory.
    """

    stdout: bytes
    stderr: str
    status: int
    output: Path | None

    @cached_property
    def stated(self) -> dict[str, dict[str, Any]]:
        """The facts and absences the job printed, by name."""
        lines = [line.split(" ", 1) for line in self.stdout.decode().splitlines()]
        return {
            fact["name"]: fact
            for fact in (json.loads(line[1]) for line in lines if line[0] in ("FACT", "ABSENT"))
        }

    @cached_property
    def report(self) -> dict[str, Any]:
        """`tfprobe report --json` of the run."""
        return report(self.run)

    @property
    def run(self) -> Path:
        """The one run directory."""
        assert self.output is not None, "this job was not recorded"
        runs = sorted(path for path in self.output.glob("*") if (path / "run.json").exists())
        assert len(runs) == 1, (
            f"expected one run in {self.output}, found {runs}; the launcher said: {self.stderr}"
        )
        return runs[0]

    @property
    def loops(self) -> list[dict[str, Any]]:
        """Every loop of every process of the run."""
        return [loop for process in self.report["processes"] for loop in process["work"]]

    @property
    def events(self) -> list[dict[str, Any]]:
        """Every finished line of every events.jsonl of the run."""
        lines = [
            line
            for path in self.run.glob("*/*/events.jsonl")
            for line in path.read_text().split("\n")[:-1]
        ]
        return [json.loads(line) for line in lines]

    @property
    def agent_log(self) -> str:
        """Everything the agent wrote into its own logs."""
        return "".join(path.read_text() for path in self.run.glob("*/*/agent.log"))


def report(run: Path) -> dict[str, Any]:
    """Return `tfprobe report --json` of `run`; fail with what it said if it gives none."""
    return tfprobe_json("report", str(run))


def tfprobe_json(*arguments: str) -> dict[str, Any]:
    """Return the document of a reading command; fail with what it said if it gives none."""
    command = [sys.executable, "-m", "tfprobe", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, timeout=READ_TIMEOUT_S, text=True)
    said = f"tfprobe {arguments[0]} ended with {done.returncode}: {done.stderr}"
    assert done.returncode == 0, said
    document: dict[str, Any] = json.loads(done.stdout)
    return document


class Started:
    """A job process under way, in an empty folder of its own."""

    def __init__(
        self,
        python: str,
        folder: Path,
        script: str,
        *args: str,
        record: list[str] | None,
        env: Mapping[str, str],
    ) -> None:
        """Start `script` of jobs/ bare, or under `tfprobe run` with the options `record`."""
        self.output = folder / "runs" if record is not None else None
        command = [python, str(JOBS / script), *args]
        if record is not None:
            launch = [sys.executable, "-m", "tfprobe", "run", "-q", "-o", str(self.output)]
            command = [*launch, *record, "--", *command]
        work = folder / "work"
        work.mkdir(parents=True)
        # Through files: a job's stray children may hold the pipe open after the job itself has
        # ended.
        self._stdout, self._stderr = folder / "stdout", folder / "stderr"
        with self._stdout.open("wb") as stdout, self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=work,
                env=environment_of_a_job(env),
            )

    def said(self) -> bytes:
        """Return what the job has printed until now."""
        return self._stdout.read_bytes()

    def interrupted(self, number: int) -> Outcome:
        """Send a signal until the job ends; return what is left of it.

        Python loses an interrupt that reaches it in a callback which may not raise. A job that says
        that it has handled the signal gets it once, however long it then takes to end.
        """
        for _ in range(JOB_TIMEOUT_S // RESEND_S):
            self.process.send_signal(number)
            try:
                self.process.wait(RESEND_S)
                break
            except subprocess.TimeoutExpired:
                if b"handled" in self.said():
                    break
        return self.outcome()

    def outcome(self) -> Outcome:
        """Wait for the end and return what is left."""
        try:
            self.process.wait(JOB_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            pytest.fail(
                f"the job hung; it said: {self._stderr.read_text(errors='replace')[-2000:]}"
            )
        stderr = self._stderr.read_text(errors="replace")
        return Outcome(self._stdout.read_bytes(), stderr, self.process.returncode, self.output)


class Laboratory:
    """Runs each job once for each way of recording it, several at a time, and keeps the outcomes
    for every test.
    """

    def __init__(
        self,
        python: str,
        tensorflow: tuple[int, ...],
        folder: Path,
        options: tuple[str, ...] = (),
    ) -> None:
        """Use the interpreter `python`, which has this TensorFlow, and folders below `folder`.

        `options` are those of every recording.
        """
        self._options = list(options)
        self.python = python
        self.tensorflow = tensorflow
        self.folder = folder
        self._count = 0
        self._started: list[Started] = []
        self._outcomes: dict[tuple[str, ...], dict[str, Outcome]] = {}

    def start(
        self,
        script: str,
        *args: str,
        record: list[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Started:
        """Start one job process."""
        self._count += 1
        folder = self.folder / f"{self._count:03d}"
        record = None if record is None else [*self._options, *record]
        job = Started(self.python, folder, script, *args, record=record, env=env or {})
        self._started.append(job)
        return job

    def close(self) -> None:
        """End the jobs that a failed test has left behind."""
        for job in self._started:
            if job.process.poll() is None:
                job.process.kill()
                job.process.wait()

    def outcomes(self, script: str, *args: str, ways: tuple[str, ...] = WAYS) -> dict[str, Outcome]:
        """Return the outcomes of a job bare, recorded with the default budget, and with every
        step traced, or some of these.
        """
        key = (script, *args)
        if key not in self._outcomes:
            records = {"bare": None, "budget": [], "every": ["--every", "1"]}
            started = {way: self.start(script, *args, record=records[way]) for way in ways}
            self._outcomes[key] = {way: job.outcome() for way, job in started.items()}
        return self._outcomes[key]

    def pair(
        self, script: str, *args: str, env: Mapping[str, str] | None = None
    ) -> tuple[Outcome, Outcome]:
        """Return the outcomes of a job bare and with every step traced, both run at once."""
        bare = self.start(script, *args, env=env)
        recorded = self.start(script, *args, record=["--every", "1"], env=env)
        return bare.outcome(), recorded.outcome()


def as_bare(bare: Outcome, recorded: Outcome) -> None:
    """Assert that a job printed the same and ended the same, bare and recorded."""
    assert bare.stdout.decode() == recorded.stdout.decode(), recorded.stderr[-3000:]
    assert bare.status == recorded.status, recorded.stderr[-3000:]


def laboratory_with(
    package: str, title: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Laboratory]:
    """Yield the laboratory for the interpreter TFPROBE_TEST_PYTHON, which has this package."""
    python = os.environ.get("TFPROBE_TEST_PYTHON")
    if not python:
        pytest.skip(f"TFPROBE_TEST_PYTHON names no interpreter with {title}; see `make matrix`")
    answer = subprocess.run(
        [python, "-c", f"import {package}; print({package}.__version__)"],
        stdout=subprocess.PIPE,
        check=True,
        env=environment_of_a_job({}),
        text=True,
    )
    version = tuple(int(part) for part in answer.stdout.split(".")[:2])
    laboratory = Laboratory(python, version, tmp_path_factory.mktemp(package))
    yield laboratory
    laboratory.close()


def mark_real_jobs(items: list[pytest.Item], folder: Path) -> None:
    """Mark the tests of a folder as real jobs: they take seconds, and those of one job share its
    outcomes.
    """
    for item in items:
        if folder in item.path.parents:
            item.add_marker(pytest.mark.tf)
            item.add_marker(pytest.mark.timeout(900))
            job = getattr(item, "callspec", None)
            name = job.params.get("name") if job is not None else None
            item.add_marker(pytest.mark.xdist_group(name or item.path.stem))


def counts(outcome: Outcome) -> dict[str, int]:
    """Return the completed steps by kind and name."""
    found: dict[str, int] = {}
    for loop in outcome.loops:
        name = f"{loop['kind']} {loop['name']}"
        found[name] = found.get(name, 0) + loop["count"]
    return found


def counted(outcome: Outcome) -> dict[str, int]:
    """Return what the job counted itself, which its last line says."""
    line = outcome.stdout.decode().splitlines()[-1]
    known: dict[str, int] = json.loads(line.removeprefix("COUNTS "))
    return known


def count(outcome: Outcome, kind: str, has: str) -> list[int]:
    """Return the counts of the loops of `kind` with `has` in their name, in ascending order."""
    loops = [loop for loop in outcome.loops if loop["kind"] == kind and has in loop["name"]]
    return sorted(loop["count"] for loop in loops)


def environment_of_a_job(extra: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment without our own variables, quiet, without a GPU, and with
    `extra`.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TFPROBE_", "PYTHONPATH"))
    }
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONHASHSEED": "0"}
    return {**kept, **quiet, **extra}
