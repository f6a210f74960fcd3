"""Fixes of trials are applied to a real program, and leave its arrays as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.arms import Arm, run_arms
from tfprobe.analysis.compare.trials import Losses, ResultsComparison, SameResults, compare_losses
from tfprobe.runs.layout import RunFolder
from tfprobe.trial.arm_files import ArmFiles, read_arm

JOB = Path(__file__).parent / "jobs" / "slowed_down.py"
OP_BY_OP = Path(__file__).parent / "jobs" / "op_by_op.py"
RETURNING = Path(__file__).parent / "jobs" / "returning_losses.py"


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """The directory of compiled programs."""
    directory: Path = tmp_path_factory.mktemp("cache")
    return directory


@pytest.fixture(scope="module")
def arms(laboratory, tmp_path_factory, cache) -> dict[str, Arm]:
    """Each arm, run once."""
    arms = {
        "base": {},
        "skipped": {"matmul_precision": None, "jit_step": None},
        "slowed": {"delay_between": 900, "delay_step": 900, "delay_input": 900},
        "fixed": {"compilation_cache": str(cache), "debug_nans_off": None},
    }
    return run_arms(laboratory.python, JOB, tmp_path_factory.mktemp("arms"), arms)


@pytest.mark.parametrize("arm", ["base", "skipped", "fixed"])
def test_an_arm_stops_after_its_units(arms, arm) -> None:
    """It ends well, and what it computes with is among its weights."""
    assert (arms[arm].status, arms[arm].stopped) == (0, "units"), arms[arm].stderr
    assert arms[arm].document["ordered"] is False
    assert len(arms[arm].weights) >= 2


def test_a_fix_for_accelerators_says_that_there_is_none(arms) -> None:
    """As does one for steps that are not compiled; the weights are those of another base."""
    reasons = {"matmul_precision": {"there is no accelerator"}, "jit_step": set()}
    assert arms["skipped"].applied == dict.fromkeys(reasons, False)
    assert arms["skipped"].skipped == reasons
    assert arms["skipped"].weights == arms["base"].weights


def test_fixes_that_change_no_number_leave_the_weights_as_they_are(arms, cache) -> None:
    """The search for NaN is off, and what was compiled is kept."""
    assert arms["fixed"].applied == {"compilation_cache": True, "debug_nans_off": True}
    assert arms["fixed"].weights == arms["base"].weights
    assert list(cache.glob("jit_step*"))


def test_parts_are_slowed_down_by_a_share_of_their_time(arms) -> None:
    """The arrays stay as they are; where the input is made, cannot be seen."""
    delays = arms["slowed"].delays

    assert set(delays) == {"between", "step"}
    assert delays["step"][1] > 0
    assert "--delay between" in next(iter(arms["slowed"].skipped["delay_input"]))
    assert arms["slowed"].weights == arms["base"].weights


@pytest.fixture(scope="module")
def returning(laboratory, tmp_path_factory) -> dict[str, Arm]:
    """Arms of a program whose step returns its loss, each run once."""
    arms = {"base": {}, "again": {}, "donating": {"donate_arguments": None}}
    return run_arms(laboratory.python, RETURNING, tmp_path_factory.mktemp("returning"), arms)


def _losses(arm: Arm) -> Losses:
    files = read_arm(RunFolder(arm.run))
    assert isinstance(files, ArmFiles), arm.stderr
    assert isinstance(files.losses, Losses)
    return files.losses


@pytest.mark.parametrize("arm", ["again", "donating"])
def test_losses_that_steps_return_are_those_of_the_base(returning, arm) -> None:
    """To the last bit, at each of the first steps."""
    base, other = _losses(returning["base"]), _losses(returning[arm])

    assert list(base.of_unit) == list(range(1, 9))
    assert base.of_unit[8] < base.of_unit[1]
    assert compare_losses([base], [other]) == ResultsComparison(SameResults.IDENTICAL, 0.0)


def test_other_losses_are_different(returning) -> None:
    """By the largest relative difference at a step."""
    base = _losses(returning["base"])
    doubled = Losses({unit: 2 * value for unit, value in base.of_unit.items()})

    assert compare_losses([base], [doubled]) == ResultsComparison(SameResults.DIFFERENT, 1.0)


def test_weights_that_a_step_returns_anew_are_donated(returning) -> None:
    """From the second call on; the batches stay."""
    assert returning["donating"].applied == {"donate_arguments": True}
    assert returning["donating"].status == 0, returning["donating"].stderr


def test_an_arm_that_donates_has_fewer_arrays(returning) -> None:
    """Those that remain are among the base's; old weights are gone."""
    base, donating = (
        {digest for _, digest in returning[arm].weights} for arm in ("base", "donating")
    )

    assert returning["again"].weights == returning["base"].weights
    assert donating < base


@pytest.fixture(scope="module")
def op_by_op(laboratory, tmp_path_factory) -> dict[str, Arm]:
    """Arms of a program that compiles nothing, each run once."""
    arms = {"base": {}, "compiled": {"jit_step": None}}
    return run_arms(laboratory.python, OP_BY_OP, tmp_path_factory.mktemp("op-by-op"), arms)


def test_a_step_that_nobody_compiled_is_compiled(op_by_op) -> None:
    """Its losses are those of the base, but for rounding, gradient for gradient."""
    base, compiled = _losses(op_by_op["base"]), _losses(op_by_op["compiled"])

    assert op_by_op["compiled"].applied == {"jit_step": True}, op_by_op["compiled"].stderr
    assert set(compiled.of_unit) == {1, 2, 4, 5, 6, 7, 8}  # the third showed that it can be done
    same = compare_losses([base], [compiled])
    assert isinstance(same, ResultsComparison)
    assert same.same in (SameResults.ROUNDING, SameResults.IDENTICAL)
    assert "after the weights are updated" in op_by_op["compiled"].document["missing"]
