"""Element-wise ops that XLA would fuse are told from 15 % of the time on."""

from __future__ import annotations

import pytest

from tests.support.subjects import MS, found, gpu_ops, loop, ops, process, use
from tfprobe.findings.finding import Severity

OFF = process(settings={"jit": False, "environment": {}})


def test_fifteen_percent_are_told() -> None:
    """1.5 ms of each step of 8 ms, which are four fifths of the loop."""
    finding = found("xla_off", loop(ops=gpu_ops(fusible_ns=1.5 * MS), process=OFF))

    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert "--tf_xla_auto_jit=2'" in finding.action


def test_less_is_not() -> None:
    """Compiling takes time, too."""
    assert found("xla_off", loop(ops=gpu_ops(fusible_ns=1.49 * MS), process=OFF)) is None


def test_on_the_host_nothing_is_told() -> None:
    """There grappler and oneDNN have fused what is common, and XLA is slower as often as not."""
    assert found("xla_off", loop(ops=ops(fusible_ns=4.0 * MS), process=OFF)) is None


@pytest.mark.parametrize(
    "on",
    [
        loop(ops=gpu_ops(fusible_ns=4.0 * MS), process=process(settings={"jit": True})),
        loop(
            ops=gpu_ops(fusible_ns=4.0 * MS),
            process=process(settings={"environment": {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2"}}),
        ),
        loop(ops=gpu_ops(fusible_ns=4.0 * MS, host=(use("_XlaRun", 1.0),)), process=OFF),
    ],
)
def test_where_it_is_on_nothing_is_told(on) -> None:
    """By the setting, by the variable, or because it ran."""
    assert found("xla_off", on) is None
