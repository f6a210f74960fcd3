"""Outliers that take a twentieth of the time are told, with their numbers."""

from __future__ import annotations

from tests.support.signals import WHOLE_NS, found, work
from tfprobe.advice.signals import Outliers


def test_a_twentieth_of_the_time_is_told() -> None:
    """By the time beyond the usual step; a distance between them is told, too."""
    slow = Outliers((40, 20, 60), WHOLE_NS // 20, 100, every=20, cause="summary")

    finding = found("step_outliers", work(outliers=slow))

    assert finding is not None
    assert "every 20" in finding.evidence[0].text
    assert "20, 40, 60" in finding.evidence[1].text


def test_less_is_not() -> None:
    """Every job has some."""
    slow = Outliers((40, 20, 60), WHOLE_NS // 20 - 1, 100)

    assert found("step_outliers", work(outliers=slow)) is None
