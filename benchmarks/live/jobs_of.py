"""Start many recorded toy jobs, and read from their own files how fast they went, and when."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.support import toy_tensorflow
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.process_folder.steps import read_steps
from tfprobe.runs.process_folder.steps_layout import read_header

ROOT = Path(__file__).resolve().parents[2]
JOBS = Path(__file__).resolve().parent / "jobs"
PATIENCE_S = 300


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of time, monotonic ns, in which somebody watched, or nobody did."""

    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one process: monotonic ns."""

    start_ns: npt.NDArray[np.int64]
    end_ns: npt.NDArray[np.int64]


@contextmanager
def running(folder: Path, count: int, step_ms: float) -> Iterator[Path]:
    """Start `count` jobs, each a run of its own, and give their directory once all of them step."""
    toy_tensorflow.write(folder / "packages")
    runs = folder / "runs"
    python_path = os.pathsep.join((str(folder / "packages"), str(ROOT)))
    launch = [sys.executable, "-m", "tfprobe", "run", "-q", "--no-meter", "-o", str(runs), "--"]
    job = [sys.executable, str(JOBS / "stepping.py"), str(step_ms)]
    jobs = []
    try:
        for _ in range(count):
            environment = {**os.environ, "PYTHONPATH": python_path}
            jobs.append(subprocess.Popen([*launch, *job], stdin=subprocess.PIPE, env=environment))
        _wait_for_steps(runs, count)
        yield runs
    finally:
        for each in jobs:
            assert each.stdin is not None
            each.stdin.close()
        for each in jobs:
            each.wait(PATIENCE_S)


def steps_of(runs: Path) -> list[Steps]:
    """Return the steps of each process: all that its file still has."""
    found = []
    for path in _files(runs):
        (work,) = read_steps(path).loops
        found.append(Steps(work.recent.start_ns, work.recent.end_ns))
    return found


def rates(processes: Sequence[Steps], phase: Phase) -> tuple[float, float]:
    """Return the median step time, in ms, and the steps a second of all processes in a phase."""
    times, count = [], 0
    for steps in processes:
        inside = (steps.start_ns >= phase.begin_ns) & (steps.end_ns <= phase.end_ns)
        times.append((steps.end_ns - steps.start_ns)[inside])
        count += int(((steps.end_ns > phase.begin_ns) & (steps.end_ns <= phase.end_ns)).sum())
    return (
        float(np.median(np.concatenate(times))) / 1e6,
        count * 1e9 / (phase.end_ns - phase.begin_ns),
    )


def _wait_for_steps(runs: Path, count: int) -> None:
    patience = time.monotonic() + PATIENCE_S
    while time.monotonic() < patience:
        files = _files(runs)
        if len(files) == count and all(read_header(path).loops_in_use for path in files):
            return
        time.sleep(0.5)
    raise SystemExit(f"{len(_files(runs))} of {count} jobs began to step in {PATIENCE_S} s.")


def _files(runs: Path) -> list[Path]:
    folders = [each for run in sorted(runs.glob("*")) for each in RunFolder(run).processes()]
    return [each.steps for each in folders if each.steps.exists()]
