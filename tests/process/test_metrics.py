"""`tfprobe metrics` beside real jobs: scraped over HTTP, sent by OTLP, stopped, and starved."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.process.launching import PATIENCE_S, Launcher, environment
from tests.support import promlint, toy_tensorflow
from tests.support.agent import PREFACE
from tests.support.collector import Collector

# Makes as many steps as each line says, and says when they are made.
JOB = """
for line in sys.stdin:
    for _ in range(int(line)):
        session.run("loss")
    print("done", flush=True)
"""
# What looks for findings runs at the lowest priority: beside busy processes it hardly has a CPU.
FINDINGS_PATIENCE_S = 800
Key = tuple[str, frozenset[tuple[str, str]]]


def wait_until(holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    pause, deadline_s = threading.Event(), time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline_s, "in vain"
        pause.wait(0.1)


@dataclass
class Job:
    """A recorded job that steps when it is told to."""

    process: subprocess.Popen[str]

    def step(self, count: int) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def finish(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(PATIENCE_S) == 0


@dataclass
class Served:
    """A running `tfprobe metrics`."""

    process: subprocess.Popen[str]
    url: str

    def metrics(self) -> list[Metric]:
        with urllib.request.urlopen(self.url, timeout=PATIENCE_S) as answer:
            return list(text_string_to_metric_families(answer.read().decode()))

    def values(self) -> dict[Key, float]:
        samples = [each for metric in self.metrics() for each in metric.samples]
        return {(each.name, frozenset(each.labels.items())): each.value for each in samples}

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of all series of a name that have these labels."""
        found = self.values().items()
        return sum(n for (told, has), n in found if told == name and labels.items() <= has)

    def stop(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal; return the status and what was said on stderr."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, said


@dataclass
class Machine:
    """Where jobs run and are watched; all that was started here is ended."""

    launcher: Launcher
    packages: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *command: str | Path, **variables: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [os.fspath(word) for word in command],
            env=environment(variables),
            cwd=self.launcher.work,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def job(self, *options: str) -> Job:
        run = (self.launcher.program, "run", "-q", "-o", self.launcher.output, *options, "--")
        path = str(self.packages)
        return Job(self.start(*run, sys.executable, "-c", PREFACE + JOB, PYTHONPATH=path))

    def serve(self, *options: str) -> Served:
        words = (self.launcher.program, "metrics", self.launcher.output, "--port", "0", *options)
        process = self.start(*words)
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", url), process.communicate()
        return Served(process, url)

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.wait(PATIENCE_S)
            for pipe in (process.stdin, process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()


@pytest.fixture
def machine(launcher: Launcher, tmp_path: Path) -> Iterator[Machine]:
    toy_tensorflow.write(tmp_path / "packages")
    launcher.output.mkdir()
    found = Machine(launcher, tmp_path / "packages")
    yield found
    found.end()


@pytest.mark.slow
def test_real_jobs_are_scraped(machine: Machine) -> None:
    """Every step of every job is counted, and from one scrape to the next no counter goes down."""
    jobs = [machine.job("--every", "10") for _ in range(3)]
    for job in jobs:
        job.step(100)
    served = machine.serve()
    wait_until(lambda: served.total("tfprobe_steps_total") == 300)
    before = served.values()

    jobs[0].step(1000)
    wait_until(lambda: served.total("tfprobe_steps_total") == 1300)
    after = served.values()

    ours = [each for each in served.metrics() if each.name.startswith("tfprobe_")]
    counting = {key for key in before if re.search("_(total|count|sum|bucket)$", key[0])}
    assert promlint.complaints(ours) == []
    assert {key for key in counting if after.get(key, -1) < before[key]} == set()
    assert served.total("tfprobe_step_duration_seconds_count") == 1300
    assert served.total("tfprobe_samples_total") == 130
    assert served.total("tfprobe_process_state", state="running") == 3


@pytest.mark.slow
def test_states_are_followed(machine: Machine) -> None:
    """Running, stopped, killed, finished."""
    jobs = [machine.job() for _ in range(3)]
    for job in jobs:
        job.step(10)
    served = machine.serve("--no-findings")

    jobs[0].process.send_signal(signal.SIGSTOP)
    jobs[1].process.kill()
    jobs[2].finish()

    for state in ("stopped", "killed", "finished"):
        wait_until(lambda state=state: served.total("tfprobe_process_state", state=state) == 1)  # type: ignore[misc]
    assert served.total("tfprobe_runs", state="stopped") == 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_shares_and_findings_of_a_real_job_arrive(machine: Machine) -> None:
    """From its captures, a little later; the four shares are a whole."""
    job = machine.job("--every", "5")
    job.step(50)
    served = machine.serve()

    for name in ("tfprobe_findings_timestamp_seconds", "tfprobe_process_cycle_timestamp_seconds"):
        wait_until(lambda name=name: served.total(name) > 0, FINDINGS_PATIENCE_S)

    assert served.total("tfprobe_process_cycle_ratio") == pytest.approx(1.0)
    assert served.total("tfprobe_exporter_failed_findings_total") == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_quietly(machine: Machine, number: signal.Signals) -> None:
    """Interrupting is how one ends it: the status is 0."""
    served = machine.serve()
    served.metrics()

    assert served.stop(number) == (0, "")


def test_a_port_in_use_is_one_paragraph(machine: Machine) -> None:
    """It says what to do, and the status is that of a wrong command line."""
    served = machine.serve()
    port = served.url.split(":")[2].split("/")[0]

    ended = machine.launcher.tfprobe("metrics", machine.launcher.output, "--port", port)

    assert (ended.status, ended.stdout) == (2, b"")
    assert f"cannot be served at 127.0.0.1:{port}: " in ended.stderr.decode()
    assert b"--port 0" in ended.stderr
    assert ended.stderr.count(b"\n") == 1


@pytest.mark.slow
def test_a_directory_that_vanishes_while_it_is_served(machine: Machine) -> None:
    """The endpoint stays and says so; when the directory is back, so are the runs."""
    job = machine.job()
    job.step(10)
    job.finish()
    served = machine.serve("--no-findings")
    wait_until(lambda: served.total("tfprobe_steps_total") == 10)
    output = machine.launcher.output

    output.rename(output.with_name("elsewhere"))
    wait_until(lambda: served.total("tfprobe_directory_up") == 0)
    lost = served.total("tfprobe_steps_total")
    output.with_name("elsewhere").rename(output)
    wait_until(lambda: served.total("tfprobe_directory_up") == 1)

    status, said = served.stop(signal.SIGTERM)
    assert lost == 0
    assert status == 0
    assert re.fullmatch(r"tfprobe: [^\n]*runs no longer exists\.\n", said)


@pytest.mark.slow
def test_a_run_that_is_removed_or_overwritten_while_it_is_served(machine: Machine) -> None:
    """Its series vanish, or it is told to be unreadable; the other run is told as before."""
    for count in (10, 20, 30):
        job = machine.job()
        job.step(count)
        job.finish()
    served = machine.serve("--no-findings")
    wait_until(lambda: served.total("tfprobe_steps_total") == 60)
    by_steps = {
        int(n): dict(labels)["run"] for (name, labels), n in served.values().items()
        if name == "tfprobe_steps_total"
    }  # fmt: skip
    output = machine.launcher.output

    shutil.rmtree(output / by_steps[10])
    (steps,) = (output / by_steps[20]).glob("*/*/steps.bin")
    steps.unlink()
    steps.write_bytes(b"\xff" * 5000)

    wait_until(lambda: served.total("tfprobe_steps_total") == 30)
    assert served.total("tfprobe_run_readable", run=by_steps[20]) == 0
    assert served.total("tfprobe_run_readable", run=by_steps[30]) == 1
    assert promlint.complaints([m for m in served.metrics() if m.name.startswith("tfprobe_")]) == []


def test_once_writes_a_whole_file(machine: Machine) -> None:
    """With shares, and nothing beside it; others may read it, as node-exporter has to."""
    job = machine.job("--every", "5")
    job.step(20)
    target = machine.launcher.work / "tfprobe.prom"
    target.write_text("old")

    ended = machine.launcher.tfprobe("metrics", machine.launcher.output, "--once", "-f", target)

    metrics = list(text_string_to_metric_families(target.read_text()))
    names = {sample.name for metric in metrics for sample in metric.samples}
    assert (ended.status, ended.stdout, ended.stderr) == (0, b"", b"")
    assert {"tfprobe_steps_total", "tfprobe_process_cycle_ratio"} <= names
    assert promlint.complaints(metrics) == []
    assert sorted(each.name for each in machine.launcher.work.iterdir()) == ["tfprobe.prom"]
    assert target.stat().st_mode & 0o044 == 0o044


def test_once_prints(machine: Machine) -> None:
    """An empty directory has metrics, too: those of the exporter."""
    ended = machine.launcher.tfprobe("metrics", machine.launcher.output, "--once")

    assert ended.status == 0
    assert b'tfprobe_runs{state="running"} 0.0\n' in ended.stdout


def test_metrics_are_sent_to_a_collector(machine: Machine) -> None:
    """By OTLP, every second, until it is interrupted; nothing is served."""
    job = machine.job()
    job.step(10)
    collector = Collector()
    words = ("metrics", machine.launcher.output, "--otlp", collector.url, "--every", "1")
    process = machine.start(machine.launcher.program, *words)

    wait_until(lambda: len(collector.received) >= 2 or process.poll() is not None)
    process.terminate()
    said = process.communicate(timeout=PATIENCE_S)

    collector.close()
    (steps,) = collector.metrics()["tfprobe_steps"].sum.data_points
    assert (process.returncode, said) == (0, ("", ""))
    assert steps.as_int == 10


def test_a_collector_that_is_not_there_ends_nothing(machine: Machine) -> None:
    """One line says so; --once has failed then."""
    gone = Collector()
    gone.close()

    ended = machine.launcher.tfprobe(
        "metrics", machine.launcher.output, "--once", "--otlp", gone.url
    )

    assert ended.status == 1
    assert re.fullmatch(rb"tfprobe: http://[^\n]* takes no metrics: [^\n]*\n", ended.stderr)


def test_without_the_extra_it_says_what_to_install(machine: Machine) -> None:
    """In one paragraph; everything else works without."""
    empty = machine.launcher.write("shadow/opentelemetry/__init__.py", "raise ImportError('no')")
    variables = {"PYTHONPATH": str(empty.parents[1])}

    ended = machine.launcher.tfprobe(
        "metrics", machine.launcher.output, "--otlp", "http://c:4318", env=variables
    )
    served = machine.launcher.tfprobe("metrics", machine.launcher.output, "--once", env=variables)

    assert ended.status == 2
    assert ended.stderr.count(b"\n") == 1
    assert b"pip install 'tfprobe[otlp]'" in ended.stderr
    assert served.status == 0


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("no/such/directory",), 3, b"is not a directory"),
        ((".", "-f", "x"), 2, b"--file requires --once"),
        ((".", "--once", "--port", "1"), 2, b"cannot be combined"),
        ((".", "--once", "-f", "no/such/place.prom"), 2, b"cannot be written"),
        ((".", "--port", "70000"), 2, b"70000"),
        ((".", "--host", "no.such.host.invalid"), 2, b"cannot be served at"),
        ((".", "--otlp", "collector:4317"), 2, b"not an HTTP URL"),
        ((".", "--finished-for", "soon"), 2, b"use an age such as"),
        ((".", "--every", "nan"), 2, b"--every"),
    ],
)
def test_mistakes_are_told(
    machine: Machine, words: tuple[str, ...], status: int, told: bytes
) -> None:
    """One paragraph each, and nothing is served."""
    ended = machine.launcher.tfprobe("metrics", *words)

    assert (ended.status, ended.stdout) == (status, b"")
    assert told in ended.stderr
    assert ended.stderr.count(b"\n") == 1
