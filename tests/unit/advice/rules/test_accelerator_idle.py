"""An accelerator that waits more than half of the time is told, and what it waits for."""

from __future__ import annotations

from tests.support.signals import found, gpu_ops, ops, parts, process, work
from tfprobe.advice.finding import Severity


def test_half_of_the_cycle_without_a_device_is_told() -> None:
    """At one half, with the largest reason, and at most all of the idle time to win."""
    shares = parts(device_compute_32bit=0.5, input_wait=0.4, host_compute=0.1)

    finding = found("accelerator_idle", work(ops=gpu_ops(), parts=shares))

    assert finding is not None
    assert (round(finding.gain.high_ratio, 6), finding.part) == (0.5, "input_wait")
    assert "input" in finding.action


def test_less_is_not() -> None:
    """Where the device works for more than half of the cycle, it is used."""
    shares = parts(device_compute_32bit=0.51, input_wait=0.49, host_compute=0.0)

    assert found("accelerator_idle", work(ops=gpu_ops(), parts=shares)) is None


def test_an_accelerator_that_no_op_runs_on_is_told() -> None:
    """A job that found its GPU and computes on the host all the same."""
    has_one = process(has_accelerator=True)

    finding = found("accelerator_idle", work(process=has_one, ops=ops()))

    assert finding is not None
    assert finding.severity is Severity.WARNING


def test_a_job_without_one_hears_nothing() -> None:
    """On the host nothing of this holds."""
    assert found("accelerator_idle", work(ops=ops(), parts=parts(idle=0.9))) is None
