"""Recordings of real accelerators by others: every traced step is divided without remainder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.golden import GOLDEN
from tests.support.profiles import traced_step_parts
from tfprobe.analysis.breakdown.cycles import StepParts
from tfprobe.analysis.breakdown.step_parts import DEVICE_COMPUTE, Part
from tfprobe.profile.reader.file import file_profile

RECORDINGS = (
    *sorted(GOLDEN.glob("ikhlestov_timelines/*/*.json")),
    *sorted(GOLDEN.glob("hta/*.json.gz")),
    *sorted(GOLDEN.glob("sagemaker/*.trace.json.gz")),
    GOLDEN / "tfprof_testdata" / "run_meta",
)
pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no recordings in {GOLDEN}")


def steps_of(path: Path) -> list[StepParts]:
    return traced_step_parts(file_profile(path))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_parts_sum_to_the_wall_time(path: Path):
    """Whoever recorded it on whatever device, each ns of each step is in one part."""
    steps = steps_of(path)

    assert steps
    for step in steps:
        assert step.step_ns >= step.capture.duration_ns
        assert sum(step.parts.values()) == step.cycle_ns


def test_a_real_gpu_step_computes_and_copies():
    """A Session step of 2017 on a GPU: kernels, the copy of the loss back, and the rest."""
    (step,) = steps_of(GOLDEN / "ikhlestov_timelines" / "GPU" / "timeline_01.json")

    assert sum(step.parts.get(part, 0) for part in DEVICE_COMPUTE) > 0
    assert step.parts[Part.KERNEL_LAUNCH] > 0


def test_a_kineto_trace_tells_precision_copies_and_launches():
    """A training step of PyTorch, from kernels of an A100: its products are told by width."""
    path = (
        GOLDEN / "hta" / "critical_path__alexnet__benchmark_result_2869224_1695835535_trace.json.gz"
    )

    steps = steps_of(path)

    found = {part for step in steps for part in step.parts}
    assert found >= {Part.DEVICE_COMPUTE_32BIT, Part.KERNEL_LAUNCH}
