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
    # `to` itself computes nothing, on whatever device.
    assert [each.type for each in analysis.ops.exposed_host] == ["aten::copy_"]


def test_a_copy_of_a_timeline_is_no_op_on_the_host() -> None:
    """Older TensorFlows write their copies on lanes of the host, too."""
    rows = [op("MEMCPYHtoD", 0, 50), op("Unique", 60, 5), op("k", 200, 1, Place.ACCELERATOR)]

    ops = analyse(profile([Step(rows)], loops=[recorded()]), (), DEFAULTS).loops[0].ops

    assert isinstance(ops, StepOps)
    assert [each.type for each in ops.exposed_host] == ["Unique"]


def _named(name: str, op_type: str, start_us: int, duration_us: int):
    return op(op_type, start_us, duration_us)._replace(name=name)


def test_ops_called_over_and_over_at_one_place_are_a_loop() -> None:
    """Their time goes on to the next op, without what those compute that are not tiny."""
    turns = [_named("aten::sub", "aten::sub", 10 * at, 4) for at in range(20)]
    large = [_named("aten::mm", "aten::mm", 200 + 50 * at, 30) for at in range(20)]
    layers = [_named(f"Net/{at}/aten::add", "aten::add", 1200 + 10 * at, 4) for at in range(30)]

    analysis = analyse(profile([Step([*turns, *large, *layers])], loops=[recorded()]), (), DEFAULTS)

    ops = analysis.loops[0].ops
    assert isinstance(ops, StepOps)
    assert ops.repeated is not None
    assert ops.repeated.per_step == 40
    assert ops.repeated.turn_ns == 20 * 10_000 + 20 * 20_000
    assert ops.computing_ns == 20 * 30_000


def test_an_update_of_many_parameters_at_once_is_told_from_one_by_one() -> None:
    """By the ops: those of fused and foreach take lists of parameters."""
    name = "AdamW.step/"
    single = [_named(f"{name}aten::lerp_", "aten::lerp_", 10 * at, 5) for at in range(60)]
    fused = [_named(f"{name}aten::_fused_adamw_", "aten::_fused_adamw_", 700, 5)]
    one_by_one, at_once = (
        analyse(profile([Step(rows)], loops=[recorded()]), (), DEFAULTS).loops[0].ops
        for rows in (single, single + fused)
    )

    assert isinstance(one_by_one, StepOps)
    assert isinstance(at_once, StepOps)
    assert (one_by_one.updates, at_once.updates) == (60, 0)
    assert one_by_one.repeated is None
