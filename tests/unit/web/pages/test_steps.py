"""The page of steps: all of them on one curve, each of them on demand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.open_runs import ToldRun
from tests.support.profiles import Step, loop, op, process, profile, timed_loop
from tests.support.rundir import MONO_NS, UNIX_NS
from tfprobe.errors import NoAnswer, UsageError
from tfprobe.profile.profile import Profile, RecentSteps
from tfprobe.web import answers
from tfprobe.web.params import Params

MS = 1_000_000


def asked(name: str, told: Profile, **arguments: object) -> dict[str, Any]:
    question = Params({key: str(value) for key, value in arguments.items()})
    found = answers.answer(ToldRun(told), name, question)
    assert json.loads(json.dumps(found, allow_nan=False))
    return found


def training(count: int = 100, **changes: Any) -> Profile:
    """Return steps of 10 ms, of which step 5 was traced and step 40 was slow."""
    times = [10 * MS] * count
    times[40] = 300 * MS
    facts: dict[str, Any] = {
        "loops": [timed_loop(times, sampled=[5])],
        "processes": [process(unix_minus_monotonic_ns=UNIX_NS - MONO_NS)],
    }
    found = profile([Step([op("MatMul", 20, 60)], duration_us=100)], **{**facts, **changes})
    return replace(found, captures=tuple(replace(each, step=5) for each in found.captures))


def forgetful(first_step: int, count: int) -> Profile:
    """Return a run that remembers the last steps alone."""
    recent = timed_loop([10 * MS] * count).recent
    kept = RecentSteps(first_step, recent.start_ns, recent.end_ns, recent.sampled, recent.raised)
    told = timed_loop([10 * MS] * count, recent=kept, executed=first_step + count)
    return training(loops=[told])


def test_steps_are_told_by_distribution_curve_and_outliers():
    """Step 40 took 300 ms; the sampled one is not in the distribution."""
    found = asked("steps", training())

    assert found["step_times"]["p50_ns"] == 10 * MS
    assert found["step_times"]["left_out"] == 2
    assert sum(count for _, _, count in found["step_times"]["bars"]) == 98
    assert [each["step"] for each in found["slow_steps"]["longest"]] == [40]
    assert found["sampled_steps"] == [5]
    assert len(found["series"]["step"]) == 100


def test_many_steps_are_a_curve_of_at_most_two_thousand_points():
    """Of each bucket the least, the median and the most are told: step 40 is still seen."""
    found = asked("steps", training(8_000))["series"]

    assert found["steps_each"] == 4
    assert len(found["step"]) == 2_000
    assert max(found["max_ns"]) == 300 * MS
    assert max(found["median_ns"]) == 10 * MS


def test_a_part_of_the_steps_is_shown_nearer():
    """Then each is a point, and nothing else is told again."""
    found = asked("steps", training(8_000), first=30, end=50)

    assert found["series"]["steps_each"] == 1
    assert found["series"]["median_ns"][10] == 300 * MS
    assert "slow_steps" not in found


def test_one_step_is_told_with_why_it_was_slow():
    """How much longer than usual, and in which phase."""
    found = asked("step", training(), step=40)

    assert found["duration_ns"] == 300 * MS
    assert found["slow"]["excess_ns"] == 290 * MS
    assert found["slow"]["why"] == "not known"
    assert found["phase"] == "steady"
    assert found["usual_ns"] == 10 * MS
    assert not found["is_sampled"]


def test_the_first_step_has_no_gap_before_it():
    """Null, not nothing."""
    assert asked("step", training(), step=0)["gap_ns"] is None
    assert asked("step", training(), step=1)["gap_ns"] == 1000


def test_a_step_that_is_forgotten_is_no_answer():
    """The sentence says which are remembered."""
    with pytest.raises(NoAnswer, match=r"Step 3 is not on record. .* 1,000 to 1,049"):
        asked("step", forgetful(1_000, 50), step=3)


def test_numbers_of_steps_are_whole():
    """Nonsense in an address is told as such."""
    with pytest.raises(UsageError, match="no whole number"):
        asked("step", training(), step="<script>")
    with pytest.raises(UsageError):
        asked("steps", training(), first=-1)


def test_the_life_of_its_process_is_told_by_phases():
    """They sum to the life."""
    found = asked("steps", training())["life"]

    assert sum(found["phases_ns"].values()) == found["wall_ns"]
    assert found["segments"][0][1] == 0
    assert found["column_ns"] is None


def test_the_parts_of_recorded_steps_sum_to_their_cycle():
    """Of each traced step, and of their mean."""
    found = asked("parts", training())

    (step,) = found["steps"]
    assert (step["step"], step["capture"]) == (5, 0)
    assert sum(step["parts_ns"].values()) == step["cycle_ns"] == 100_000
    groups = found["mean"]["groups"]
    assert sum(each["time_ns"] for each in groups) == pytest.approx(100_000)
    assert asked("parts", training(), step=5)["step"] == step


def test_each_part_of_a_step_is_called_as_everywhere():
    """Not by its name in the code: a part has one name on all pages and on the terminal."""
    found = asked("parts", training())

    assert found["labels"]["host_preprocess"] == "preprocessing"
    assert all(set(each["parts_ns"]) <= set(found["labels"]) for each in found["steps"])


def test_a_step_that_was_not_recorded_has_no_parts():
    """It is said, not shown as nothing."""
    with pytest.raises(NoAnswer, match="Step 6 was not recorded"):
        asked("parts", training(), step=6)


def test_a_work_without_a_recorded_step_says_so():
    """Only its step times are known."""
    found = asked("parts", profile(loops=[loop()]))

    assert found["missing"] == "no step of this loop was traced"


def test_a_million_steps_make_a_small_document():
    """A recording from elsewhere may remember every step."""
    times = np.full(1_000_000, 10 * MS)
    ends = MONO_NS + np.cumsum(times + 1000)
    marks = np.zeros(len(times), dtype=np.bool_)
    recent = RecentSteps(0, ends - times, ends, marks, marks)
    told = loop([10 * MS] * 10, recent=recent, executed=1_000_000)

    found = asked("steps", training(loops=[told]))

    assert len(json.dumps(found)) < 300_000
    assert found["series"]["steps_each"] == 500


def test_a_run_without_steps_is_told_why():
    """TensorFlow was imported, and no step was taken: no page is an error then."""
    found = asked("steps", profile())

    assert found["missing"] == "no step has been recorded"
    assert "ran no step tfprobe recognises" in found["silences"][0]
    assert asked("parts", profile())["missing"] == "no step has been recorded"
