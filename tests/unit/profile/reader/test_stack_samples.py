"""Stacks of recordings that grow, or are damaged: what is whole is read, the rest is a problem."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.rundir import HOST, MONO_NS, UNIX_NS, WrittenProcess, write_run
from tfprobe.profile.reader.run_reader import RunReader, load
from tfprobe.profile.reader.samples import LOST, ProcessStacks
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.liveness import Machine

LINE: dict[str, Any] = {
    "start_ns": MONO_NS, "end_ns": MONO_NS + 1_000_000, "rate_per_s": 20, "samples": 2, "errors": 0,
    "cost_ns": 3, "frames_from": 0, "frames": [["/job.py", 3, "main"]], "nodes_from": 0,
    "nodes": [[-1, 0]], "threads": [[77, "MainThread", [0], [0]]],
}  # fmt: skip
LATER = LINE | {
    "start_ns": MONO_NS + 1_000_000, "end_ns": MONO_NS + 2_000_000, "frames_from": 1,
    "frames": [["/job.py", 7, "step"]], "nodes_from": 1, "nodes": [[0, 1]],
    "threads": [[77, "MainThread", [0], [1]]],
}  # fmt: skip


def written(*documents: Any) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in documents)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the only process of a run."""
    root = write_run(tmp_path / "r1", [WrittenProcess()])
    (process,) = (root / HOST).iterdir()
    return process


def profile_of(folder: Path) -> Any:
    return load(RunFolder(folder.parents[1]), Machine("elsewhere", None))


def test_stacks_are_in_unix_time(folder: Path) -> None:
    """By the clock of their process."""
    (folder / "stacks.jsonl").write_bytes(written(LINE, LATER))

    (stacks,) = profile_of(folder).stacks

    assert stacks.read_ns.tolist() == [UNIX_NS, UNIX_NS + 1_000_000]
    assert (stacks.process, stacks.count) == (0, 4)


def test_a_run_without_has_none(folder: Path) -> None:
    """Not even an empty one."""
    assert profile_of(folder).stacks == ()


def test_what_stood_in_a_damaged_line_is_lost_and_nothing_else(folder: Path) -> None:
    """Numbers of later lines mean what they meant."""
    (folder / "stacks.jsonl").write_bytes(b"{damage}\n" + written(LATER))

    profile = profile_of(folder)

    (stacks,) = profile.stacks
    assert [stacks.frames[int(at)].function for at in stacks.frame_of] == [LOST.function, "step"]
    assert [each.what for each in profile.problems] == ["1 lines of stacks.jsonl are no stacks."]


@pytest.mark.parametrize(
    "changes",
    [
        {"start_ns": None},
        {"start_ns": -1},
        {"end_ns": 0},
        {"end_ns": 1 << 80},
        {"rate_per_s": 0},
        {"frames": [["/job.py", "3", "main"]]},
        {"frames": 7},
        {"frames_from": 1 << 40},
        {"nodes": [[0, 0]]},
        {"nodes": [[-1, 1]]},
        {"nodes": [[-2, 0]]},
        {"threads": [[77, "MainThread", [0], [1]]]},
        {"threads": [[77, "MainThread", [0, 5], [0]]]},
        {"threads": [[77, "MainThread", [0, -5], [0, 0]]]},
        {"threads": [[77, "MainThread", [1 << 70], [0]]]},
        {"threads": [[77, "MainThread", ["0"], [0]]]},
        {"threads": [[77, None, [0], [0]]]},
        {"threads": {}},
        {"problem": 5},
    ],
)
def test_a_line_that_does_not_agree_is_a_problem(folder: Path, changes: dict[str, Any]) -> None:
    """Never a traceback, and never a wrong number."""
    (folder / "stacks.jsonl").write_bytes(written(LINE | changes, LINE))

    profile = profile_of(folder)

    assert [each.what for each in profile.problems] == ["1 lines of stacks.jsonl are no stacks."]
    assert [each.count for each in profile.stacks] == [2]


def test_a_run_of_which_only_stacks_are_new_is_another_profile(folder: Path) -> None:
    """The last of them are written when the job has ended."""
    following = RunReader(RunFolder(folder.parents[1]), Machine("elsewhere", None))
    (folder / "stacks.jsonl").write_bytes(written(LINE))
    first = following.refresh()
    again = following.refresh()

    (folder / "stacks.jsonl").write_bytes(written(LINE, LATER))

    assert again is first
    assert [each.count for each in following.refresh().stacks] == [4]


def test_a_file_that_grows_is_read_on(folder: Path) -> None:
    """And a line that is half written when it is whole."""
    reader = ProcessStacks(ProcessFolder(folder))
    path, whole = folder / "stacks.jsonl", written(LINE, LATER)

    assert reader.read(0, 0) is None
    path.write_bytes(whole[:-20])
    first = reader.read(0, 0)
    path.write_bytes(whole)
    second = reader.read(0, 0)

    assert first is not None
    assert second is not None
    assert (first.count, second.count, reader.bad_lines) == (2, 4, 0)
    assert reader.read(0, 0) is second
