"""Two runs are compared as `tfprobe diff` compares them, the other opened by its id alone."""

from __future__ import annotations

import json
import threading
from typing import Any

import numpy as np
import pytest

from tests.support.open_runs import ToldRun
from tests.support.profiles import Step, op, profile, timed_loop
from tfprobe.errors import NoAnswer
from tfprobe.profile.profile import Profile
from tfprobe.web import answers
from tfprobe.web.params import Params

MS = 1_000_000


def training(times: float) -> Profile:
    random = np.random.default_rng(1)
    steps_ns = (10 * MS * times * (1 + 0.02 * random.standard_normal(200))).astype(np.int64)
    steps = [
        Step([op("MatMul", 0, round(60 * times)), op("Relu", 60, 20)], duration_us=200)
        for _ in range(8)
    ]
    return profile(steps, loops=[timed_loop(steps_ns.tolist())])


def opened(before: Profile, after: Profile) -> ToldRun:
    def sibling(name: str) -> ToldRun:
        if name != "r2":
            raise NoAnswer("There is no run of that name here.")
        return ToldRun(after)

    return ToldRun(before, sibling=sibling)


def asked(run: ToldRun, **arguments: str) -> dict[str, Any]:
    found = answers.answer(run, "compare", Params(arguments))
    assert json.loads(json.dumps(found, allow_nan=False))
    return found


def test_what_grew_is_told_with_how_sure_that_is():
    """B's steps take half as long again, and so does its MatMul."""
    found = asked(opened(training(1), training(1.5)), **{"with": "r2"})

    assert found["is_significant"]
    (loop,) = found["works"]
    step = loop["measures"][0]
    assert step["change_ratio"] == pytest.approx(0.5, abs=0.02)
    assert step["low_ratio"] < 0.5 < step["high_ratio"]
    assert loop["ops"]["types"][0]["name"] == "MatMul"
    assert loop["ops"]["types"][0]["delta_ns"] == pytest.approx(30_000)
    assert loop["breakdown"][0]["label"] == "host compute"
    why = "MatMul changed most, while Relu hardly changed"
    assert loop["cause"] == f"The cause is the program: {why}."


def test_a_run_is_as_it_is_itself():
    """Nothing is called a change."""
    found = asked(opened(training(1), training(1)), **{"with": "r2"})

    assert not found["is_significant"]
    assert found["works"][0]["cause"] is None


def test_without_another_run_the_page_says_which_this_is():
    """So that one can choose the other."""
    found = asked(opened(training(1), training(1)))

    assert (found["a"]["id"], found["b"], found["can_open"]) == ("r1", None, True)


def test_a_run_that_there_is_not_is_no_answer():
    """Whatever the name is: who opens runs says no."""
    with pytest.raises(NoAnswer, match="no run of that name"):
        asked(opened(training(1), training(1)), **{"with": "../../etc"})


def test_one_file_holds_one_run():
    """There the page says how to compare."""
    with pytest.raises(NoAnswer, match="tfprobe ui"):
        asked(ToldRun(training(1)), **{"with": "r2"})
    assert not asked(ToldRun(training(1)))["can_open"]


def test_runs_without_a_kind_of_step_in_common_say_so():
    """There is nothing to compare."""
    other = profile(loops=[timed_loop([MS] * 20, kind="function", name="f")])

    found = asked(opened(training(1), other), **{"with": "r2"})

    assert "no kind of step in common" in found["missing"]


def test_no_lock_is_held_while_the_other_run_is_opened():
    """Two pages that compare the same two runs the other way round wait for each other never."""
    run = opened(training(1), training(1))
    taken = []

    def sibling(name: str) -> ToldRun:
        other = threading.Thread(target=lambda: taken.append(run.lock.acquire(timeout=60)))
        other.start()
        other.join()
        return ToldRun(training(1))

    run.sibling = sibling

    asked(run, **{"with": "r2"})

    assert taken == [True]
