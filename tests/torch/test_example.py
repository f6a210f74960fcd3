"""The example runs as it is, recorded, and its steps are in the report."""

from __future__ import annotations

from pathlib import Path

from tests.tf.laboratory import Laboratory, as_bare

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "torch_train.py"
STEPS = 20
# A fifth of 1,797 images, in batches of 64.
EVALUATED = 6


def test_the_example_prints_the_same_and_is_counted(laboratory: Laboratory) -> None:
    """It prints the same loss and accuracy recorded and bare, and the report has its steps.

    The traced step has the usual time of its batch beside it, unless batches vary on this machine.
    """
    arguments = (str(EXAMPLE), "--steps", str(STEPS))

    bare = laboratory.start(*arguments).outcome()
    recorded = laboratory.start(*arguments, record=["--steps", "12"]).outcome()

    as_bare(bare, recorded)
    assert f"steps {STEPS}" in bare.stdout.decode()
    counts = {(loop["kind"], loop["name"]): loop["count"] for loop in recorded.loops}
    assert counts == {("optimizer_step", "Adam"): STEPS, ("forward", "Net"): EVALUATED}
    (traced,) = (event for event in recorded.events if event["event"] == "sample")
    assert traced["batch_ns"] is None or 0 < traced["batch_ns"] < 10**9
