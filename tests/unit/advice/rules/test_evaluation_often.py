"""Evaluation during training is told from a tenth of the loop on."""

from __future__ import annotations

from tests.support.signals import WHOLE_NS, found, process
from tfprobe.advice.signals import ActivityUse

FIT = ActivityUse("train", "model.fit", 1, WHOLE_NS // 10, WHOLE_NS)


def evaluated(total_ns: int) -> ActivityUse:
    return ActivityUse("evaluate", "model.evaluate", 4, total_ns // 10, total_ns)


def test_a_tenth_of_the_loop_is_told() -> None:
    """With its steps, which are most of it."""
    training = process(activities=(FIT, evaluated(WHOLE_NS // 10)))

    finding = found("evaluation_often", processes=[training])

    assert finding is not None
    assert finding.gain.high_ns == WHOLE_NS // 10
    assert "validation_freq" in finding.action


def test_less_is_not() -> None:
    """Nor is a process that does nothing else."""
    little = process(activities=(FIT, evaluated(WHOLE_NS // 10 - 10)))
    only = process(activities=(evaluated(WHOLE_NS),))

    assert found("evaluation_often", processes=[little]) is None
    assert found("evaluation_often", processes=[only]) is None
