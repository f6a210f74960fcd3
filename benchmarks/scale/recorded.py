"""Record the real rank that generated runs are made of, once, and keep it in the cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.matrix.cells import CELLS
from tests.matrix.environments import cache, prepare
from tests.tf.laboratory import environment_of_a_job

JOBS = Path(__file__).resolve().parent / "jobs"
CELL = "tf2.21-py3.11"
# With which two thousand nodes are executed in a step of a Session.
LAYERS = 109
STEPS = 1000
CAPTURES = 20
# TensorFlow traces a cheap op only until it has been executed about ninety times by a function.
SAMPLED = {"session": ("--every", str(STEPS // CAPTURES)), "function": ("--steps", "20-39")}


def folder() -> Path:
    """Return where recordings of this benchmark are kept."""
    return cache() / "benchmarks" / "scale"


def python() -> str:
    """Return an interpreter with TensorFlow."""
    return str(prepare(next(cell for cell in CELLS if cell.name == CELL)))


def rank(kind: str) -> Path:
    """Return the run of one rank: "session" has RunMetadata, "function" XSpaces."""
    output = folder() / f"rank-{kind}"
    if not list(output.glob("*/run.json")):
        record = [sys.executable, "-m", "tfprobe", "run", "-q", "-o", str(output)]
        job = [python(), str(JOBS / "training.py"), kind, str(LAYERS), str(STEPS)]
        command = [*record, *SAMPLED[kind], "--", *job]
        done = subprocess.run(command, env=environment_of_a_job({}), capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} ended so:\n{done.stderr[-3000:]}")
    return next(output.glob("*/run.json")).parent
