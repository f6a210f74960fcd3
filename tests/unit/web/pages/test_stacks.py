"""The page of stacks: trees of a process, its samples and rate, and why there are none."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.open_runs import ToldRun
from tests.support.profiles import process, profile
from tests.support.stacks import MAIN, MS, sampled
from tfprobe.errors import UsageError
from tfprobe.profile.activities import SampledThread
from tfprobe.profile.profile import Profile
from tfprobe.web.pages import stacks
from tfprobe.web.params import Params


def told(made: Profile, **arguments: str) -> dict[str, Any]:
    document = stacks.document(ToldRun(made), Params(arguments))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    return document


def sampled_profile(*reads: tuple[float, str]) -> Profile:
    return replace(profile(processes=[process()]), stacks=(sampled(reads, end_ms=1000),))


def test_a_process_is_told_with_its_samples_and_its_rate() -> None:
    """And a tree, without calls that nobody could see."""
    document = told(sampled_profile((0, "main fit"), (996, "main load")))

    (head,) = document["processes"]
    (part,) = document["parts"]
    (main,) = part["calls"]
    assert (head["samples"], head["most_rate_per_s"], head["sampled_ns"]) == (100, 20, 1000 * MS)
    assert (part["kind"], part["name"], part["total_ns"]) == (
        "thread", f"MainThread ({MAIN.id})", 1000 * MS,
    )  # fmt: skip
    assert [call["function"] for call in main["calls"]] == ["fit"]


def test_of_many_threads_the_longest_are_told() -> None:
    """A page can hold so much."""
    threads = {SampledThread(at, f"pool_{at}"): [(0, "work")] for at in range(50)}
    made = replace(profile(processes=[process()]), stacks=(sampled(threads, end_ms=9),))

    assert len(told(made)["parts"]) == stacks.MOST_THREADS


def test_a_run_without_stacks_says_how_to_get_them() -> None:
    """And one that could not be read says why."""
    assert told(profile())["missing"] == "it was recorded without `tfprobe run --stacks`"


def test_a_process_that_was_not_sampled_is_no_answer() -> None:
    """Rather than another one's trees."""
    with pytest.raises(UsageError):
        told(sampled_profile((0, "main")), process="7")
