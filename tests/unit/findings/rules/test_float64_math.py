"""Ops in 64 bits on a CPU are told from a twentieth of the loop on."""

from __future__ import annotations

from tests.support.subjects import MS, found, gpu_ops, loop
from tfprobe.analysis.ops.graph_costs import CodeCost


def double(busy_ms: float) -> CodeCost:
    return CodeCost("64 bits", busy_ms * MS, "train.py:7", "layer/MatMul")


def test_a_twentieth_is_told() -> None:
    """Three quarters of their time is the bound, in a step of 8 ms of 10."""
    finding = found("float64_math", loop(double_precision=double(2 / 3)))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.05
    assert finding.evidence[0].source == "train.py:7"


def test_less_is_not() -> None:
    """Accelerators have precision_wide."""
    assert found("float64_math", loop(double_precision=double(0.66))) is None
    assert found("float64_math", loop(double_precision=double(4), ops=gpu_ops())) is None
