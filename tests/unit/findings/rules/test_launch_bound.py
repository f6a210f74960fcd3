"""Exposed launches are told from 15 % of the cycle on."""

from __future__ import annotations

from tests.support.subjects import MS, found, gpu_ops, loop, ops, parts, process, use

LAUNCHING = parts(kernel_launch=0.15)


def test_fifteen_percent_are_told() -> None:
    """With the variable that gives launching threads of its own."""
    finding = found("launch_bound", loop(ops=gpu_ops(), parts=LAUNCHING))

    assert finding is not None
    assert "TF_GPU_THREAD_MODE=gpu_private" in finding.action


def test_less_is_not() -> None:
    """Between kernels there is always something."""
    assert found("launch_bound", loop(ops=gpu_ops(), parts=parts(kernel_launch=0.149))) is None


def test_without_an_accelerator_nothing_is_launched() -> None:
    """A recording may still have driver calls."""
    assert found("launch_bound", loop(ops=ops(), parts=LAUNCHING)) is None


def test_a_variable_that_is_set_is_not_advised() -> None:
    """Only what is left to do."""
    has_it = process(settings={"environment": {"TF_GPU_THREAD_MODE": "gpu_private"}})

    finding = found("launch_bound", loop(ops=gpu_ops(), parts=LAUNCHING, process=has_it))

    assert finding is not None
    assert "TF_GPU_THREAD_MODE" not in finding.action


def test_one_op_that_takes_it_all_is_named() -> None:
    """What loads a library is slow once; fewer kernels would not make it faster."""
    usual = {"usual_op_ns": 0.01 * MS, "per_step": 20.0}

    finding = found(
        "launch_bound", loop(ops=gpu_ops(**usual, host=(use("MatMul", 1.4),)), parts=LAUNCHING)
    )

    assert finding is not None
    assert "MatMul" in finding.title
    assert (round(finding.gain.high_ratio, 6), finding.gain.low_ns) == (0.14, 0)
    assert "fuse" not in finding.action


def test_launching_that_no_op_explains_is_not_told() -> None:
    """Nobody knows what to do about it."""
    few = gpu_ops(usual_op_ns=0.01 * MS, per_step=20.0, host=(use("MatMul", 0.7),))

    assert found("launch_bound", loop(ops=few, parts=LAUNCHING)) is None
