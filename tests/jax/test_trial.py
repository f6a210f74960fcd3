"""Fixes of trials are applied to a real program, and leave its arrays as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.arms import Arm, run_arms

JOB = Path(__file__).parent / "jobs" / "slowed_down.py"


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
        "skipped": {"matmul_precision": None},
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
    """It is not applied, and the weights are those of another base: the same bytes."""
    assert arms["skipped"].applied == {"matmul_precision": False}
    assert arms["skipped"].skipped == {"matmul_precision": {"there is no accelerator"}}
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
