"""The view `history` sets the runs of a job beside each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.asked_tables import asked
from tests.support.rundir import WrittenLoop, WrittenProcess, regular_steps, write_run


def _write(runs: Path, at: int, step_us: int, **manifest: object) -> Path:
    loop = WrittenLoop(steps=regular_steps(100, step_ns=step_us * 1000))
    started = {"started": f"2026-11-20T20:{at:02}:00+00:00"}
    return write_run(
        runs / f"r{at}", [WrittenProcess(loops=[loop])], manifest={**started, **manifest}
    )


def test_each_run_is_compared_with_the_one_before(tmp_path: Path) -> None:
    """By its job: the name, else the command; the first of each has nothing before it."""
    runs = [
        _write(tmp_path, 1, 1000, name="night"),
        _write(tmp_path, 2, 5000),
        _write(tmp_path, 3, 1100, name="night", command=["python", "moved/train.py"]),
    ]

    columns, rows = asked(
        "select run, job, step_p50_ns, change_ratio from history order by run", *runs
    )

    assert [name for name, _ in columns] == ["run", "job", "step_p50_ns", "change_ratio"]
    assert [row[:3] for row in rows] == [
        ("r1", "night", 1_000_000.0),
        ("r2", "python train.py --epochs 3", 5_000_000.0),
        ("r3", "night", 1_100_000.0),
    ]
    assert [row[3] for row in rows] == [None, None, pytest.approx(0.1)]
