"""Two threads a CPU are told, of TensorFlow's pools and of OpenMP."""

from __future__ import annotations

import pytest

from tests.support.signals import found, machine, process, work
from tfprobe.errors import Missing


def _work(allowed: float, **settings):
    return work(process=process(settings=settings, machine=machine(cpus=allowed)))


def test_two_threads_a_cpu_are_told() -> None:
    """With the variables that set them, and at most half of the compute to win."""
    finding = found("threads_oversubscribed", _work(4.0, intra_op_threads=8))

    assert finding is not None
    assert "TF_NUM_INTRAOP_THREADS=4" in finding.action
    assert finding.gain.high_ratio == 0.5


def test_fewer_are_not() -> None:
    """One more than CPUs does no harm."""
    assert found("threads_oversubscribed", _work(4.0, intra_op_threads=7)) is None


def test_a_cgroup_that_allows_less_than_the_machine_has_is_told() -> None:
    """TensorFlow makes a thread for each CPU it sees, whatever the cgroup allows."""
    finding = found("threads_oversubscribed", _work(2.0, intra_op_threads=0, cpus=64))

    assert finding is not None
    assert "64 threads for 2 CPUs" in finding.evidence[0].text


def test_a_short_run_knows_its_cpus_by_what_the_job_saw() -> None:
    """Pulses come once a second; the settings are read at the first sample."""
    settings = {"intra_op_threads": 64, "cpus": 2}
    short = work(process=process(settings=settings, machine=Missing("too short")))

    assert found("threads_oversubscribed", short) is not None


@pytest.mark.parametrize(
    ("threads", "told"),
    [("8", True), ("7", False), ("many", False), ("²", False), ("9" * 5000, False)],
)
def test_openmp_counts(threads: str, told: bool) -> None:
    """By its variable, where that is a number."""
    finding = found("threads_oversubscribed", _work(4.0, environment={"OMP_NUM_THREADS": threads}))

    assert (finding is not None) == told
