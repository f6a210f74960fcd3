"""The overview tells of any run what there is, and of what there is not why."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.open_runs import ToldRun
from tests.support.profiles import Step, loop, op, process, profile, timed_loop
from tests.support.rundir import MONO_NS, UNIX_NS
from tfprobe.errors import Missing
from tfprobe.profile.profile import Problem, Profile, Run, StepQueue
from tfprobe.web import answers
from tfprobe.web.pages.overview import command_line
from tfprobe.web.params import Params

MS = 1_000_000


def asked(name: str, told: Profile, **arguments: str) -> dict[str, Any]:
    found = answers.answer(ToldRun(told), name, Params(arguments))
    assert json.loads(json.dumps(found, allow_nan=False))
    return found


def training(**changes: Any) -> Profile:
    """Return a hundred steps of 10 ms, of which step 5 was traced and step 40 was slow."""
    times = [10 * MS] * 100
    times[40] = 300 * MS
    steps = [Step([op("MatMul", 0, 60), op("Relu", 60, 20)], duration_us=100)]
    facts: dict[str, Any] = {
        "loops": [timed_loop(times, sampled=[5])],
        "processes": [process(unix_minus_monotonic_ns=UNIX_NS - MONO_NS)],
    }
    return profile(steps, **{**facts, **changes})


def test_the_overview_tells_of_the_steps_of_the_work_with_most_time():
    """How many, how long, which stand out, in which phase they were."""
    main = asked("overview", training())["main"]

    assert (main["count"], main["sampled"], main["p50_ns"]) == (100, 1, 10 * MS)
    assert main["series"]["steps_each"] == 1
    assert main["series"]["median_ns"][40] == 300 * MS
    assert [each["step"] for each in main["slow_steps"]["longest"]] == [40]
    assert main["bands"][-1]["phase"] == "steady"


def test_the_overview_charts_the_loop_and_not_an_initialisation():
    """The first call of a function traces and compiles, which may take longer than the training."""
    init = loop([5000 * MS, MS], kind="function", name="init", index=0)
    train = loop([10 * MS] * 100, kind="function", name="train_step", index=1)

    found = asked("overview", profile(loops=[init, train]))

    assert found["main"]["name"] == "train_step"
    assert [each["name"] for each in found["works"]] == ["train_step", "init"]


def test_a_run_without_steps_says_so():
    """TensorFlow was imported, and no step was taken."""
    found = asked("overview", profile(loops=[]))

    assert found["main"] == {"missing": "no step has been recorded"}
    assert found["steps"] == 0
    assert "ran no step tfprobe recognises" in found["silences"][0]
    assert asked("shares", profile())["breakdown"] == {"missing": "no step was traced"}


def test_a_run_without_a_process_says_so():
    """The command was no Python program."""
    found = asked("overview", profile(processes=[]))

    assert found["processes"] == []
    assert found["overhead"] == {"missing": "no process was recorded"}
    assert found["silences"]
    account = asked("shares", profile(processes=[]))["account"]
    assert (account["parts"], account["missing"]) == (None, "no process was recorded")


def test_a_process_that_was_killed_tells_what_is_known():
    """Nobody noted how long it lived: that has its reason."""
    killed = process(state="killed", tensorflow=Missing("not noted"), hooks=Missing("torn"))
    found = asked("overview", training(processes=[killed]))

    (told,) = found["processes"]
    assert told["state"] == "killed"
    assert (told["tensorflow"], told["missing"]["tensorflow"]) == (None, "not noted")
    assert told["overhead_ratio"] is None
    assert found["overhead"] == {"missing": "torn"}


def test_the_account_stands_in_the_shares():
    """Parts that are there, with what most of them went to; slices of its life in runs."""
    found = asked("shares", training())["account"]

    assert sum(each["ns"] for each in found["parts"]) == found["wall_ns"]
    (productive,) = (each for each in found["parts"] if each["part"] == found["productive"])
    assert productive["of"][0]["what"] == "host compute"
    assert sum(run["slices"] for run in found["strip"]["runs"]) == found["strip"]["slices"]


def test_the_answer_stands_in_the_shares():
    """What a step does most, in words; parts sum to their group, groups to 1."""
    found = asked("shares", training())["breakdown"]

    assert found["answer"][0]["does"] == "computes on the host"
    assert sum(each["share_ratio"] for each in found["groups"]) == 1
    for group in found["groups"]:
        parts = sum(each["share_ratio"] for each in group["parts"])
        assert parts == pytest.approx(group["share_ratio"])
    assert found["cycle_ns"] == pytest.approx(100_000)


def test_of_several_kinds_of_step_no_time_a_step_is_told():
    """A mean of training and evaluation would be of neither."""
    several = training(loops=[timed_loop([10 * MS] * 20), loop(index=1)])
    steps = [Step([op("A", 0, 10)], loop=0), Step([op("B", 0, 10)], loop=1)]

    found = asked("shares", profile(steps, loops=several.loops))["breakdown"]

    assert found["works"] == 2
    assert found["cycle_ns"] is None
    assert found["total_ns"] > 0


def test_the_dearest_ops_are_told_and_how_many_there_are():
    """The page links each of them to the table of all."""
    found = asked("shares", training())["framework"]

    assert [each["type"] for each in found["types"]] == ["MatMul", "Relu"]
    assert found["types"][0]["share_ratio"] == 0.75
    assert found["types_in_all"] == 2


def test_what_could_not_be_read_is_told():
    """Of a thousand broken captures the first hundred are named."""
    broken = [Problem(f"{at}.pb", "torn" * 1000) for at in range(1000)]

    found = asked("shares", replace(training(), problems=tuple(broken)))

    assert found["problems_in_all"] == 1000
    assert len(found["problems"]) == 100
    assert len(found["problems"][0]["what"]) == 500


def test_a_hostile_run_makes_no_large_document():
    """A thousand works and processes, each with a name of 100 KB."""
    name = "<script>" * 12_500
    loops = [replace(loop(name=name), process=at, index=0) for at in range(1_000)]
    processes = [process(index=at, pid=at + 1) for at in range(1_000)]

    found = asked("overview", profile(loops=loops, processes=processes))

    assert len(json.dumps(found)) < 1_000_000
    assert (len(found["processes"]), found["processes_in_all"]) == (64, 1_000)


def test_samples_that_cannot_be_read_are_not_called_none():
    """The captures are there, and torn."""
    torn = profile(loops=[loop(sampled=2)], problems=(Problem("3.pb", "torn"),))

    found = asked("shares", torn)["breakdown"]

    assert found["missing"].startswith("of 2 traced steps none can be read")


def test_a_command_is_cut_where_no_page_shows_more() -> None:
    """Launchers may carry whole configurations in it."""
    run = Run("r", "/runs/r", ("python", "x" * 1_000_000), Missing("unknown"), "finished")

    assert command_line(run) == "python " + "x" * 1_993


@pytest.mark.parametrize(
    ("changes", "framework"),
    [
        ({"kind": "jit"}, "jax"),
        ({"kind": "fit", "queue": StepQueue(0, 1.0, 99, 0, 0)}, "jax"),
        ({"kind": "optimizer_step", "queue": StepQueue(0, 1.0, 99, 0, 0)}, "torch"),
        ({"kind": "fit"}, None),
    ],
)
def test_the_framework_is_the_one_that_runs_the_steps(changes, framework):
    """A program of JAX imports TensorFlow for its data, and both have a version."""
    told = loop([10 * MS] * 100, **changes)

    main = asked("overview", profile(loops=[told]))["main"]

    assert main.get("framework") == framework
