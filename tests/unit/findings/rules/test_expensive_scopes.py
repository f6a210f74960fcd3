"""The dearest layer is told from a fifth of the time on, without alarm."""

from __future__ import annotations

from tests.support.subjects import MS, found, loop
from tfprobe.analysis.ops.graph_costs import CodeCost
from tfprobe.findings.finding import Severity


def test_a_fifth_of_the_time_is_told() -> None:
    """2 ms of each step of 8 ms, which are four fifths of the loop."""
    finding = found("expensive_scopes", loop(scopes=(CodeCost("model/conv", 2.0 * MS),)))

    assert finding is not None
    assert finding.severity is Severity.INFO
    assert "model/conv" in finding.title
    # Ops of it that run at once count once; `tfprobe scope` adds them up.
    assert finding.evidence[0].text == "model/conv, wall time per step"


def test_less_is_not() -> None:
    """Nothing stands out."""
    assert found("expensive_scopes", loop(scopes=(CodeCost("model/conv", 1.99 * MS),))) is None
