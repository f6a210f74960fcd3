"""Recording that costs 3 % of the time is told."""

from __future__ import annotations

from tests.support.subjects import found, process
from tfprobe.findings.finding import Severity


def test_three_percent_are_told() -> None:
    """Of the process's wall time, by the agent's own measure; it is no fault of the job."""
    finding = found("profiler_overhead", processes=[process(overhead_ns=30, wall_ns=1000)])

    assert finding is not None
    assert (finding.severity, finding.gain.high_ratio) == (Severity.INFO, 0.03)


def test_less_is_not() -> None:
    """The default budget is 1 %."""
    assert found("profiler_overhead", processes=[process(overhead_ns=29, wall_ns=1000)]) is None


def test_a_great_deal_is_a_warning() -> None:
    """Times of such a recording say little."""
    finding = found("profiler_overhead", processes=[process(overhead_ns=200, wall_ns=1000)])

    assert finding is not None
    assert finding.severity is Severity.WARNING
