"""Ops come from lines that one can open: of the script, whatever TensorFlow made of them."""

from __future__ import annotations

from pathlib import Path

from tests.tf.laboratory import Laboratory
from tests.tf.requirements import need_tensorflow
from tfprobe.analysis.core.source_lines import Origins
from tfprobe.profile.reader.traced_steps import sampled
from tfprobe.recording import open_run
from tfprobe.runs.layout import RunFolder

SCRIPT = Path(__file__).with_name("jobs") / "source_lines.py"
# A rewritten line stands in a branch, which has no stack of its own before 2.4.
FIRST, XLA_INSTRUCTIONS = (2, 4), (2, 21)


def line_of(mark: str) -> int:
    lines = SCRIPT.read_text().splitlines()
    return next(at for at, line in enumerate(lines, start=1) if line.endswith(f"  # {mark}"))


def product_lines(run: Path, loop_name: str) -> set[tuple[str, int | None]]:
    """Return the files and lines of the matrix products that ran in the steps of a work."""
    recording = open_run(run)
    profile = recording.profile()
    (loop,) = [each for each in profile.loops if loop_name in each.name]
    found = sampled(RunFolder(run), profile, loop)
    origins = Origins([found])
    products = {row.name for row in found.executions if row.op_type.endswith("MatMul")}
    frames = [origins.of(name).frame for name in products]
    return {
        ("", None) if frame is None else (Path(frame.file).name, frame.line) for frame in frames
    }


def test_products_come_from_the_line_that_was_written(laboratory: Laboratory) -> None:
    """In code that AutoGraph rewrote, in a loop with its gradients, and inside an XLA program."""
    need_tensorflow(laboratory, FIRST)
    outcome = laboratory.start("source_lines.py", record=["--every", "2"]).outcome()
    assert outcome.status == 0, outcome.stderr[-3000:]

    for loop, mark in (("call_converted", "rewritten"), ("loop_step", "loop")):
        assert product_lines(outcome.run, loop) == {(SCRIPT.name, line_of(mark))}, loop
    if laboratory.tensorflow >= XLA_INSTRUCTIONS:
        assert product_lines(outcome.run, "xla_step") == {(SCRIPT.name, line_of("xla"))}
    for code_map in outcome.run.glob("*/*/code/*.json"):
        assert "__autograph_generated" not in code_map.read_text()
