"""Ends of epochs that take a twentieth of the process are told."""

from __future__ import annotations

from tests.support.subjects import WHOLE_NS, account, found, process
from tfprobe.analysis.account.ledger import Item
from tfprobe.errors import Missing

WALL_NS = 2 * WHOLE_NS


def _ends(ns: int, times: int = 9) -> Item:
    return Item("next(iterator)", "trainer.py:397", ns, times=times)


def test_a_twentieth_of_the_process_is_told() -> None:
    """With the line, and what one end takes."""
    spent = account(WALL_NS, epoch_ends=[_ends(WALL_NS // 20)])

    finding = found("epoch_ends", processes=[process(account=spent)])

    assert finding is not None
    assert (finding.gain.high_ns, finding.gain.of_ns) == (WALL_NS // 20, WALL_NS)
    assert finding.evidence[0].source == "trainer.py:397"
    assert finding.evidence[-1].time_ns == WALL_NS // 20 // 9
    assert "steps_per_epoch" in finding.action


def test_less_is_not() -> None:
    """Every epoch ends."""
    spent = account(WALL_NS, epoch_ends=[_ends(WALL_NS // 20 - 1)])

    assert found("epoch_ends", processes=[process(account=spent)]) is None


def test_the_return_of_a_call_is_no_end_that_repeats() -> None:
    """It comes once, and another data set would not change it."""
    spent = account(WALL_NS, epoch_ends=[Item("the return of fit", "", WALL_NS // 2)])

    assert found("epoch_ends", processes=[process(account=spent)]) is None


def test_without_an_account_nothing_is_told() -> None:
    """A recording without clock."""
    assert found("epoch_ends", processes=[process(account=Missing("no clock"))]) is None
