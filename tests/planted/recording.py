"""Record one twin of a case and ask for its findings. Judges nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.planted.cases import Case

# A program takes up to 25 s on a quiet machine, beside a load of 16 on two CPUs eight times that.
JOB_TIMEOUT_S = 600
READ_TIMEOUT_S = 300
_SOURCE = re.compile(r"[\w./~<>-]+\.py:\d+")


class Failed(Exception):
    """A twin could not be recorded or read; the message says why."""


@dataclass(frozen=True)
class Measured:
    """What a program's own stopwatch says; `cause_s` is None where it cannot tell."""

    wall_s: float
    steps_s: float
    cause_s: float | None
    units: int
    unit_s: float


@dataclass(frozen=True)
class Told:
    """What a finding says; `source` is the first "file:line" in it, or "", `high_s` its bound, a
    part of `of_s`.
    """

    rule: str
    severity: str
    high_s: float | None
    source: str
    of_s: float = 0.0

    @property
    def is_warning(self) -> bool:
        """Whether it is a warning or above."""
        return self.severity != "info"


@dataclass(frozen=True)
class Twin:
    """One recorded twin: its own stopwatch, and the findings in the order of advise."""

    measured: Measured
    findings: tuple[Told, ...]


def record(
    case: Case, python: Path, output: Path, *, mended: bool, seconds: float | None = None
) -> Twin:
    """Record one twin below `output`, or read what was recorded there before; raises Failed.

    Its steps take as many `seconds`, or those that are its own.
    """
    measured = output.with_suffix(".json")
    if not measured.exists():
        shutil.rmtree(output, ignore_errors=True)
        output.parent.mkdir(parents=True, exist_ok=True)
        options = ["--mended"] if mended else []
        options += [] if seconds is None else ["--seconds", f"{seconds:g}"]
        told = _run_job([str(python), str(case.path), *options], python, output)
        measured.write_text(told)
    return Twin(Measured(**json.loads(measured.read_text())), _findings(output))


def _run_job(job: list[str], python: Path, output: Path) -> str:
    command = [sys.executable, "-m", "tfprobe", "run", "-q", "-o", str(output), "--", *job]
    env = {
        **os.environ,
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    done = _run(command, env, JOB_TIMEOUT_S)
    lines = [line for line in done.stdout.split("\n") if line.startswith("PLANTED ")]
    if done.returncode != 0 or len(lines) != 1:
        said = (done.stderr or done.stdout).strip().split("\n")[-1]
        raise Failed(f"ended with {done.returncode}: {said}")
    return lines[0].removeprefix("PLANTED ")


def _findings(output: Path) -> tuple[Told, ...]:
    command = [sys.executable, "-m", "tfprobe", "advise", "--json", "-o", str(output)]
    done = _run(command, dict(os.environ), READ_TIMEOUT_S)
    # Of a job without a step that is recognised, advise says so and has no findings.
    if "has no steps" in done.stderr:
        return ()
    if not done.stdout.startswith("{"):
        raise Failed(f"advise ended with {done.returncode}: {done.stderr.strip()}")
    return tuple(_told(finding) for finding in json.loads(done.stdout)["findings"])


def _told(finding: dict[str, Any]) -> Told:
    texts = [str(value) for each in finding["evidence"] for value in each.values()]
    sources = [match for text in texts for match in _SOURCE.findall(text)]
    source = sources[0] if sources else ""
    gain = finding["gain"]
    high_s = None if gain["high_us"] is None else gain["high_us"] / 1e6
    of_s = 0.0 if gain["of_us"] is None else gain["of_us"] / 1e6
    return Told(finding["rule"], finding["severity"], high_s, source, of_s)


def _run(
    command: list[str], env: dict[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"took more than {timeout_s:.0f} s") from error


@contextmanager
def load(count: int) -> Iterator[None]:
    """Keep as many processes busy for as long as the context is open."""
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
