"""Run jobs bare and recorded by turns; reduce what they measured. Knows no job and no target."""

from __future__ import annotations

import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

JOBS = Path(__file__).resolve().parent / "jobs"


@dataclass(frozen=True, slots=True)
class Once:
    """What one process took, as seen from outside and as it measured itself."""

    wall_s: float
    measured: Mapping[str, float]
    # What recording cost by the agent's own account, of a job that was recorded.
    account_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Pairs:
    """Medians over pairs of processes, first the plain one, then the other, by turns.

    `least_ratio` compares the least of each: what disturbs a process makes it slower, never faster.
    """

    plain: float
    other: float
    difference: float
    ratio: float
    least_ratio: float
    count: int


def pairs(
    plain: Callable[[], Once], other: Callable[[], Once], count: int, value: Callable[[Once], float]
) -> Pairs:
    """Run both by turns, `count` times; compare `value` within each pair, then take medians."""
    taken = [(value(plain()), value(other())) for _ in range(count)]
    return Pairs(
        plain=statistics.median(first for first, _ in taken),
        other=statistics.median(second for _, second in taken),
        difference=statistics.median(second - first for first, second in taken),
        ratio=statistics.median(second / first for first, second in taken),
        least_ratio=min(second for _, second in taken) / min(first for first, _ in taken),
        count=count,
    )


def repeated(run: Callable[[], Once], count: int) -> Mapping[str, float]:
    """Run a job that compares by itself, `count` times; return the median of each number."""
    runs = [run().measured for _ in range(count)]
    return {name: statistics.median(each[name] for each in runs) for name in runs[0]}


def job(python: str, script: str, *args: str, record: Sequence[str] | None = None) -> Once:
    """Run a job of jobs/ bare, or recorded with the options `record`."""
    command = [python, str(JOBS / script), *args]
    with tempfile.TemporaryDirectory() as folder:
        if record is not None:
            launch = [sys.executable, "-m", "tfprobe", "run", "-q", "-o", folder]
            command = [*launch, *record, "--", *command]
        once = process(command)
        return once if record is None else replace(once, account_s=_account_s(Path(folder)))


@dataclass(frozen=True, slots=True)
class RecordedSteps:
    """The steps of a recorded loop by its own stopwatch, and what the agent says of them."""

    durations_ns: list[int]
    traced: list[int]
    # Of all traces, with the watch of the time after them; and of code maps, made in a step.
    account_ns: int


def recorded_steps(python: str, script: str, *args: str) -> RecordedSteps:
    """Record a job of jobs/ that prints how long its steps took, with the default budget."""
    with tempfile.TemporaryDirectory() as folder:
        launch = [sys.executable, "-m", "tfprobe", "run", "-q", "-o", folder, "--"]
        stdout = _output([*launch, python, str(JOBS / script), *args])
        (line,) = (line for line in stdout.splitlines() if line.startswith("STEPS "))
        (process,) = Path(folder).glob("*/*/*/steps.bin")
        events = [
            json.loads(line) for line in process.with_name("events.jsonl").read_text().splitlines()
        ]
        (traced_ns,) = struct.unpack_from("<q", process.read_bytes(), _TRACED_WORD * 8)
    samples = [event for event in events if event["event"] == "sample"]
    code_ns = sum(event["cost_ns"] for event in events if event["event"] == "code")
    durations_ns = json.loads(line.split(" ", 1)[1])
    loop = max(samples, key=lambda event: event["step"])["work"]
    traced = [event["step"] for event in samples if event["work"] == loop]
    return RecordedSteps(durations_ns, traced, traced_ns + code_ns)


# Header word of steps.bin: ns added by tracing (docs/run-directory.md).
_TRACED_WORD = 17


def triples(
    bare: Callable[[], Once], off: Callable[[], Once], default: Callable[[], Once], count: int
) -> tuple[list[Once], list[Once], list[Once]]:
    """Run three ways by turns, `count` times, each turn in another order."""
    ways: tuple[tuple[Callable[[], Once], list[Once]], ...]
    ways = ((bare, []), (off, []), (default, []))
    for turn in range(count):
        for run, taken in (*ways[turn % 3 :], *ways[: turn % 3]):
            taken.append(run())
    return ways[0][1], ways[1][1], ways[2][1]


def process(command: Sequence[str], extra: Mapping[str, str] | None = None) -> Once:
    """Run a command; fail loudly if it does."""
    started = time.perf_counter()
    stdout = _output(command, extra)
    wall_s = time.perf_counter() - started
    lines = [line for line in stdout.splitlines() if line.startswith("MEASURED ")]
    return Once(wall_s, json.loads(lines[-1].split(" ", 1)[1]) if lines else {})


def _output(command: Sequence[str], extra: Mapping[str, str] | None = None) -> str:
    # Where Python stores no bytecode, each process compiles its framework, in times of its own.
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TFPROBE_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    env = {**kept, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", **(extra or {})}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(
            f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-3000:]}"
        )
    return done.stdout


def _account_s(output: Path) -> float:
    """Return what recording cost by the agent's own account, over all processes of the run."""
    (run,) = output.iterdir()
    command = [sys.executable, "-m", "tfprobe", "report", "--json", str(run)]
    document = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    costs = [process["overhead"] for process in document["processes"]]
    return sum(cost["traced_us"] + cost["hook_us"] for cost in costs) / 1e6


def wall_s(once: Once) -> float:
    """The time of the whole process."""
    return once.wall_s


def loop_s(once: Once) -> float:
    """The time of the training loop alone, without imports and set-up."""
    return once.measured["loop_s"]
