"""An op on the host that the accelerator waits for is told from 5 % on."""

from __future__ import annotations

from tests.support.subjects import found, gpu_ops, loop, ops, use


def test_a_twentieth_of_the_time_is_told() -> None:
    """0.5 ms of each step of 8 ms, which are four fifths of the loop."""
    finding = found("op_on_host", loop(ops=gpu_ops(exposed_host=(use("Unique", 0.5),))))

    assert finding is not None
    assert "Unique" in finding.title
    assert round(finding.gain.high_ratio, 6) == 0.05


def test_less_is_not() -> None:
    """Some ops live on the host."""
    assert found("op_on_host", loop(ops=gpu_ops(exposed_host=(use("Unique", 0.49),)))) is None


def test_a_job_without_an_accelerator_is_not() -> None:
    """There all ops run on the host."""
    assert found("op_on_host", loop(ops=ops(exposed_host=(use("Unique", 5.0),)))) is None
