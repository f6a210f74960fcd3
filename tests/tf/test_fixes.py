"""Fixes of trials are applied to real programs, and leave their weights as their class says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.arms import Arm, run_arms

JOBS = Path(__file__).parent / "jobs"
# A bound on what rounding may do to the weights in the few steps before they are compared.
ROUNDING = 1e-5


class Program(NamedTuple):
    """A program, the loop of its steps, its weights, and what makes it faster."""

    job: Path
    unit: tuple[str, str]
    weights: int
    fixes: Mapping[str, Any]
    # What of it can be slowed down.
    delays: tuple[str, ...] = ()


OF_KERAS = {
    "cache": None,
    "callbacks_every": 2,
    "parallel_map": 2,
    "predict_direct": None,
    "prefetch": None,
    "run_eagerly_off": None,
    "save_every": 100,
    "steps_per_execution": 4,
}
# A delay changes the time alone, and a fix for GPUs nothing where there is none: an arm with these
# is one without a fix.
FOR_GPUS = {"gpu_threads": None, "layout_optimizer": None}
DELAYS = {"delay_between": 900, "delay_input": 900, "delay_step": 900, **FOR_GPUS}
# XLA, for which the step must be a graph.
COMPILED = {"jit_compile": None, "run_eagerly_off": None}
OF_LOOPS = {
    "function_step": None,
    "reduce_retracing": None,
    "save_every": 100,
    "tensors_for_numbers": None,
}
OF_SESSIONS = {
    "parallel_map": 4,
    "prefetch": None,
    "save_every": 100,
    "summaries_every": 100,
    "threads": 1,
}
SESSION = Program(
    JOBS / "slowed_down_session.py",
    ("session_run", "Adam, Merge/MergeSummary:0"),
    2,
    OF_SESSIONS,
    ("between", "input", "step"),
)
PROGRAMS = {
    "keras": Program(
        JOBS / "slowed_down_keras.py", ("fit", "network"), 4, OF_KERAS, ("between", "step")
    ),
    "loop": Program(JOBS / "slowed_down_loop.py", ("eager", "SGD"), 2, OF_LOOPS),
}


@pytest.fixture(scope="module")
def arms(laboratory, tmp_path_factory) -> dict[str, dict[str, Arm]]:
    """The arms of each program: two without a fix, one with its fixes, and one with XLA."""
    programs = PROGRAMS if laboratory.tensorflow >= (2, 0) else {"session": SESSION}
    folder = tmp_path_factory.mktemp("arms")
    # Of one program two arms without a fix are enough: each takes seconds to start.
    others: dict[str, dict[str, Mapping[str, Any]]] = {
        "keras": {"again": DELAYS, "compiled": COMPILED},
        "session": {"again": DELAYS},
        "loop": {},
    }
    return {
        name: run_arms(
            laboratory.python,
            program.job,
            folder / name,
            {"base": {}, "fixed": program.fixes, **others[name]},
            unit=dict(zip(("kind", "name"), program.unit, strict=True)),
        )
        for name, program in programs.items()
    }


def _program(name: str) -> Program:
    return {**PROGRAMS, "session": SESSION}[name]


def test_each_arm_stops_after_its_units(arms) -> None:
    """It ends well, and all of its weights are there."""
    for name, of_program in arms.items():
        for arm in of_program.values():
            assert (arm.status, arm.stopped) == (0, "units"), arm.stderr
            assert len(arm.weights) == _program(name).weights


def test_each_fix_is_applied(arms) -> None:
    """Somewhere in the program, without an error, and it says where."""
    for name, of_program in arms.items():
        program, notes = _program(name), of_program["fixed"].notes

        assert of_program["fixed"].applied == dict.fromkeys(program.fixes, True)
        assert {note["file"] for note in notes.values()} == {str(program.job)}


def test_a_model_of_keras_is_compiled_by_xla(arms) -> None:
    """Which may sum in another order."""
    if "keras" not in arms:
        pytest.skip("Keras in TensorFlow 1 has no jit_compile")
    compiled = arms["keras"]["compiled"]

    assert compiled.applied == dict.fromkeys(COMPILED, True)
    assert compiled.distance(arms["keras"]["base"]) < ROUNDING


def test_fixes_for_gpus_say_that_there_is_none(arms) -> None:
    """And change nothing."""
    again = (arms.get("session") or arms["keras"])["again"]

    assert {again.applied[fix] for fix in FOR_GPUS} == {False}
    assert [again.skipped[fix] for fix in FOR_GPUS] == [{"there is no GPU"}] * len(FOR_GPUS)


def test_two_arms_without_a_fix_have_the_same_weights(arms) -> None:
    """To the last bit: what they draw at random is the same, too."""
    of_program = arms.get("session") or arms["keras"]

    assert of_program["again"].weights == of_program["base"].weights


def test_fixes_leave_the_weights_as_they_are(arms) -> None:
    """Nearly: what is compiled may sum in another order."""
    for of_program in arms.values():
        assert of_program["fixed"].distance(of_program["base"]) < ROUNDING


def test_parts_are_slowed_down_by_a_share_of_their_time(arms) -> None:
    """What is made in Python for tf.data is the input; a call that is a step sleeps after it."""
    name = "session" if "session" in arms else "keras"
    delays = arms[name]["again"].delays

    assert set(delays) == set(_program(name).delays)
    assert all(delay_ns > 0 for _, delay_ns in delays.values())


def test_losses_of_two_arms_without_a_fix_are_the_same(arms) -> None:
    """As far as steps give them: a Session that fetches none does not."""
    of_program = arms.get("session") or arms["keras"]
    base = of_program["base"].losses

    assert bool(base) == ("keras" in arms)
    assert of_program["again"].losses == base


def test_a_fix_leaves_the_losses_as_they_are(arms) -> None:
    """Nearly, at the steps that both have: those of several steps at once are fewer."""
    for of_program in arms.values():
        base, fixed = of_program["base"].losses, of_program["fixed"].losses
        assert bool(set(base) & set(fixed)) == bool(base)
        for unit in set(base) & set(fixed):
            assert fixed[unit] == pytest.approx(base[unit], rel=10 * ROUNDING)
