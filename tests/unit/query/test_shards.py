"""A shard is one process of a run, and its profile what the whole run's says of that process."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest

from tests.support.plain import plain
from tests.support.questions import ELSEWHERE, rank, write_ranks
from tests.support.rundir import write_run
from tfprobe.errors import NoAnswer, UnreadableInput
from tfprobe.profile.profile import Profile
from tfprobe.profile.reader.run_reader import load
from tfprobe.query.shards import load_shard, rest_of, shards_of
from tfprobe.runs.catalogue import glance
from tfprobe.runs.layout import RunFolder

# What both number for themselves: a shard has one process, whose captures it counts from 0.
_NUMBERED = ("process", "capture", "index")


def of_process(profile: Profile, number: int) -> list[object]:
    """Return what a profile says of one of its processes, with its numbers taken out."""
    captures = [each for each in profile.captures if each.process == number]
    wanted = [each.index for each in captures]
    rows = profile.executions.only(np.isin(profile.executions.capture, wanted))
    tables = {name: values for name, values in plain(rows).items() if name != "capture"}
    loops = [each for each in profile.loops if each.process == number]
    process = profile.processes[number]
    return [
        plain(dataclasses.replace(process, index=0)),
        [plain(dataclasses.replace(each, process=0)) for each in loops],
        [plain(dataclasses.replace(each, process=0, index=0)) for each in captures],
        tables,
    ]


def test_a_shard_says_of_its_process_what_the_whole_run_says(tmp_path):
    """Whoever reads one process alone reads of it what `report` reads of all."""
    run = RunFolder(write_ranks(tmp_path / "run", 3))
    whole = load(run, ELSEWHERE)

    parts = [load_shard(shard) for shard in shards_of(run, ELSEWHERE)]

    assert [of_process(part, 0) for part in parts] == [of_process(whole, n) for n in range(3)]


def test_shards_stand_in_the_order_of_the_processes(tmp_path):
    """Shard n is process n of the whole profile, by host and folder."""
    run = RunFolder(write_ranks(tmp_path / "run", 9))

    shards = shards_of(run, ELSEWHERE)

    assert [each.process.root for each in shards] == [each.root for each in run.processes()]


def test_a_rank_chooses_its_shards(tmp_path):
    """--rank R asks the processes of that rank alone, all of them where several claim it."""
    claims = {"rank": {"source": "TF_CONFIG", "index": 1, "world": 2}}
    processes = [rank(0), rank(1), rank(2, manifest=claims)]
    run = RunFolder(write_run(tmp_path / "run", processes))

    shards = shards_of(run, ELSEWHERE, rank=1)

    assert [each.process.root.name.partition("-")[0] for each in shards] == ["4712", "4713"]


def test_a_rank_that_nobody_has_is_no_answer(tmp_path):
    """Asked for a rank that is not there, tfprobe says which are."""
    run = RunFolder(write_ranks(tmp_path / "run", 2))

    with pytest.raises(NoAnswer, match=r"no process of rank 7.*It has ranks 0, 1\."):
        shards_of(run, ELSEWHERE, rank=7)


def test_what_is_the_runs_is_told_by_no_shard(tmp_path):
    """Interpreters and problems of the run are told once, however many processes there are."""
    lines = [f"node0\t{4711 + n}\t1795205058000000000\t3.11.7\t/usr/bin/python3" for n in range(2)]
    run = RunFolder(write_run(tmp_path / "run", [rank(0), rank(1)], interpreters=lines))
    run.manifest.write_text("{")

    parts = [load_shard(shard) for shard in shards_of(run, ELSEWHERE)]
    rest = rest_of(glance(run, ELSEWHERE), ["node0"])

    assert [(part.interpreters, part.problems) for part in parts] == [((), ())] * 2
    assert ([each.pid for each in rest.interpreters], [each.where for each in rest.problems]) == (
        [4711, 4712],
        ["run.json"],
    )


def test_the_state_is_as_the_asker_sees_it(tmp_path):
    """A worker on another machine cannot look a pid up, so it takes the state it was told."""
    run = RunFolder(write_ranks(tmp_path / "run", 1))
    (shard,) = shards_of(run, ELSEWHERE)

    profile = load_shard(dataclasses.replace(shard, state="running"))

    assert profile.processes[0].state == "running"


def test_a_shard_that_is_gone_cannot_be_read(tmp_path):
    """A process folder that was removed since it was listed is said to be gone."""
    run = RunFolder(write_ranks(tmp_path / "run", 1))
    (shard,) = shards_of(run, ELSEWHERE)
    shutil.rmtree(shard.process.root)

    with pytest.raises(UnreadableInput, match="no longer exists"):
        load_shard(shard)
