"""A loop of tiny ops within the step is told from a tenth of the loop of steps on."""

from __future__ import annotations

from tests.support.subjects import MS, found, gpu_ops, loop
from tfprobe.analysis.ops.graph_costs import GraphLoop


def turning(small_ms: float, turns: float = 20) -> GraphLoop:
    return GraphLoop("while", turns, small_ms * MS, "train.py:7")


def test_a_tenth_is_told() -> None:
    """1 ms of a step of 8 ms, which are four fifths of the loop."""
    finding = found("while_loop", loop(graph_loop=turning(1)))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.1
    assert finding.evidence[0].source == "train.py:7"


def test_less_is_not() -> None:
    """Nor a few turns; kernels of a GPU have launch_bound."""
    assert found("while_loop", loop(graph_loop=turning(0.99))) is None
    assert found("while_loop", loop(graph_loop=turning(4, turns=19))) is None
    assert found("while_loop", loop(graph_loop=turning(4), ops=gpu_ops())) is None


def test_turns_of_which_no_op_was_traced_are_told() -> None:
    """All were cheap: how many there are is not known."""
    finding = found("while_loop", loop(graph_loop=turning(2, turns=0)))

    assert finding is not None
    assert "in which no op was traced" in finding.evidence[0].text
