"""Our timeline of a step is TensorFlow's own, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.golden import GOLDEN
from tests.support.step_stats import gpu_step
from tests.tf.laboratory import Laboratory
from tfprobe.export.step_timeline import step_timeline
from tfprobe.formats.run_metadata.step_stats import step_stats

GOLDEN_STEP = GOLDEN / "tfprof_testdata" / "run_meta"


def test_timelines_are_tensorflows_byte_for_byte(laboratory: Laboratory, tmp_path: Path) -> None:
    """Of a real step, of one with every oddity, and of a traced step of a GPU, with all flags."""
    odd = tmp_path / "odd.pb"
    odd.write_bytes(gpu_step())
    files = [odd, GOLDEN_STEP] if GOLDEN_STEP.exists() else [odd]

    job = laboratory.start("step_timelines.py", str(tmp_path), *map(str, files)).outcome()

    assert job.status == 0, job.stderr
    theirs = json.loads((tmp_path / "timelines.json").read_text())
    differing = [
        (Path(path).name, flags)
        for path, by_flags in theirs.items()
        for flags, text in by_flags.items()
        if _ours(path, flags) != text and not _is_older(path, odd, laboratory)
    ]
    assert differing == []
    assert len(theirs) == len(files) + 1


def _ours(path: str, flags: str) -> str:
    show_dataflow, show_memory, op_time = flags.split(" ")
    return step_timeline(
        step_stats(Path(path).read_bytes()),
        show_dataflow=show_dataflow == "1",
        show_memory=show_memory == "1",
        op_time=op_time,  # type: ignore[arg-type]
    )


def _is_older(path: str, odd: Path, laboratory: Laboratory) -> bool:
    """Say whether this TensorFlow does not yet read a kernel's op from its label."""
    return laboratory.tensorflow < (2, 2) and Path(path) == odd
