"""Outliers that take a twentieth of the time are told, with their numbers."""

from __future__ import annotations

from dataclasses import replace

from tests.support.subjects import WHOLE_NS, found, loop
from tfprobe.analysis.steps.unexpected_steps import UnexpectedSteps
from tfprobe.findings.finding import Severity


def test_a_twentieth_of_the_time_is_told() -> None:
    """By the time beyond the usual step; a distance between them is told, too."""
    slow = UnexpectedSteps((40, 20, 60), WHOLE_NS // 20, 100, every=20, cause="summary")

    finding = found("step_outliers", loop(outliers=slow))

    assert finding is not None
    assert "every 20" in finding.evidence[0].text
    assert "20, 40, 60" in finding.evidence[1].text


def test_only_what_is_the_jobs_own_is_likely_to_go() -> None:
    """A busy machine is no fault of the job: it is told, without alarm."""
    slow = UnexpectedSteps((40,), WHOLE_NS // 2, 100, cause="busy load 17 on 2 CPUs")

    others = found("step_outliers", loop(outliers=slow))
    own = found("step_outliers", loop(outliers=replace(slow, cause="summary", is_own=True)))

    assert others is not None
    assert own is not None
    assert (others.severity, own.severity) == (Severity.INFO, Severity.CRITICAL)


def test_less_is_not() -> None:
    """Every job has some."""
    slow = UnexpectedSteps((40, 20, 60), WHOLE_NS // 20 - 1, 100)

    assert found("step_outliers", loop(outliers=slow)) is None
