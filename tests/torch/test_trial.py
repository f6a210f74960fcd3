"""Fixes of trials are applied to a real program, and leave its weights as their class says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.arms import Arm, run_arms

JOB = Path(__file__).parent / "jobs" / "slowed_down.py"
# For accelerators, which are not there, and workers, which this job has none of.
SKIPPED = (
    "channels_last",
    "cudnn_benchmark",
    "matmul_precision",
    "persistent_workers",
    "pin_memory",
)
# Those whose results are the same to the last bit.
SAME = (
    "anomaly_off",
    "dataloader_workers",
    "foreach_optimizer",
    "save_every",
    "zero_grad_to_none",
)
ARMS = {
    "base": {},
    "same": dict.fromkeys(SAME),
    "skipped": dict.fromkeys(SKIPPED),
    "rounding": {"compile_model": None, "fused_optimizer": None, "threads": 2},
    "other": {"autocast_bf16": None},
    "slowed": {"delay_input": 900, "delay_between": 900, "delay_step": 900},
    "slowed workers": {"dataloader_workers": 2, "delay_input": 900},
}
# A bound on what rounding may do to the weights in the few steps before they are compared.
ROUNDING = 1e-5


@pytest.fixture(scope="module")
def arms(laboratory, tmp_path_factory) -> dict[str, Arm]:
    """Each arm, run once."""
    return run_arms(laboratory.python, JOB, tmp_path_factory.mktemp("arms"), ARMS)


@pytest.mark.parametrize("arm", ARMS)
def test_an_arm_stops_after_its_units(arms, arm) -> None:
    """It ends well, and all of its weights are there."""
    assert (arms[arm].status, arms[arm].stopped) == (0, "units"), arms[arm].stderr
    assert arms[arm].document["ordered"] is True
    assert [name for name, _ in arms[arm].weights] == [f"Adam 0 0.{place}" for place in range(4)]


@pytest.mark.parametrize("arm", ["same", "rounding", "other"])
def test_each_fix_is_applied(arms, arm) -> None:
    """Somewhere in the program, without an error."""
    assert arms[arm].applied == dict.fromkeys(ARMS[arm], True)


def test_a_fix_says_where_it_was_applied(arms) -> None:
    """In a line of the program."""
    lines = JOB.read_text().splitlines()

    places = {fix: arms["same"].notes[fix] for fix in SAME}

    assert {note["file"] for note in places.values()} == {str(JOB)}
    assert "foreach=False" in lines[places["foreach_optimizer"]["line"] - 1]
    assert "DataLoader(" in lines[places["dataloader_workers"]["line"] - 1]
    assert "torch.save(" in lines[places["save_every"]["line"] - 1]


def test_fixes_without_a_use_say_why(arms) -> None:
    """They are not applied, and the weights are those of another base: the same bytes."""
    assert arms["skipped"].applied == dict.fromkeys(SKIPPED, False)
    assert all(arms["skipped"].skipped[fix] for fix in SKIPPED)
    assert arms["skipped"].weights == arms["base"].weights


def test_fixes_that_change_no_number_leave_the_weights_as_they_are(arms) -> None:
    """Over three epochs: the order of the data is the same, too."""
    assert arms["same"].weights == arms["base"].weights


def test_fixes_that_round_leave_the_weights_nearly_as_they_are(arms) -> None:
    """Code that was compiled and other kernels sum in another order."""
    assert arms["rounding"].distance(arms["base"]) < ROUNDING


def test_a_narrower_format_is_no_rounding(arms) -> None:
    """It changes what the job computes, but not what the job is about."""
    assert ROUNDING < arms["other"].distance(arms["base"]) < 0.1


def test_parts_are_slowed_down_by_a_share_of_their_time(arms) -> None:
    """Batches are made nine times longer, and so is what lies between two steps: here, saving."""
    delays = arms["slowed"].delays

    assert set(delays) == {"input", "between"}
    for part_ns, delay_ns in delays.values():
        assert delay_ns > 5 * part_ns > 0  # a short sleep may still be owed
    assert "try input or between" in next(iter(arms["slowed"].skipped["delay_step"]))


def test_input_is_slowed_down_in_the_workers_that_make_it(arms) -> None:
    """They write down what it took."""
    part_ns, delay_ns = arms["slowed workers"].delays["input"]

    assert delay_ns > 5 * part_ns > 0


@pytest.mark.parametrize("arm", ["slowed", "slowed workers"])
def test_a_delay_leaves_the_weights_as_they_are(arms, arm) -> None:
    """To the last bit: only the time changes."""
    assert arms[arm].weights == arms["base"].weights


def test_losses_are_those_that_a_gradient_was_taken_of(arms) -> None:
    """One for each step up to that of the weights, with and without code that was compiled."""
    base, rounded = arms["base"].losses, arms["rounding"].losses

    assert list(base) == list(range(1, 9))
    assert arms["same"].losses == base
    assert rounded == pytest.approx(base, rel=ROUNDING)
    assert arms["other"].losses != base
