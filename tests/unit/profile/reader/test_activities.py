"""Activities come to stand on the wall clock, whole or cut by the end of their process."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.support.rundir import (
    HOST,
    LAYOUT,
    MONO_NS,
    UNIX_NS,
    WrittenLoop,
    WrittenProcess,
    write_run,
)
from tfprobe.profile.reader.run_reader import load
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine


def _line(kind: str, name: str, start_ns: int, end_ns: int | None, **more: int) -> str:
    end_mono_ns = None if end_ns is None else MONO_NS + end_ns
    fields = {"activity": kind, "name": name, "thread": "MainThread", "count": 1, "total_ns": 1}
    times = {"start_ns": MONO_NS + start_ns, "end_ns": end_mono_ns}
    return json.dumps({**fields, **times, **more}) + "\n"


@pytest.fixture
def profile_of(tmp_path):
    """Read a run of one process with these activities."""

    def read(*lines: str, loops: Sequence[WrittenLoop] = ()):
        process = WrittenProcess(header={LAYOUT.ACTIVE_WORD: MONO_NS + 1000}, loops=loops)
        root = write_run(tmp_path / "r1", [process])
        (folder,) = (root / HOST).iterdir()
        (folder / "activities.jsonl").write_text("".join(lines))
        return load(RunFolder(root), Machine("elsewhere", None))

    return read


def test_activities_are_in_unix_time_by_their_beginnings(profile_of):
    """An outer one comes before those that lie in it."""
    profile = profile_of(
        _line("save", "Model.save", 20, 30, count=4, total_ns=90),
        _line("train", "model.fit", 20, 90),
    )

    assert [(item.kind, item.start_ns, item.end_ns) for item in profile.activities] == [
        ("train", UNIX_NS + 20, UNIX_NS + 90),
        ("save", UNIX_NS + 20, UNIX_NS + 30),
    ]
    assert (profile.activities[1].count, profile.activities[1].total_ns) == (4, 90)


def test_one_that_never_ended_lasts_to_the_last_sign_of_life(profile_of):
    """A job that was killed in its training has trained."""
    profile = profile_of(_line("train", "model.fit", 400, None, count=1, total_ns=50))

    (activity,) = profile.activities
    assert activity.end_ns == UNIX_NS + 1000
    assert (activity.count, activity.total_ns) == (2, 650)


def test_one_that_ended_is_there_once(profile_of):
    """What was told at its beginning and at its end is one interval."""
    profile = profile_of(
        _line("train", "model.fit", 400, None, count=0, total_ns=0),
        _line("train", "model.fit", 400, 900),
    )

    (activity,) = profile.activities
    assert (activity.end_ns, activity.count) == (UNIX_NS + 900, 1)


def test_each_trace_of_a_function_is_counted(profile_of):
    """steps.bin has the retraces of its last look; a function that is gone by the end had more."""
    steps = [(MONO_NS + at, MONO_NS + at + 5) for at in (10, 20, 30, 40)]
    loops = [
        WrittenLoop(kind="function", name="train_step", steps=steps, retraces=1),
        WrittenLoop(kind="function", name="other", steps=steps, retraces=2),
        WrittenLoop(kind="fit", name="train_step", steps=steps),
    ]

    profile = profile_of(_line("trace", "train_step", 10, 14, count=4), loops=loops)

    assert [loop.retraces for loop in profile.loops] == [3, 2, 0]


def test_lines_that_are_no_activities_are_a_problem_with_its_place(profile_of):
    """The report says how many were lost."""
    profile = profile_of("{}\n", "nonsense\n", _line("train", "model.fit", 4, 9))

    assert len(profile.activities) == 1
    assert "2 lines of activities.jsonl are no activities." in [
        problem.what for problem in profile.problems
    ]
