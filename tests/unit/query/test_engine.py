"""Each shard answers or is said to be lost, in the order of the shards."""

from __future__ import annotations

import shutil

from tests.support.questions import CAPTURE, COUNT, ELSEWHERE, FAILS, write_ranks
from tfprobe.query.process_pool import Here
from tfprobe.query.queries import FailedShard, run_query
from tfprobe.query.shards import shards_of
from tfprobe.runs.layout import RunFolder


def test_every_shard_answers_in_its_place(tmp_path):
    """Answers stand in the order of the processes."""
    shards = shards_of(RunFolder(write_ranks(tmp_path / "run", 3)), ELSEWHERE)

    parts = run_query(COUNT, shards, Here())

    assert [(part.rank, part.steps, part.executions) for part in parts] == [
        (0, 4, 1),
        (1, 5, 2),
        (2, 6, 3),
    ]


def test_who_waits_is_told_how_many_have_answered(tmp_path):
    """Progress counts processes."""
    shards = shards_of(RunFolder(write_ranks(tmp_path / "run", 2)), ELSEWHERE)
    told = []

    run_query(COUNT, shards, Here(), lambda done, count: told.append((done, count)))

    assert told == [(1, 2), (2, 2)]


def test_of_one_process_progress_counts_captures(tmp_path):
    """Most runs are one process, and a bar that waits for its end would say nothing."""
    shards = shards_of(RunFolder(write_ranks(tmp_path / "run", 1)), ELSEWHERE)
    told = []

    run_query(COUNT, shards, Here(), lambda done, count: told.append((done, count)))

    assert told == [(1, 1)]


def test_a_shard_that_vanishes_is_lost_and_the_others_answer(tmp_path):
    """A process folder that is removed while others are read is missed, and said to be."""
    shards = shards_of(RunFolder(write_ranks(tmp_path / "run", 3)), ELSEWHERE)
    shutil.rmtree(shards[1].process.root)

    first, lost, last = run_query(COUNT, shards, Here())

    assert (first.rank, last.rank) == (0, 2)
    assert isinstance(lost, FailedShard)
    assert lost.problem().where == shards[1].where
    assert "no longer exists" in lost.problem().what


def test_a_capture_that_is_corrupt_is_a_problem_of_its_shard(tmp_path):
    """What of a process can be read is in the answer, and what cannot is among its problems."""
    run = RunFolder(write_ranks(tmp_path / "run", 2))
    shards = shards_of(run, ELSEWHERE)
    shards[1].process.capture(CAPTURE).write_bytes(b"\xff" * 40)

    good, bad = run_query(COUNT, shards, Here())

    assert (good.executions, good.problems) == (1, ())
    assert (bad.steps, bad.executions) == (5, 0)
    assert "This capture was skipped" in bad.problems[0]


def test_a_bug_takes_one_shard_with_it(tmp_path):
    """An error of ours names its place in a line; it neither ends the command nor hides."""
    shards = shards_of(RunFolder(write_ranks(tmp_path / "run", 1)), ELSEWHERE)

    (lost,) = run_query(FAILS, shards, Here())

    assert lost.reason.startswith("ZeroDivisionError: nothing to divide by (at ")
    assert lost.reason.endswith("This is a bug in tfprobe.")
