"""What is planted in a real job is found and named, and its bound is one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tf.laboratory import JOBS, Laboratory, Outcome, tfprobe_json
from tests.tf.requirements import need_tensorflow

# Cause -> the rule that names it.
FOUND = {
    "checkpoint_each_step": "checkpoint_stalls",
    "feed_large": "input_bound",
    "input_slow_generator": "input_bound",
    "input_slow_map": "input_bound",
    "leaking_list": "memory_growth",
    "retrace": "retracing",
    "sleeping_callback": "callbacks_slow",
    "tiny_ops": "tiny_ops",
    "too_many_threads": "threads_oversubscribed",
}
# Of the planted jobs.
STEPS = 120
# What is left of a step is slower after a wait, and while one step of ten is written a pipeline
# catches up.
SLACK_RATIO = 0.2
# A busy machine does not share its cores equally: of that many pairs it spares one.
PAIRS = 4


@pytest.fixture
def planted(laboratory: Laboratory):
    """Records a job with one thing wrong."""

    def record(cause: str) -> Outcome:
        (outcome,) = _recorded(laboratory, (cause,))
        return outcome

    return record


def _recorded(laboratory: Laboratory, *ways: tuple[str, ...]) -> list[Outcome]:
    """Record planted jobs, all at once, so that the machine is as busy for each."""
    need_tensorflow(laboratory, (2, 4))
    started = [laboratory.start("planted.py", *way, record=["--every", "10"]) for way in ways]
    outcomes = [each.outcome() for each in started]
    for outcome in outcomes:
        assert outcome.status == 0, outcome.stderr[-2000:]
    return outcomes


def _findings(outcome: Outcome) -> dict[str, dict[str, Any]]:
    # A loop of two seconds stands for one of days: it is no small part of its process.
    told = tfprobe_json("advise", str(outcome.run), "--threshold", "wall_ratio=0")
    return {each["rule"]: each for each in told["findings"]}


@pytest.mark.parametrize("cause", FOUND)
def test_a_planted_cause_is_named(planted, cause: str) -> None:
    """By the rule that is about it, with evidence and something to do."""
    findings = _findings(planted(cause))

    assert FOUND[cause] in findings
    assert findings[FOUND[cause]]["severity"] != "info"
    assert findings[FOUND[cause]]["evidence"]
    assert findings[FOUND[cause]]["action"]


def test_a_slow_generator_is_named_with_its_line(planted) -> None:
    """The line that makes a batch wait, whatever Keras and TensorFlow put around its function."""
    evidence = _findings(planted("input_slow_generator"))["input_bound"]["evidence"]

    source, *_ = [each["source"] for each in evidence if each.get("source")]
    lines = (JOBS / "planted.py").read_text().splitlines()
    assert lines[int(source.rpartition(":")[2]) - 1].strip().startswith("time.sleep("), source


def test_a_read_of_each_step_is_named_with_its_line(planted) -> None:
    """Without an accelerator it costs next to nothing, so it is told without alarm."""
    findings = _findings(planted("numpy_each_step"))

    sources = [each.get("source", "") for each in findings["host_sync"]["evidence"]]
    assert any("planted.py:" in source for source in sources)


def test_a_well_tuned_job_is_left_alone(planted) -> None:
    """Nothing above info: its time goes into large products."""
    findings = _findings(planted("well_tuned"))

    loud = {rule for rule, each in findings.items() if each["severity"] != "info"}
    assert loud - {"profiler_overhead"} == set()


@pytest.mark.parametrize(
    "cause", ["retrace", "feed_large", "checkpoint_each_step", "input_slow_map"]
)
def test_the_fix_wins_at_least_half_of_the_bound_and_no_more(
    laboratory: Laboratory, cause: str
) -> None:
    """A bound that is too small is none, and one that is far too large says nothing."""
    ratios: list[float] = []
    while len(ratios) < PAIRS and not any(0.5 <= each <= 1 + SLACK_RATIO for each in ratios):
        slow, fixed = _recorded(laboratory, (cause,), (cause, "--fixed"))
        won_us = STEPS * (_step_us(slow) - _step_us(fixed))
        ratios.append(won_us / _findings(slow)[FOUND[cause]]["gain"]["high_us"])

    assert any(0.5 <= each <= 1 + SLACK_RATIO for each in ratios), ratios


def _step_us(outcome: Outcome) -> float:
    """Return what the job itself measured of its usual step."""
    told = (line.split() for line in outcome.stdout.decode().splitlines())
    return next(float(words[1]) for words in told if words[:1] == ["STEP_US"])
