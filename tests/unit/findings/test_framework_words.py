"""Findings say what to do in the framework of the job, or do not apply to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.subjects import loop, parts, timing
from tfprobe.analysis.breakdown.python_lines import GapPython, LineKind, PythonLine
from tfprobe.errors import Missing
from tfprobe.findings import engine
from tfprobe.findings.framework_words import ACTIONS, NOT_OF
from tfprobe.findings.rule import RunAnalysis
from tfprobe.findings.rules import RULES
from tfprobe.profile.profile import StepQueue

MS = 1_000_000


def _queued(**changes: object) -> StepQueue:
    """Steps of which each was waited for, 4 ms after calls of 1 ms."""
    queue = StepQueue(
        unfinished=0, steps_per_wait=1.0, waits=100, wait_ns=400 * MS, call_ns=100 * MS
    )
    return replace(queue, **changes)


def test_all_rules_exist() -> None:
    """A renamed rule would lose its words."""
    names = {rule.name for rule in RULES}

    assert {rule for rules in NOT_OF.values() for rule in rules} <= names
    assert {rule for actions in ACTIONS.values() for rule, _ in actions} <= names


@pytest.mark.parametrize("framework", sorted(ACTIONS))
def test_what_to_do_names_nothing_of_tensorflow(framework: str) -> None:
    """Its functions are not there."""
    for action in ACTIONS[framework].values():
        assert "tf.keras" not in action
        assert "TF_" not in action


def test_steps_of_jax_that_wait_for_input_are_told_in_its_words() -> None:
    """The same finding for a Session speaks of tf.data."""
    slow = loop(parts=parts(host_preprocess=0.5), timing=timing(kind="jit", queue=_queued()))
    plain = loop(parts=parts(host_preprocess=0.5))

    (of_jax,) = [
        each
        for each in engine.judge(RunAnalysis((slow.process,), (slow,))).findings
        if each.rule == "input_bound"
    ]
    (of_session,) = [
        each
        for each in engine.judge(RunAnalysis((plain.process,), (plain,))).findings
        if each.rule == "input_bound"
    ]

    assert "jax.device_put" in of_jax.action
    assert "jax" not in of_session.action


def test_steps_of_pytorch_that_wait_for_input_are_told_in_its_words() -> None:
    """A DataLoader with workers, whether a step was traced or not."""
    slow = loop(parts=parts(host_preprocess=0.5), timing=timing(kind="optimizer_step"))

    advice = engine.judge(RunAnalysis((slow.process,), (slow,)))

    (found,) = [each for each in advice.findings if each.rule == "input_bound"]
    assert "num_workers" in found.action
    assert not [each for each in advice.findings if each.rule in NOT_OF["pytorch"]]


def test_python_between_steps_of_jax_may_be_that_of_nnx() -> None:
    """At each call, nnx.jit takes the model and the optimizer apart: half of a short step."""
    line = PythonLine("__call__", "train.py", 16, LineKind.PYTHON, 0.9, 1)
    slow = loop(timing=timing(kind="jit", queue=_queued()), python=GapPython((line,), 3))

    advice = engine.judge(RunAnalysis((slow.process,), (slow,)))

    (found,) = [each for each in advice.findings if each.rule == "python_between_steps"]
    assert "nnx.cached_partial" in found.action


def test_rules_that_do_not_apply_say_why() -> None:
    """In JAX, XLA is never off."""
    slow = loop(timing=timing(kind="jit", queue=_queued()))

    advice = engine.judge(RunAnalysis((slow.process,), (slow,)))

    assert engine.Unchecked("xla_off", "XLA compiles all steps of JAX") in advice.unchecked


@pytest.mark.parametrize(
    ("queue", "is_found"),
    [(_queued(), True), (_queued(steps_per_wait=10.0), False), (_queued(waits=1), False)],
)
def test_a_program_that_waits_for_each_step_is_told(queue: StepQueue, *, is_found: bool) -> None:
    """At most the shorter of both is saved: what the host does between steps, or the step."""
    of_steps = timing(
        kind="jit",
        steps=100,
        step_ns=500 * MS,
        regular_step_ns=500 * MS,
        gap_ns=100 * MS,
        regular_gap_ns=100 * MS,
        thread_ns=600 * MS,
        queue=queue,
    )
    one = loop(timing=of_steps, waits_source="train.py:30")

    found = [
        each
        for each in engine.judge(RunAnalysis((one.process,), (one,))).findings
        if each.rule == "host_sync"
    ]

    assert bool(found) == is_found
    if is_found:
        gain = found[0].gain
        assert not isinstance(gain, Missing)
        assert gain.high_ns == 200 * MS
        assert found[0].evidence[0].source == "train.py:30"
