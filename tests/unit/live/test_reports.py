"""Reports of a run that goes on are made where something is new, at a bounded cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.rundir import (
    LAYOUT,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    steps_bin,
    write_process,
    write_run,
)
from tfprobe.errors import Missing, NoAnswer
from tfprobe.live import reports
from tfprobe.live.reports import CORE_RATIO, NOTHING_NEW, MadeReport, Reports
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine

ELSEWHERE = Machine("elsewhere", None)


class Clock:
    """Seconds that pass where a test lets them."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def run(tmp_path: Path) -> Path:
    process = WrittenProcess(loops=[WrittenLoop(steps=regular_steps(3))])
    return write_run(tmp_path / "run", [process])


def step(run: Path, count: int, header: Mapping[int, int] | None = None) -> None:
    (path,) = run.glob("*/4711-*/steps.bin")
    with path.open("r+b") as file:
        file.write(steps_bin([WrittenLoop(steps=regular_steps(count))], header))


def counts(made: MadeReport | Missing) -> list[int]:
    assert isinstance(made, MadeReport)
    return [loop.loop.count for process in made.report.processes for loop in process.loops]


def test_a_report_is_made_where_something_is_new(run):
    """And not again where nothing is."""
    made = Reports(RunFolder(run), ELSEWHERE)
    first, second = made.next(), made.next()
    step(run, 8)

    assert (counts(first), second, counts(made.next())) == ([3], NOTHING_NEW, [8])


def test_it_knows_when_the_run_has_ended(run):
    """The report of that moment is the last."""
    made = Reports(RunFolder(run), ELSEWHERE)
    made.next()
    before = made.has_ended
    step(run, 8, {LAYOUT.STATE_WORD: LAYOUT.FINISHED})
    last = made.next()

    assert (before, made.has_ended, counts(last)) == (False, True, [8])


def test_making_takes_a_share_of_a_core_at_most(run, monkeypatch):
    """A report that takes seconds is made the less often."""
    clock = Clock()
    gather = reports.gather_report

    def slow(profile):
        clock.now_s += 3.0
        return gather(profile)

    monkeypatch.setattr(reports, "gather_report", slow)
    made = Reports(RunFolder(run), ELSEWHERE, every_s=1.0, clock=clock)
    first = made.next()
    after_slow_s = made.pause_s()
    made.next()

    assert isinstance(first, MadeReport)
    assert first.took_s == 3.0
    assert after_slow_s == pytest.approx(3.0 / CORE_RATIO - 3.0)
    assert made.pause_s() == 1.0


def test_a_rank_that_is_not_there_yet_is_waited_for(run):
    """Until the run has ended without it."""
    made = Reports(RunFolder(run), ELSEWHERE, rank=1)
    before = made.next()
    rank = {"source": "TF_CONFIG", "index": 1, "world": 2, "role": "worker"}
    write_process(run, WrittenProcess(pid=5, manifest={"rank": rank}))

    assert isinstance(before, Missing)
    assert "no process of rank 1" in before.reason
    assert isinstance(made.next(), MadeReport)


def test_a_run_that_ends_without_the_rank_has_no_answer(run):
    """As without following."""
    step(run, 8, {LAYOUT.STATE_WORD: LAYOUT.FINISHED})

    with pytest.raises(NoAnswer, match="no process of rank 1"):
        Reports(RunFolder(run), ELSEWHERE, rank=1).next()
