"""Two threads a CPU are told, of TensorFlow's pools and of OpenMP."""

from __future__ import annotations

import pytest

from tests.support.subjects import found, loop, machine, parts, process, timing
from tfprobe.errors import Missing


def _loop(allowed: float, **settings):
    return loop(process=process(settings=settings, machine=machine(cpus=allowed)))


def test_two_threads_a_cpu_are_told() -> None:
    """With the variables that set them, and at most half of what they wait to win."""
    finding = found("threads_oversubscribed", _loop(4.0, intra_op_threads=8))

    assert finding is not None
    assert "TF_NUM_INTRAOP_THREADS=4" in finding.action
    assert finding.gain.high_ratio == 0.25


def test_fewer_are_not() -> None:
    """One more than CPUs does no harm."""
    assert found("threads_oversubscribed", _loop(4.0, intra_op_threads=7)) is None


def test_a_cgroup_that_allows_less_than_the_machine_has_is_told() -> None:
    """TensorFlow makes a thread for each CPU it sees, whatever the cgroup allows."""
    finding = found("threads_oversubscribed", _loop(2.0, intra_op_threads=0, cpus=64))

    assert finding is not None
    assert "64 threads for 2 CPUs" in finding.evidence[0].text


def test_a_short_run_knows_its_cpus_by_what_the_job_saw() -> None:
    """Pulses come once a second; the settings are read at the first sample."""
    settings = {"intra_op_threads": 64, "cpus": 2}
    short = loop(process=process(settings=settings, machine=Missing("too short")))

    assert found("threads_oversubscribed", short) is not None


@pytest.mark.parametrize(
    ("threads", "is_found"),
    [("8", True), ("7", False), ("many", False), ("²", False), ("9" * 5000, False)],
)
def test_openmp_counts(threads: str, is_found: bool) -> None:
    """By its variable, where that is a number."""
    finding = found("threads_oversubscribed", _loop(4.0, environment={"OMP_NUM_THREADS": threads}))

    assert (finding is not None) == is_found


@pytest.mark.parametrize(("compute_ratio", "won_ratio"), [(0.906, 0.264), (0.582, 0.259)])
def test_what_was_won_is_no_more_than_the_bound_nor_less_than_half(
    compute_ratio: float, won_ratio: float
) -> None:
    """32 threads on 2 CPUs against 2, measured in TensorFlow 1.15 and 2.21."""
    crowded = process(settings={"intra_op_threads": 32}, machine=machine(cpus=2.0))
    slow = loop(process=crowded, parts=parts(idle=1 - compute_ratio))

    finding = found("threads_oversubscribed", slow)

    assert finding is not None
    assert won_ratio <= finding.gain.high_ratio <= 2 * won_ratio


@pytest.mark.parametrize(("switches", "bound_ratio"), [(37_505.0, 0.69), (4_000.0, 0.46)])
def test_threads_that_were_seen_taking_turns_have_more_to_win(
    switches: float, bound_ratio: float
) -> None:
    """64 threads on 2 CPUs against 2 won 44 to 63 % where there were so many context switches."""
    owner = process(
        settings={"intra_op_threads": 64}, machine=machine(cpus=2.0, switches_per_s=switches)
    )

    finding = found("threads_oversubscribed", loop(process=owner, parts=parts(idle=0.051)))

    assert finding is not None
    assert round(finding.gain.high_ratio, 3) == bound_ratio


def test_the_threads_of_pytorch_are_those_in_force() -> None:
    """Whatever the variables say; the advice names PyTorch's setting."""
    settings = {
        "cpus": 4,
        "environment": {"OMP_NUM_THREADS": "64"},
        "torch": {"num_threads": 4},
    }
    quiet = loop(process=process(settings=settings), timing=timing(kind="optimizer_step"))
    settings = {**settings, "torch": {"num_threads": 64}}
    crowded = loop(process=process(settings=settings), timing=timing(kind="optimizer_step"))

    finding = found("threads_oversubscribed", crowded)

    assert found("threads_oversubscribed", quiet) is None
    assert finding is not None
    assert "torch.set_num_threads" in finding.action
