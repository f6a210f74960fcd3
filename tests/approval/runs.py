"""Put the runs in place whose answers are approved: recorded ones, and some that are written."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.captures import CPU, Node, run_metadata
from tests.support.rank_runs import write_ranks
from tests.support.rundir import (
    LAYOUT,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)

RECORDINGS = Path(__file__).parent / "recordings"
# After the last of the recordings.
WRITTEN_NS = 1_795_460_000_000_000_000
# Recorded by programs of `tests/planted/programs`; see README.md beside them.
RECORDED = (
    "session",
    "estimator",
    "keras2",
    "keras3",
    "function",
    "eager",
    "server",
    "several",
    "stacks",
)


def unpack(name: str, to: Path) -> Path:
    """Unpack a recorded run below a directory and return its own."""
    with tarfile.open(RECORDINGS / f"{name}.tar.xz") as tar:
        for member in tar.getmembers():
            tar.extract(member, to)
    (run,) = (path for path in to.iterdir() if path.is_dir())
    return run


def _recorded(name: str) -> Callable[[Path], Path]:
    return lambda to: unpack(name, to)


def _ranks(to: Path) -> Path:
    return write_ranks(to / "20261120-200418-train-ranks0", 4, 60, sampled=2)


def _empty(to: Path) -> Path:
    return write_run(to / "20261120-200418-train-empty0")


def _killed(to: Path) -> Path:
    loops = [WrittenLoop(steps=regular_steps(40))]
    process = WrittenProcess(loops=loops, header={LAYOUT.ACTIVE_WORD: 0})
    return write_run(to / "20261120-200418-train-killed", [process])


def _damaged(to: Path) -> Path:
    """A capture cut short, a line of no JSON, and a file of steps that ends within its header."""
    run = unpack("session", to)
    captures = sorted(run.glob("*/*/captures/*"))
    captures[0].write_bytes(captures[0].read_bytes()[:1000])
    (events,) = run.glob("*/*/events.jsonl")
    events.write_text(events.read_text() + '{"event": "sam')
    return run


def _headless(to: Path) -> Path:
    run = unpack("function", to)
    (steps,) = run.glob("*/*/steps.bin")
    steps.write_bytes(steps.read_bytes()[:1024])
    return run


def _growing(to: Path) -> Path:
    """A process that is there still, with its first steps."""
    node = Node("dense/product", 0, 40)
    name = "000002-session_run-0.run_metadata.pb"
    process = WrittenProcess(
        loops=[WrittenLoop(steps=regular_steps(30), sampled=[2])],
        header={LAYOUT.ACTIVE_WORD: 0},
        captures={name: run_metadata({CPU: [node]})},
        events=[{"event": "sample", "work": 0, "step": 2, "capture": name}],
    )
    return write_run(to / "20261120-200418-train-growing", [process])


RUNS: Mapping[str, Callable[[Path], Path]] = {
    **{name: _recorded(name) for name in RECORDED},
    "ranks": _ranks,
    "empty": _empty,
    "killed": _killed,
    "growing": _growing,
    "damaged": _damaged,
    "headless": _headless,
}


def place(name: str, to: Path) -> None:
    """Put a run in place below a directory; all of its files were last written at one time."""
    run = RUNS[name](to)
    for path in run.rglob("*"):
        os.utime(path, ns=(WRITTEN_NS, WRITTEN_NS))
