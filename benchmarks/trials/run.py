"""Compare what findings predict, what `tfprobe try` measures, and what mending by hand wins.

`python benchmarks/trials/run.py` takes the planted programs of `tests/planted` whose cause a fix
removes. It records each once, so that its findings predict, tries the fix, and runs the program
bare with and without its cause, alternately. `--only TEXT` takes the rows whose name contains TEXT.
With `--bases N`, it runs a program 4 N times without a fix, and counts what is told of N pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from tests.matrix.cells import CELLS  # noqa: E402
from tests.matrix.environments import Unavailable, prepare  # noqa: E402
from tests.planted.cases import PROGRAMS  # noqa: E402
from tfprobe.analysis.compare.trials import ProcessTimes, gain  # noqa: E402
from tfprobe.launch import environ  # noqa: E402
from tfprobe.trial.arms import BASE, Arm, StartedArm, TriedJob, trial_config  # noqa: E402
from tfprobe.trial.pressure import cpu_pressure, is_busy  # noqa: E402
from tfprobe.trial.workspace import workspace  # noqa: E402

# Of a program, in s: a trial ends its processes long before.
_LONG = "120"
_PATIENCE_S = 600


@dataclass(frozen=True)
class Row:
    """A program of tests/planted, the fix of its cause, and whether mending it is the same fix."""

    program: str
    cell: str
    fix: str
    is_same: bool = True

    @property
    def name(self) -> str:
        return f"{self.program}@{self.cell} {self.fix}"


ROWS = (
    Row("keras_run_eagerly", "tf2.21-py3.11", "run_eagerly_off"),
    Row("keras_run_eagerly", "tf2.15-py3.11", "run_eagerly_off"),
    Row("eager_step", "tf2.21-py3.11", "function_step"),
    Row("retrace_numbers", "tf2.21-py3.11", "tensors_for_numbers"),
    Row("retrace_shapes", "tf2.21-py3.11", "reduce_retracing"),
    Row("keras_small_steps", "tf2.21-py3.11", "steps_per_execution=32"),
    Row("keras_predict_loop", "tf2.21-py3.11", "predict_direct", is_same=False),
    Row("keras_callback", "tf2.21-py3.11", "callbacks_every=10", is_same=False),
    Row("keras_checkpoint", "tf2.21-py3.11", "save_every=10", is_same=False),
    Row("session_summaries", "tf1.15-py3.7", "summaries_every=20", is_same=False),
    Row("session_threads", "tf1.15-py3.7", "threads=2"),
    # By hand, batches are kept instead of images, and 16 threads read instead of one for each CPU.
    Row("png_without_cache", "tf2.21-py3.11", "cache", is_same=False),
    Row("python_map", "tf2.21-py3.11", "parallel_map", is_same=False),
    Row("torch_optimizer", "torch2.13-py3.11", "fused_optimizer"),
    Row("torch_threads", "torch2.13-py3.11", "threads=2"),
)


def main(argv: Sequence[str]) -> int:
    """Print one table."""
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--bases", type=int, default=0, metavar="N")
    parser.add_argument("--pairs", type=int, default=2, metavar="N", help="pairs mended by hand")
    options = parser.parse_args(argv)
    print(f"{len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}\n", flush=True)
    rows = [row for row in ROWS if options.only in row.name]
    if options.bases:
        print(_pairs_of_bases(rows[0], options.bases))
        return 0
    print("| program and fix | likely, at most | measured | verdict | results | by hand |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        print(_line(row, options.pairs), flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f} after")
    return 0


def _line(row: Row, pairs: int) -> str:
    try:
        python = _python(row)
        fix = _tried(row, python)
        by_hand = _by_hand(row, python, pairs)
    except (Unavailable, subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = getattr(error, "stderr", None) or str(error)
        return f"| {row.name} | | | failed: {said.strip().splitlines()[-1]} | | |"
    predicted = "-"
    if fix["predicted_ratio"] is not None:
        predicted = f"{_percent(fix['predicted_ratio'])}, {_percent(fix['predicted_most_ratio'])}"
    measured = fix["missing"].get("gain", "")
    if fix["gain_ratio"] is not None:
        ends = ", ".join(_percent(fix[name]) for name in ("low_ratio", "high_ratio"))
        measured = f"{_percent(fix['gain_ratio'])} [{ends}]"
    hand = _percent(by_hand) + ("" if row.is_same else " (all of it)")
    results = fix["results"] or fix["missing"].get("results", "-")
    return f"| {row.name} | {predicted} | {measured} | {fix['verdict']} | {results} | {hand} |"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:+.1f}"


def _python(row: Row) -> Path:
    return prepare(next(cell for cell in CELLS if cell.name == row.cell))


def _tried(row: Row, python: Path) -> dict[str, Any]:
    """Record the program, try the fix; return what the trial's document says of it."""
    job = [str(python), str(PROGRAMS / f"{row.program}.py"), "--seconds", _LONG]
    with tempfile.TemporaryDirectory() as runs:
        tfprobe = [sys.executable, "-m", "tfprobe"]
        short = [*job[:-1], "12"]
        _run([*tfprobe, "run", "-q", "-o", runs, "--", *short])
        advice = json.loads(_run([*tfprobe, "advise", "--json", "-o", runs]))
        done = _run([*tfprobe, "try", row.fix, "--yes", "--json", "-o", runs, "--", *job])
    (fix,) = json.loads(done)["fixes"]
    # The run is of a shorter job, so its findings are looked up here.
    name = row.fix.partition("=")[0]
    gains = [found["gain"] for found in advice["findings"] if name in found["fixes"]]
    known = [one for one in gains if one["low"] is not None]
    if known:
        fix["predicted_ratio"] = known[0]["low"]
        fix["predicted_most_ratio"] = known[0]["high"]
    return dict(fix)


def _by_hand(row: Row, python: Path, pairs: int) -> float:
    """Return the gain of the program without its cause, by its own stopwatch, without recording."""
    units: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(pairs):
        for mended in (False, True):
            job = [str(python), str(PROGRAMS / f"{row.program}.py"), "--seconds", "8"]
            said = _run([*job, "--mended"] if mended else job)
            (line,) = [line for line in said.split("\n") if line.startswith("PLANTED ")]
            units[mended].append(json.loads(line.removeprefix("PLANTED "))["unit_s"])
    return 1 - mean(units[True]) / mean(units[False])


def _pairs_of_bases(row: Row, count: int) -> str:
    """Run a program without a fix, and say how often one half of four processes beats the other."""
    command = (str(_python(row)), str(PROGRAMS / f"{row.program}.py"), "--seconds", _LONG)
    verdicts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        place = workspace(Path.cwd(), Path(scratch))
        job = TriedJob(command, _environment(), place)
        for number in range(count):
            times: list[ProcessTimes] = []
            for at in range(4):
                config = trial_config(Arm(BASE), None, seconds=3.0, most_units=10**9, seed=0)
                flags = {"trace_level": "off"}
                started = StartedArm(job, Arm(BASE), 4 * number + at, config, flags)
                found = started.wait(time.monotonic() + _PATIENCE_S).times
                assert isinstance(found, ProcessTimes), found
                times.append(found)
            # As in a round: base, arm, arm, base.
            told = gain([times[0], times[3]], times[1:3], is_busy=is_busy(cpu_pressure()))
            verdicts[told.verdict.value] += 1
            print(f"{_percent(told.wall.ratio)}: {told.verdict.value}", flush=True)
    return ", ".join(f"{name} {number}" for name, number in sorted(verdicts.items()))


def _environment() -> dict[str, str]:
    return {**environ.inherited(), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


def _run(command: list[str]) -> str:
    return subprocess.run(
        command, env=_environment(), capture_output=True, text=True, check=True, timeout=_PATIENCE_S
    ).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
