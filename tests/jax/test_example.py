"""The example runs as it is, recorded, and its steps are in the report."""

from __future__ import annotations

from pathlib import Path

from tests.tf.laboratory import Laboratory, as_bare

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "jax_fit.py"
STEPS = 20


def test_the_example_prints_the_same_and_is_counted(laboratory: Laboratory) -> None:
    """It prints the same loss recorded and bare, and the report has its steps."""
    arguments = (str(EXAMPLE), "--steps", str(STEPS))

    bare = laboratory.start(*arguments).outcome()
    recorded = laboratory.start(*arguments, record=[]).outcome()

    as_bare(bare, recorded)
    assert f"steps {STEPS}" in bare.stdout.decode()
    counts = {(loop["kind"], loop["name"]): loop["count"] for loop in recorded.loops}
    assert counts["jit", "train_step"] == STEPS
