"""Answers are the same whoever works on them, also where a worker is killed in the middle."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from tests.support.questions import COUNT, DIES, DIES_ONCE, ELSEWHERE, write_ranks
from tfprobe.query import process_pool
from tfprobe.query.cluster import Cluster
from tfprobe.query.process_pool import Here, LocalProcesses
from tfprobe.query.queries import FailedShard, run_query
from tfprobe.query.shards import Shard, shards_of
from tfprobe.runs.layout import RunFolder

pytestmark = pytest.mark.slow


@pytest.fixture
def shards(tmp_path) -> tuple[Shard, ...]:
    """Six processes of two hosts."""
    return shards_of(RunFolder(write_ranks(tmp_path / "run", 6)), ELSEWHERE)


def test_processes_answer_as_this_one_does(shards):
    """--workers 2 gives what --workers 1 gives, and leaves no process behind."""
    parts = run_query(COUNT, shards, LocalProcesses(2))

    assert parts == run_query(COUNT, shards, Here())
    assert multiprocessing.active_children() == []


def test_a_worker_that_is_killed_costs_nothing(shards):
    """A worker that the kernel kills is replaced, and what it worked on is done by another."""
    parts = run_query(DIES_ONCE, shards, LocalProcesses(2))

    assert parts == run_query(COUNT, shards, Here())


def test_a_worker_whose_asker_is_gone_ends_quietly(tmp_path):
    """When the command is killed, its workers end with what they are at, and without a word."""
    os.mkfifo(tmp_path / "work")
    ours, theirs = multiprocessing.Pipe()
    worker = multiprocessing.get_context("spawn").Process(
        target=process_pool._work, args=(theirs, Path.read_bytes)
    )
    worker.start()
    theirs.close()
    ours.recv()
    ours.send(tmp_path / "work")
    with (tmp_path / "work").open("wb"):  # which waits until somebody reads
        ours.close()

    worker.join()

    assert worker.exitcode == 0


def test_a_shard_that_kills_twice_is_lost_alone(shards):
    """A process that cannot be read without dying is said to be missing, with how it died."""
    parts = run_query(DIES, shards, LocalProcesses(2))

    expected = list(run_query(COUNT, shards, Here()))
    reason = (
        "two processes that worked on it died, the last one by signal 9, as when memory runs out"
    )
    expected[1] = FailedShard(shards[1], reason)
    assert list(parts) == expected


@pytest.fixture
def clusters() -> None:
    """Skip where there is no Dask; a build that promises to test it fails."""
    if os.environ.get("CI") != "true":
        pytest.importorskip("distributed", reason="there is no Dask here")


def test_a_dask_cluster_answers_as_this_process_does(shards, clusters):
    """--dask local gives what --workers 1 gives."""
    parts = run_query(COUNT, shards, Cluster("local", 2))

    assert parts == run_query(COUNT, shards, Here())


def test_a_dask_worker_that_is_killed_costs_nothing(shards, clusters):
    """What a killed worker of a cluster worked on is done by another one, once."""
    parts = run_query(DIES_ONCE, shards, Cluster("local", 2))

    assert parts == run_query(COUNT, shards, Here())


def test_a_shard_that_kills_dask_workers_is_lost_alone(shards, clusters):
    """A cluster gives an item up that takes two workers with it, and answers the rest."""
    parts = run_query(DIES, shards, Cluster("local", 2))

    expected = list(run_query(COUNT, shards, Here()))
    expected[1] = FailedShard(shards[1], "two workers of the cluster that worked on it died")
    assert list(parts) == expected
