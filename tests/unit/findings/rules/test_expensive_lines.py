"""The dearest line of Python is told from a fifth of the time on, without alarm."""

from __future__ import annotations

from tests.support.subjects import MS, found, loop, ops
from tfprobe.analysis.ops.graph_costs import CodeCost
from tfprobe.findings.finding import Severity


def _line(busy_ms: float) -> tuple[CodeCost, ...]:
    return (CodeCost("model.py:7", busy_ms * MS, "model.py:7", "layer/MatMul"),)


def test_a_fifth_of_the_time_is_told() -> None:
    """2 ms of each step of 8 ms, which are four fifths of the loop."""
    finding = found("expensive_lines", loop(lines=_line(2.0)))

    assert finding is not None
    assert (finding.severity, finding.evidence[0].source) == (Severity.INFO, "model.py:7")


def test_less_is_not() -> None:
    """Nothing stands out."""
    assert found("expensive_lines", loop(lines=_line(1.99))) is None


def test_a_line_that_made_everything_is_not() -> None:
    """`model.fit(...)` made all ops there are, which nobody needs to hear."""
    assert found("expensive_lines", loop(lines=_line(7.2), ops=ops(busy_ns=8.0 * MS))) is None
