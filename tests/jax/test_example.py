"""Programs run as they are, recorded, and their steps are in the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jax.outcomes import JOBS, counts
from tests.tf.laboratory import Laboratory, Outcome, as_bare, counted, tfprobe_json

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


@pytest.fixture(scope="module")
def op_by_op(laboratory: Laboratory) -> Outcome:
    """A program that compiles no step, recorded with its tenth and later steps traced."""
    return laboratory.start(str(JOBS / "op_by_op.py"), record=["--every", "10"]).outcome()


def test_gradients_of_a_program_that_compiles_no_step_are_its_steps(op_by_op: Outcome) -> None:
    """There is nothing else to count."""
    assert counts(op_by_op) == counted(op_by_op)


def test_advice_is_to_compile_the_step(laboratory: Laboratory, op_by_op: Outcome) -> None:
    """With the line of the gradient, and what is outside ops as a bound."""
    document = tfprobe_json("advise", str(op_by_op.run))

    if laboratory.tensorflow < (0, 6):
        unchecked = {each["rule"]: each["reason"] for each in document["unchecked"]}
        assert unchecked["eager_loop"] == "no step was traced"
        return
    first = document["findings"][0]
    assert first["rule"] == "eager_loop"
    assert "jax.jit" in first["action"]
    assert first["gain"]["high"] > 0.5
    assert any("op_by_op.py:26" in (each.get("source") or "") for each in first["evidence"])
    assert not {"compile_time", "python_between_steps"} & {
        finding["rule"] for finding in document["findings"]
    }
