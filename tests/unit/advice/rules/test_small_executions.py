"""Small steps of Keras are told where Python between them takes a tenth of the time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.signals import MS, STEPS, WHOLE_NS, found, loop, parts, process, work
from tfprobe.advice.signals import ActivityUse
from tfprobe.errors import Missing

SMALL = loop(usual_step_ns=1.0 * MS)


def test_a_tenth_between_small_steps_is_told() -> None:
    """With the argument that runs several steps in one call."""
    finding = found("small_executions", work(loop=SMALL, parts=parts(idle=0.1)))

    assert finding is not None
    assert "steps_per_execution" in finding.action


def test_less_is_not() -> None:
    """What makes the batch does not count: it stays."""
    shares = parts(idle=0.099, host_preprocess=0.5)

    assert found("small_executions", work(loop=SMALL, parts=shares)) is None


def test_of_single_steps_a_call_the_calls_count_and_not_the_time_between_them() -> None:
    """A server waits for requests there, and has no steps to put into one execution."""
    single = loop(kind="predict", usual_step_ns=1.0 * MS)
    calls = ActivityUse("predict", "model.predict", STEPS, WHOLE_NS // 5)
    server = work(loop=single, parts=parts(idle=0.7), process=process(activities=(calls,)))

    finding = found("small_executions", server)

    assert finding is not None
    assert "steps_per_execution" not in finding.action
    assert round(finding.gain.high_ratio, 6) == 0.2
    idle = replace(calls, own_ns=WHOLE_NS // 20)
    waiting = replace(server, process=process(activities=(idle,)))
    assert found("small_executions", waiting) is None
    whole = replace(server, process=process(activities=(replace(calls, count=STEPS // 2),)))
    finding = found("small_executions", whole)
    assert finding is not None
    assert "steps_per_execution" in finding.action


def test_without_a_sample_the_time_between_steps_counts() -> None:
    """It is measured for every step."""
    unsampled = work(loop=SMALL, parts=Missing("no step was sampled"))

    finding = found("small_executions", unsampled)

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.2


@pytest.mark.parametrize(
    "other",
    [
        loop(usual_step_ns=10.1 * MS),
        loop(usual_step_ns=1.0 * MS, per_execution=32),
        loop(usual_step_ns=1.0 * MS, kind="function"),
    ],
)
def test_others_are_not(other) -> None:
    """Long steps, several in a call, and loops that are not Keras'."""
    assert found("small_executions", work(loop=other, parts=parts(idle=0.5))) is None
