"""`run.follow` tells what happens in a run, and ends with it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

import tfprobe
from tests.support.captures import CPU, Node, run_metadata
from tests.support.rundir import (
    LAYOUT,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    steps_bin,
    write_process,
    write_run,
)
from tfprobe import recording
from tfprobe.errors import UnreadableInput, UsageError

CAPTURE = run_metadata({CPU: [Node("a", 10, 20, "a = MatMul()")]})
FINISHED = {LAYOUT.STATE_WORD: LAYOUT.FINISHED}


class Job:
    """A run that does its next thing whenever its follower sleeps; then time has passed."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        process = WrittenProcess(loops=[WrittenLoop(steps=regular_steps(3))])
        self.root = write_run(root, [process])
        (self.folder,) = root.glob("node7/*")
        self.then: Iterator[Callable[[], object]] = iter(())
        self.slept_s: list[float] = []
        self.now_s = 100.0
        clock = SimpleNamespace(monotonic=lambda: self.now_s, sleep=self.sleep, time_ns=lambda: 7)
        monkeypatch.setattr(recording, "time", clock)

    def sleep(self, duration_s: float) -> None:
        self.slept_s.append(duration_s)
        self.now_s += duration_s
        next(self.then)()

    def step(self, count: int, header: Mapping[int, int] | None = None) -> None:
        content = steps_bin([WrittenLoop(steps=regular_steps(count))], header)
        with (self.folder / "steps.bin").open("r+b") as file:
            file.write(content)

    def sample(self, step: int) -> None:
        (self.folder / "captures" / f"{step:06d}-fit-0.run_metadata.pb").write_bytes(CAPTURE)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    return Job(tmp_path / "run", monkeypatch)


def nothing() -> None:
    """Let time pass."""


def test_each_update_has_the_news_since_the_one_before(job):
    """Steps, captures, processes; the last when the run has ended."""
    job.then = iter(
        [
            lambda: job.step(5),
            lambda: job.sample(4),
            lambda: write_process(job.root, WrittenProcess(pid=99, header=FINISHED)),
            lambda: job.step(6, FINISHED),
        ]
    )

    updates = list(tfprobe.open_run(job.root).follow())

    assert [[each.count for each in update.steps] for update in updates] == [
        [3],
        [2],
        [],
        [],
        [1],
    ]
    assert [[each.step for each in update.captures] for update in updates] == [[], [], [4], [], []]
    assert [len(update.appeared) for update in updates] == [1, 0, 0, 1, 0]
    assert [len(update.ended) for update in updates] == [0, 0, 0, 1, 1]
    assert updates[-1].profile().run.state == "finished"


def test_new_captures_come_with_their_rows(job):
    """And without those of captures that were told before."""
    job.sample(1)
    job.then = iter([lambda: job.sample(2), lambda: job.step(6, FINISHED)])

    _, update, _ = tfprobe.open_run(job.root).follow()

    captured = update.captured()
    assert [(each.index, each.step) for each in captured.captures] == [(0, 2)]
    assert captured.executions.capture.tolist() == [0]
    assert len(update.profile().executions) == 2


def test_where_nothing_happens_there_is_no_update(job):
    """Nobody is woken for a job that waits."""
    job.then = iter([nothing, nothing, lambda: job.step(6, FINISHED)])

    assert len(list(tfprobe.open_run(job.root).follow())) == 2


def test_it_sleeps_between_looks(job):
    """For as long as was asked for."""
    job.then = iter([nothing, lambda: job.step(6, FINISHED)])

    list(tfprobe.open_run(job.root).follow(every_s=2.5))

    assert job.slept_s == [2.5, 2.5]


def test_it_ends_after_a_time(job):
    """A run on another machine may never be known to have ended."""
    job.then = iter([nothing] * 3)

    updates = list(tfprobe.open_run(job.root).follow(every_s=1.0, timeout_s=2.5))

    assert ([update.profile().run.state for update in updates], job.slept_s) == (
        ["unknown"],
        [1.0, 1.0, 0.5],
    )


def test_an_interrupt_passes(job):
    """Ctrl-C ends the loop of whoever follows as it ends any other."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    job.then = iter([interrupt])
    updates = tfprobe.open_run(job.root).follow()
    next(updates)

    with pytest.raises(KeyboardInterrupt):
        next(updates)


def test_a_run_that_is_removed_is_an_error(job):
    """It says which."""
    job.then = iter([lambda: shutil.rmtree(job.root)])
    updates = tfprobe.open_run(job.root).follow()
    next(updates)

    with pytest.raises(UnreadableInput, match="no longer exists"):
        next(updates)


def test_a_run_of_which_nothing_was_recorded_ends_with_its_launcher(tmp_path):
    """A job that never imported TensorFlow is not waited for for ever."""
    run = write_run(tmp_path / "run", manifest=_of_a_process_that_is_gone())

    (update,) = tfprobe.open_run(run).follow()

    assert update.profile().processes == ()


def _of_a_process_that_is_gone() -> dict[str, object]:
    here = recording.this_machine()
    return {
        "host": here.host,
        "boot_id": here.boot_id,
        "pid_namespace": here.pid_namespace,
        "pid": 1,
        "pid_started_ticks": -1,
    }


@pytest.mark.parametrize(
    "times", [{"every_s": 0}, {"every_s": float("nan")}, {"every_s": 1, "timeout_s": -1}]
)
def test_times_that_are_none_are_refused(job, times):
    """At the call, not at the first update."""
    with pytest.raises(UsageError, match="no time to wait for"):
        tfprobe.open_run(job.root).follow(**times)


def test_former_names_work_and_say_what_they_are_now(job):
    """Scripts that were written for them go on for a while."""
    run = tfprobe.open_run(job.root)
    first = next(run.follow())

    with pytest.warns(DeprecationWarning, match=r"Recording\.loops"):
        assert run.works == run.loops
    with pytest.warns(DeprecationWarning, match=r"Profile\.loops"):
        assert run.profile().works == run.profile().loops
    with pytest.warns(DeprecationWarning, match=r"Profile\.resource_samples"):
        assert run.profile().pulses == run.profile().resource_samples
    with pytest.warns(DeprecationWarning, match=r"NewSteps\.loop"):
        assert [each.work for each in first.steps] == [each.loop for each in first.steps]
