"""A step of tiny ops is told from 50 ops and three tenths of the step on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.subjects import MS, found, gpu_ops, loop, ops
from tfprobe.analysis.ops.step_ops import RepeatedOps


def _tiny(per_step: float, large_ms: float):
    return ops(per_step=per_step, span_ns=8.0 * MS, large_ns=large_ms * MS)


def test_three_tenths_of_a_step_are_told() -> None:
    """The bound is when no op ran that is worth its scheduling."""
    finding = found("tiny_ops", loop(ops=_tiny(50, 5.6)))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.24


def test_no_op_costs_more_to_schedule_than_50_us() -> None:
    """Of 8 ms without a large op 100 ops account for 5: what else there was is not known."""
    finding = found("tiny_ops", loop(ops=_tiny(100, 0.0)))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.5


@pytest.mark.parametrize(("per_step", "large_ms"), [(49, 5.6), (50, 5.61)])
def test_less_is_not(per_step: float, large_ms: float) -> None:
    """Few ops, or little time between the large ones."""
    assert found("tiny_ops", loop(ops=_tiny(per_step, large_ms))) is None


def test_ops_that_were_not_traced_are_known_by_the_graph() -> None:
    """TensorFlow 2 leaves cheap ops out of its traces; the graph has them."""
    seen = ops(per_step=2.0, span_ns=0.1 * MS, large_ns=1.0 * MS)

    finding = found("tiny_ops", loop(ops=seen, nodes=1000))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.7
    assert found("tiny_ops", loop(ops=seen, nodes=800)) is None


def test_with_an_accelerator_launch_bound_looks_at_it() -> None:
    """The host's ops are launches there."""
    tiny = gpu_ops(per_step=500.0, span_ns=8.0 * MS, large_ns=0.0)

    assert found("tiny_ops", loop(ops=tiny)) is None


def test_a_step_that_had_no_cpu_has_no_tiny_ops() -> None:
    """Its ops stood apart because their thread did not run."""
    paused = ops(per_step=50, span_ns=8.0 * MS, large_ns=4.0 * MS, paused_ns=3.0 * MS)

    assert found("tiny_ops", loop(ops=paused)) is None


def test_a_traced_step_longer_than_the_usual_one_hides_no_tiny_ops() -> None:
    """The larger ops take a third of its 27 ms, and so of the usual 8 ms."""
    traced = ops(per_step=1000, step_ns=30.0 * MS, span_ns=27.0 * MS, large_ns=9.0 * MS)

    finding = found("tiny_ops", loop(ops=traced))

    assert finding is not None
    assert round(finding.gain.high_ratio, 3) == 0.533


def test_the_line_that_made_most_ops_is_named() -> None:
    """That is where they are put together."""
    finding = found("tiny_ops", loop(ops=_tiny(50, 5.6), ops_source="net.py:16"))

    assert finding is not None
    assert finding.evidence[0].source == "net.py:16"


def _looping(turn_ms: float, per_step: float = 60.0, **changes):
    repeated = RepeatedOps(per_step, turn_ms * MS, "aten::sub")
    return loop(is_pytorch=True, ops=ops(per_step=per_step, repeated=repeated, **changes))


def test_a_loop_of_python_over_ops_of_pytorch_is_told() -> None:
    """With the line that calls them, and from three tenths of the step on."""
    looping = replace(_looping(2.4), repeated_source="train.py:16")

    finding = found("tiny_ops", looping)

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.24
    assert finding.evidence[0].source == "train.py:16"
    assert "Python loop" in finding.action
    assert found("tiny_ops", _looping(2.39)) is None
    assert found("tiny_ops", _looping(2.4, per_step=49.0)) is None


def test_a_small_step_of_pytorch_whose_ops_run_once_is_not() -> None:
    """It is as small as its batch and its model."""
    small = loop(is_pytorch=True, ops=_tiny(100, 0.0))

    assert found("tiny_ops", small) is None
    assert found("tiny_ops", loop(ops=_tiny(100, 0.0))) is not None


def test_what_larger_ops_compute_is_not_won_by_leaving_a_loop() -> None:
    """Tracing makes Python slower, and no op: a step of 8 ms that computes for 5 has 3 to win."""
    finding = found("tiny_ops", _looping(7.0, computing_ns=5.0 * MS))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.3
