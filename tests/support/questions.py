"""Questions for shards, in a module that other processes find too; some of them are deadly."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from tests.support.captures import CPU, Node, run_metadata
from tests.support.rundir import (
    MONO_NS,
    UNIX_NS,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)
from tfprobe.profile.profile import Profile
from tfprobe.query.queries import Query
from tfprobe.query.shards import Shard
from tfprobe.runs.liveness import Machine

ELSEWHERE = Machine("elsewhere", "another boot")
CAPTURE = "000002-session_run-0.run_metadata.pb"


@dataclass(frozen=True, slots=True)
class Counted:
    """What the simplest question tells of a process."""

    process: str
    rank: int | None
    steps: int
    executions: int
    problems: tuple[str, ...]


def count(profile: Profile, shard: Shard) -> Counted:
    """Return how much there is of a process."""
    (process,) = profile.processes
    return Counted(
        process.folder,
        process.rank,
        sum(loop.count for loop in profile.loops),
        len(profile.executions),
        tuple(problem.what for problem in profile.problems),
    )


def count_or_die_once(profile: Profile, shard: Shard) -> Counted:
    """Be killed, as memory that runs out kills, at the first try of the process of rank 1."""
    sign = Path(shard.run).parent / "died"
    if profile.processes[0].rank == 1 and not sign.exists():
        sign.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return count(profile, shard)


def count_or_die(profile: Profile, shard: Shard) -> Counted:
    """Be killed at each try of the process of rank 1."""
    if profile.processes[0].rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return count(profile, shard)


def fail(profile: Profile, shard: Shard) -> Counted:
    """Have a bug."""
    raise ZeroDivisionError("nothing to divide by")


COUNT = Query("count", 1, count)
DIES_ONCE = Query("dies once", 1, count_or_die_once)
DIES = Query("dies", 1, count_or_die)
FAILS = Query("fails", 1, fail)


def write_ranks(root: Path, ranks: int) -> Path:
    """Write a run of so many processes, of rank 0, 1, 2 ..., each with one capture."""
    return write_run(root, [rank(number, ranks) for number in range(ranks)])


def rank(number: int, ranks: int = 1, **facts: object) -> WrittenProcess:
    """Return a process of this rank with one capture."""
    steps = regular_steps(4 + number)
    sample = {
        "event": "sample",
        "work": 0,
        "step": 2,
        "capture": CAPTURE,
        "level": "full",
        "start_ns": steps[2][0],
        "end_ns": steps[2][1],
        "start_unix_ns": steps[2][0] - MONO_NS + UNIX_NS,
    }
    nodes = [Node(f"dense_{at}/MatMul", start_us=10 * at) for at in range(number + 1)]
    given = {
        "pid": 4711 + number,
        "host": f"node{number // 4}",
        "loops": [WrittenLoop(steps=steps, sampled=(2,))],
        "manifest": {"rank": {"source": "TF_CONFIG", "index": number, "world": ranks}},
        "events": [sample],
        "captures": {CAPTURE: run_metadata({CPU: nodes})},
    }
    return WrittenProcess(**{**given, **facts})
