"""What to do about a trace of PyTorch is said in PyTorch's words."""

from __future__ import annotations

import pytest

from tests.support.profiles import Step, op, profile
from tests.support.profiles import loop as recorded
from tests.support.subjects import found, gpu_ops, loop, parts, use
from tfprobe.analysis.ops.step_ops import StepOps
from tfprobe.findings.collect import analyse
from tfprobe.findings.thresholds import DEFAULTS
from tfprobe.profile.capture_tables import Place

_OF_TENSORFLOW = ("tf.", "TF_", "tensorflow", "keras", "steps_per_execution", "op_on_host")


@pytest.mark.parametrize("part", ["host_compute", "kernel_launch", "idle", "input_wait"])
def test_an_idle_device_is_not_told_to_use_tensorflow(part: str) -> None:
    """Whatever it waits for."""
    analysis = loop(ops=gpu_ops(), parts=parts(**{"host_compute": 0.0, part: 1.0}), is_pytorch=True)

    finding = found("accelerator_idle", analysis)

    assert finding is not None
    assert not [word for word in _OF_TENSORFLOW if word in finding.action]


def test_an_op_on_the_host_is_moved_as_pytorch_does() -> None:
    """With .to, and not with tf.device."""
    exposed = gpu_ops(exposed_host=(use("aten::unique", 5.0),))

    of_pytorch = found("op_on_host", loop(ops=exposed, is_pytorch=True))
    of_tensorflow = found("op_on_host", loop(ops=exposed))

    assert of_pytorch is not None
    assert of_tensorflow is not None
    assert not [word for word in _OF_TENSORFLOW if word in of_pytorch.action]
    assert "tf.device" in of_tensorflow.action


def test_ops_that_call_each_other_have_their_own_time() -> None:
    """PyTorch records the call and what is called: of 100 µs the inner op took 70."""
    rows = [
        op("aten::to", 0, 100),
        op("aten::copy_", 20, 70),
        op("k", 200, 1, Place.ACCELERATOR),
    ]

    analysis = analyse(profile([Step(rows)], loops=[recorded()]), (), DEFAULTS).loops[0]

    assert analysis.is_pytorch
    assert isinstance(analysis.ops, StepOps)
    assert [(each.type, each.stats.runs, each.busy_ns) for each in analysis.ops.host] == [
        ("aten::copy_", 1, 70_000),
        ("aten::to", 1, 30_000),
    ]
    assert [each.type for each in analysis.ops.exposed_host] == ["aten::copy_", "aten::to"]


def test_a_copy_of_a_timeline_is_no_op_on_the_host() -> None:
    """Older TensorFlows write their copies on lanes of the host, too."""
    rows = [op("MEMCPYHtoD", 0, 50), op("Unique", 60, 5), op("k", 200, 1, Place.ACCELERATOR)]

    ops = analyse(profile([Step(rows)], loops=[recorded()]), (), DEFAULTS).loops[0].ops

    assert isinstance(ops, StepOps)
    assert [each.type for each in ops.exposed_host] == ["Unique"]
