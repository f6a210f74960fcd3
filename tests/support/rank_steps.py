"""Write runs in which many ranks recorded the same steps, on machines whose clocks differ."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.rank_runs import MS, STEP_NS, gpu_step
from tests.support.rundir import (
    LAYOUT,
    MONO_NS,
    UNIX_NS,
    UNIX_WORD,
    WrittenLoop,
    WrittenProcess,
    write_process,
    write_run,
)

EVERY_NS = 50 * MS
RANKS_OF_A_HOST = 4


def write_rank_steps(
    root: Path,
    ranks: int,
    *,
    steps: int = 12,
    sampled: range = range(4, 11),
    slow: int = 2,
    late_us: int = 300,
    ahead_ns: Mapping[int, int] | None = None,
    lacking: tuple[int, ...] = (),
) -> Path:
    """Write a run in which all ranks step together, and rank `slow` comes late to its all-reduce.

    Four ranks are on one host; the clock of host `h` is `ahead_ns[h]` ahead. Ranks `lacking` are
    not there.
    """
    write_run(root)
    for rank in range(ranks):
        if rank not in lacking:
            host = rank // RANKS_OF_A_HOST
            ahead = (ahead_ns or {}).get(host, 0)
            late = late_us if rank == slow else 5 * (rank % 4)
            write_process(root, _rank(rank, ranks, steps, sampled, late, ahead))
    return root


def _rank(
    rank: int, ranks: int, steps: int, sampled: range, late_us: int, ahead_ns: int
) -> WrittenProcess:
    host = f"node{rank // RANKS_OF_A_HOST}"
    took_ns = STEP_NS + late_us * 1000
    times = [(MONO_NS + at * EVERY_NS, MONO_NS + at * EVERY_NS + took_ns) for at in range(steps)]
    names = {step: f"{step:06}-fit-0.xplane.pb" for step in sampled}
    told: dict[str, Any] = {"index": rank, "world": ranks, "role": "worker"}
    return WrittenProcess(
        pid=7000 + rank,
        host=host,
        loops=[WrittenLoop("fit", "resnet", steps=times, sampled=tuple(sampled))],
        header={
            UNIX_WORD: UNIX_NS + ahead_ns,
            LAYOUT.STATE_WORD: LAYOUT.FINISHED,
            LAYOUT.ACTIVE_WORD: times[-1][1],
        },
        manifest={
            "rank": {"source": "TF_CONFIG", **told},
            "boot_id": f"boot of {host}",
            "devices": ["/device:CPU:0", "/device:GPU:0"],
        },
        events=[_sample(step, name, times[step][0], ahead_ns) for step, name in names.items()],
        captures={
            name: gpu_step(late_us=late_us, start_ns=times[step][0] - MONO_NS + UNIX_NS + ahead_ns)
            for step, name in names.items()
        },
    )


def _sample(step: int, name: str, start_ns: int, ahead_ns: int) -> dict[str, Any]:
    return {
        "event": "sample",
        "work": 0,
        "step": step,
        "capture": name,
        "level": "window",
        "why": "every",
        "start_ns": start_ns,
        "end_ns": start_ns + MS,
        "start_unix_ns": start_ns - MONO_NS + UNIX_NS + ahead_ns,
        "plain_ns": STEP_NS,
    }
