"""Work on a whole table of which few rows are looked up is told from a twentieth on."""

from __future__ import annotations

from tests.support.subjects import MS, found, loop
from tfprobe.analysis.ops.graph_costs import CodeCost


def dense(busy_ms: float) -> CodeCost:
    return CodeCost("dense", busy_ms * MS, "train.py:7", "AddN")


def test_a_twentieth_is_told() -> None:
    """0.5 ms of a step of 8 ms, which are four fifths of the loop."""
    finding = found("dense_gradient", loop(dense_gradients=dense(0.5)))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.05
    assert finding.evidence[0].source == "train.py:7"


def test_less_is_not() -> None:
    """A small table costs next to nothing."""
    assert found("dense_gradient", loop(dense_gradients=dense(0.49))) is None
