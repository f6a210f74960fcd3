"""Runs are chosen by what their listing says, and what it does not say fits nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tfprobe.analysis.core.names import compile_patterns
from tfprobe.analysis.jobs.run_selection import Filters, filter_runs
from tfprobe.errors import Missing
from tfprobe.profile.snapshots import RunLine

NOW_NS = 2_000_000_000_000_000_000
HOUR_NS = 3600 * 10**9
TRAIN = RunLine(
    *("train", "/runs/train", ("python", "train.py", "--lr", "0.1"), "2026", "gpu-1", 1, 5),
    state="finished",
    user="ada",
    hosts=("gpu-1", "gpu-2"),
    active_unix_ns=NOW_NS - 2 * HOUR_NS,
)
SERVE = replace(
    TRAIN,
    id="serve",
    command=("python", "serve.py"),
    state="running",
    user="bob",
    hosts=("cpu-1",),
    active_unix_ns=NOW_NS - 90 * HOUR_NS,
)
LOST = RunLine("lost", "/runs/lost", *[Missing("run.json is lost")] * 3, 0, 0, "unknown")
RUNS = (TRAIN, SERVE, LOST)


def _chosen(**asked: object) -> list[str]:
    return [run.id for run in filter_runs(RUNS, Filters(**asked), NOW_NS).runs]


def test_without_filters_all_are_chosen() -> None:
    """In the order they came."""
    assert _chosen() == ["train", "serve", "lost"]


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ({"states": ("finished", "unknown")}, ["train", "lost"]),
        ({"hosts": ("gpu-2",)}, ["train"]),
        ({"hosts": ("?pu-1",)}, ["train", "serve"]),
        ({"hosts": ("GPU-1",)}, []),
        ({"users": ("b*", "eve")}, ["serve"]),
        ({"users": ("*",)}, ["train", "serve"]),
        ({"commands": compile_patterns(["train"])}, ["train"]),
        ({"commands": compile_patterns(["lr 0.1$", "^python serve"])}, ["train", "serve"]),
        ({"commands": compile_patterns(["^train"])}, []),
        ({"states": ("finished",), "users": ("bob",)}, []),
    ],
)
def test_one_value_of_each_filter_must_fit(asked: dict[str, object], chosen: list[str]) -> None:
    """States by name, hosts and users by pattern, commands by a regular expression."""
    assert _chosen(**asked) == chosen


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ({"older_ns": 2 * HOUR_NS}, ["train"]),
        ({"older_ns": 2 * HOUR_NS + 1}, []),
        ({"newer_ns": 2 * HOUR_NS}, ["train", "serve"]),
        ({"newer_ns": 1}, ["serve"]),
        ({"older_ns": 1, "newer_ns": 1}, []),
    ],
)
def test_age_counts_from_the_last_sign_of_life(asked: dict[str, object], chosen: list[str]) -> None:
    """A running job has no age, whenever it last wrote; a run that nobody dates fits neither."""
    assert _chosen(**asked) == chosen


def test_a_run_of_the_future_is_new() -> None:
    """Recorded on a machine whose clock is ahead, or before ours was set back."""
    ahead = replace(TRAIN, active_unix_ns=NOW_NS + HOUR_NS)

    assert filter_runs([ahead], Filters(newer_ns=1), NOW_NS).runs == (ahead,)


def test_what_left_nothing_is_told() -> None:
    """How many were left after each filter, in their order."""
    filters = Filters(states=("finished", "running"), users=("ada",), older_ns=9 * HOUR_NS)

    found = filter_runs(RUNS, filters, NOW_NS)

    assert found.left == (("state", 2), ("user", 1), ("older", 0))
