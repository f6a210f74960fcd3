"""A job is there while its first process is, or any that was recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfprobe.attach.meter.sampling import Job, sample_until_end
from tfprobe.runs.layout import RunFolder


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc with processes 7 and 8."""
    folder = tmp_path / "proc"
    for pid in (7, 8):
        _live(folder, pid, ticks=pid * 100)
    return folder


def _live(proc: Path, pid: int, *, ticks: int, state: str = "S") -> None:
    (proc / str(pid)).mkdir(parents=True, exist_ok=True)
    fields = " ".join([state, *["0"] * 18, str(ticks)])
    (proc / str(pid) / "stat").write_text(f"{pid} (a ) b) {fields}")


def _record(run: Path, pid: int, ticks: object) -> None:
    folder = run / "node7" / f"{pid}-1"
    folder.mkdir(parents=True)
    document = {"pid": pid, "pid_started_ticks": ticks}
    (folder / "process.json").write_text(json.dumps(document))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """An empty run directory."""
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("ending", ["gone", "another", "zombie"])
def test_the_first_process_counts_until_it_ends(run: Path, proc: Path, ending: str) -> None:
    """One that has merely been given its pid is another; a zombie has ended."""
    job = Job(RunFolder(run), "node7", 7, proc)
    assert job.is_running()

    if ending == "gone":
        (proc / "7" / "stat").unlink()
    else:
        state, ticks = ("S", 999) if ending == "another" else ("Z", 700)
        _live(proc, 7, ticks=ticks, state=state)

    assert not job.is_running()


def test_a_recorded_process_keeps_the_job_there(run: Path, proc: Path) -> None:
    """A shell that starts the training in the background and ends."""
    job = Job(RunFolder(run), "node7", 7, proc)
    _record(run, 8, 800)
    job.look_for_more()
    (proc / "7" / "stat").unlink()

    assert job.is_running()
    (proc / "8" / "stat").unlink()
    assert not job.is_running()


@pytest.mark.parametrize("ticks", [None, "800", 801])
def test_a_process_that_cannot_be_told_does_not_keep_it(run: Path, proc: Path, ticks) -> None:
    """A meter must not outlive its job by a mistake."""
    job = Job(RunFolder(run), "node7", 7, proc)
    _record(run, 8, ticks)
    (run / "node7" / "9-1").mkdir()
    (run / "node7" / "9-1" / "process.json").write_text("{")
    job.look_for_more()
    (proc / "7" / "stat").unlink()

    assert not job.is_running()


class Ending:
    """An accelerator whose job ends at its second sample."""

    def __init__(self, stat: Path) -> None:
        self._stat = stat
        self._left = 2

    def sample(self) -> dict[str, object]:
        self._left -= 1
        if self._left == 0:
            self._stat.unlink()
        return {"index": self._left}


def test_samples_are_written_until_the_end(run: Path, proc: Path) -> None:
    """One now, and one a second."""
    job = Job(RunFolder(run), "node7", 7, proc)
    path = run / "machine" / "node7.jsonl"

    sample_until_end(job, [Ending(proc / "7" / "stat")], path)

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["devices"] for line in lines] == [[{"index": 1}], [{"index": 0}]]


def test_a_run_directory_that_vanishes_ends_it(run: Path, proc: Path) -> None:
    """Nothing is made anew where somebody has cleaned up."""
    job = Job(RunFolder(run), "node7", 7, proc)
    run.rmdir()

    with pytest.raises(FileNotFoundError):
        sample_until_end(job, [], run / "machine" / "node7.jsonl")
    assert not run.exists()
