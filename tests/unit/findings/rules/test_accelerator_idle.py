"""An accelerator that waits more than half of the time is told, and what it waits for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.subjects import MS, cause, found, gpu_ops, loop, ops, parts, process
from tfprobe.findings.finding import Severity


def test_half_of_the_cycle_without_a_device_is_told() -> None:
    """At one half, with the largest reason, and at most all of the idle time to win."""
    shares = parts(device_compute_32bit=0.5, input_wait=0.4, host_compute=0.1)

    finding = found("accelerator_idle", loop(ops=gpu_ops(), parts=shares))

    assert finding is not None
    assert (round(finding.gain.high_ratio, 6), finding.part) == (0.5, "input_wait")
    assert "input" in finding.action


def test_less_is_not() -> None:
    """Where the device works for more than half of the cycle, it is used."""
    shares = parts(device_compute_32bit=0.51, input_wait=0.49, host_compute=0.0)

    assert found("accelerator_idle", loop(ops=gpu_ops(), parts=shares)) is None


def test_an_accelerator_that_no_op_runs_on_is_told() -> None:
    """A job that found its GPU and computes on the host all the same."""
    has_one = process(has_accelerator=True)

    finding = found("accelerator_idle", loop(process=has_one, ops=ops()))

    assert finding is not None
    assert finding.severity is Severity.WARNING


def test_a_job_without_one_hears_nothing() -> None:
    """On the host nothing of this holds."""
    assert found("accelerator_idle", loop(ops=ops(), parts=parts(idle=0.9))) is None


@pytest.mark.parametrize(
    ("what", "remedy"), [("between ops", "between the ops"), ("before the first op", "first op")]
)
def test_idle_time_inside_a_step_is_not_blamed_on_what_comes_between_steps(
    what: str, remedy: str
) -> None:
    """The dearest cause of idle time says what to do about it."""
    wastes = (cause("idle", what, "", 5.0), cause("idle", "loop", "train.py:3", 1.0))
    shares = replace(parts(idle=0.8, device_compute_32bit=0.1), causes=wastes)

    inside = found("accelerator_idle", loop(ops=gpu_ops(), parts=shares))
    between = found(
        "accelerator_idle", loop(ops=gpu_ops(), parts=replace(shares, causes=wastes[1:]))
    )

    assert inside is not None
    assert between is not None
    assert remedy in inside.action
    assert "between steps" not in inside.action
    assert "between steps" in between.action


def test_launches_that_one_op_holds_up_are_not_to_be_fewer() -> None:
    """What loads a library takes as long with fewer kernels."""
    slow = gpu_ops(usual_op_ns=0.01 * MS, per_step=20.0)

    finding = found("accelerator_idle", loop(ops=slow, parts=parts(kernel_launch=0.9)))

    assert finding is not None
    assert "fewer" not in finding.action
