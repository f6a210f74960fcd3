"""A profiler that the job leaves open is told, with the line that started it."""

from __future__ import annotations

from tests.support.subjects import WHOLE_NS, found, process
from tfprobe.findings.finding import Severity
from tfprobe.profile.profile import OwnProfiler


def profiling(ratio: float) -> OwnProfiler:
    return OwnProfiler(20, round(2 * WHOLE_NS * ratio), "train.py", 7)


def test_one_that_is_open_for_a_fifth_of_the_time_is_told() -> None:
    """What it costs nobody measured."""
    finding = found("own_profiler", processes=[process(own_profiler=profiling(0.2))])

    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert finding.evidence[0].source == "train.py:7"
    assert "20 steps" in finding.evidence[1].text


def test_one_of_some_steps_is_not() -> None:
    """As TensorBoard's profile_batch opens it."""
    assert found("own_profiler", processes=[process(own_profiler=profiling(0.19))]) is None
    assert found("own_profiler", processes=[process()]) is None
