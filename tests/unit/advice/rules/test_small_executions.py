"""Small steps of Keras are told where Python between them takes a tenth of the time."""

from __future__ import annotations

import pytest

from tests.support.signals import MS, found, loop, parts, work
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
