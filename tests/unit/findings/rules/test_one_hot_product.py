"""A look-up by a product with one-hot vectors is told from a twentieth of the loop on."""

from __future__ import annotations

from tests.support.subjects import MS, found, loop
from tfprobe.analysis.ops.graph_costs import CodeCost


def one_hot(busy_ms: float) -> CodeCost:
    return CodeCost("one-hot", busy_ms * MS, "train.py:7", "MatMul")


def test_a_twentieth_is_told() -> None:
    """0.5 ms of a step of 8 ms, which are four fifths of the loop."""
    finding = found("one_hot_product", loop(one_hot_products=one_hot(0.5)))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.05
    assert finding.evidence[0].source == "train.py:7"


def test_less_is_not() -> None:
    """A few classes cost next to nothing."""
    assert found("one_hot_product", loop(one_hot_products=one_hot(0.49))) is None
