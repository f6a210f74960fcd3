"""An optimizer that updates parameters one by one is told from a twentieth of the loop on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.subjects import MS, cause, found, gpu_ops, loop, ops, parts, timing
from tfprobe.findings.rule import LoopAnalysis


def _updating(ms: float, *, name: str = "AdamW", updates: float = 50.0) -> LoopAnalysis:
    taken = parts()
    causes = (
        cause("host_compute", "optimizer", "", ms / 2),
        cause("idle", "between ops, optimizer", "", ms / 2),
        cause("host_compute", "backward", "", 1.0),
    )
    return loop(
        timing=timing(kind="optimizer_step", name=name),
        parts=replace(taken, causes=causes),
        ops=ops(updates=updates),
        is_pytorch=True,
    )


def test_an_update_by_many_ops_is_told() -> None:
    """The bound is the update, from its first op to its last."""
    finding = found("optimizer_ops", _updating(0.5))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.05
    assert "torch.optim.AdamW(..., fused=True)" in finding.action


def test_a_second_optimizer_of_its_class_is_as_well() -> None:
    """Its loop has a number."""
    finding = found("optimizer_ops", _updating(0.5, name="Adam 2"))

    assert finding is not None
    assert "torch.optim.Adam(" in finding.action


@pytest.mark.parametrize(
    "well",
    [
        _updating(0.49),
        _updating(0.5, updates=49.0),
        _updating(0.5, name="SGD"),
        replace(_updating(0.5), ops=gpu_ops(updates=50.0)),
    ],
    ids=["short", "few", "no gain", "accelerator"],
)
def test_others_are_not(well: LoopAnalysis) -> None:
    """A fused update of SGD won nothing where it was tried."""
    assert found("optimizer_ops", well) is None


def test_larger_ops_are_not_won() -> None:
    """Of a step of 8 ms that computes for 7, an update cannot take 2."""
    finding = found("optimizer_ops", replace(_updating(2.0), ops=_computing(7.0)))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.1


def _computing(ms: float):
    return ops(updates=50.0, computing_ns=ms * MS)
