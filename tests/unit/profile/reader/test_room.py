"""Of more captures than fit into memory the newest of each process are read, and it is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.captures import CPU, Node, run_metadata
from tests.support.plain import plain
from tests.support.rundir import (
    BOOT_ID,
    HOST,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)
from tfprobe.profile.profile import Profile
from tfprobe.profile.reader import followed_captures
from tfprobe.profile.reader.followed_captures import CaptureFile, LeftOut, newest_within
from tfprobe.profile.reader.run_reader import RunReader
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine

HERE = Machine(HOST, BOOT_ID, Path("/nonexistent"))
NODES = 10


def written(root: Path, processes: int, captures: int) -> RunFolder:
    every = [
        WrittenProcess(
            pid=100 + at,
            loops=[WrittenLoop(steps=regular_steps(captures), sampled=range(captures))],
            captures={name(step): content(NODES) for step in range(captures)},
        )
        for at in range(processes)
    ]
    return RunFolder(write_run(root / "r1", every))


def name(step: int) -> str:
    return f"{step:06}-session_run-0.run_metadata.pb"


def content(nodes: int) -> bytes:
    return run_metadata({CPU: [Node(f"n{at}", at, 1) for at in range(nodes)]})


def steps(profile: Profile) -> list[tuple[int, int]]:
    return [(each.process, each.step) for each in profile.captures]


@pytest.fixture(autouse=True)
def _every_row_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    # The files of a test are so small that nobody would look how many rows they have.
    monkeypatch.setattr(followed_captures, "LEAST_BYTES_A_ROW", 0)


def test_the_newest_of_each_process_are_read(tmp_path):
    """Every rank is there, and ranks that are sampled at the same steps have the same ones."""
    following = RunReader(written(tmp_path, 3, 5), HERE, most_rows=6 * NODES)

    profile = following.refresh()

    assert steps(profile) == [(0, 3), (0, 4), (1, 3), (1, 4), (2, 3), (2, 4)]
    assert len(profile.executions) == 6 * NODES


def test_what_is_not_read_is_said(tmp_path):
    """A reader must not take a part for the whole."""
    following = RunReader(written(tmp_path, 3, 5), HERE, most_rows=2 * NODES)

    profile = following.refresh()

    assert following.left_out == LeftOut(captures=13, of=15, processes=1)
    (problem,) = (each for each in profile.problems if each.where == "captures")
    assert problem.what.startswith(
        "Of 15 traced steps the newest 2 are read, and none of 1 process: all would take too much"
    )


def test_what_fits_is_read_as_without_a_bound(tmp_path):
    """Most runs are small, and theirs are all numbers."""
    folder = written(tmp_path, 2, 3)

    bounded = RunReader(folder, HERE, most_rows=6 * NODES).refresh()

    assert plain(bounded) == plain(RunReader(folder, HERE).refresh())


def test_a_new_step_takes_the_place_of_an_old_one(tmp_path):
    """A job that goes on takes no more memory."""
    folder = written(tmp_path, 1, 3)
    following = RunReader(folder, HERE, most_rows=2 * NODES)
    first = following.refresh()
    (process,) = folder.processes()

    (process.captures / name(3)).write_bytes(content(NODES))

    assert steps(first) == [(0, 1), (0, 2)]
    assert steps(following.refresh()) == [(0, 2), (0, 3)]


def test_one_that_is_too_large_by_itself_is_read(tmp_path):
    """There is nothing smaller to show."""
    following = RunReader(written(tmp_path, 2, 1), HERE, most_rows=1)

    assert steps(following.refresh()) == [(0, 0)]


def test_captures_that_cannot_be_decoded_do_not_end_it(tmp_path):
    """They take no room, and each is a problem of its own."""
    folder = written(tmp_path, 2, 3)
    for process in folder.processes():
        for path in process.capture_files():
            path.write_bytes(b"\xff" * 4000)

    profile = RunReader(folder, HERE, most_rows=NODES).refresh()

    assert profile.captures == ()
    assert len(profile.problems) == 6


def test_works_that_are_sampled_seldom_are_there_too():
    """The newest of each loop comes before the second newest of any."""
    files = [[file("eval-0", 1), file("train-1", 0), file("train-2", 0), file("train-3", 0)]]

    assert newest_within(files, 2, 1.0) == [frozenset({"eval-0", "train-3"})]


def file(name: str, loop: int) -> CaptureFile:
    return CaptureFile(name=name, loop=loop, bytes=1, rows=1)
