"""Collections that take a twentieth of the process while steps run are told."""

from __future__ import annotations

from tests.support.subjects import WHOLE_NS, account, found, process
from tfprobe.analysis.account.categories import BEFORE_STEPS
from tfprobe.analysis.account.ledger import Item

WALL_NS = 2 * WHOLE_NS


def test_a_twentieth_of_the_process_is_told() -> None:
    """The line that asks for it is where to begin."""
    item = Item("while steps ran", "train.py:12", WALL_NS // 20)
    spent = account(WALL_NS, garbage_collection=[item])

    finding = found("garbage_collection", processes=[process(account=spent)])

    assert finding is not None
    assert finding.gain.high_ns == WALL_NS // 20
    assert finding.evidence[0].source == "train.py:12"
    assert "gc.collect()" in finding.action


def test_less_is_not() -> None:
    """Every program has some."""
    item = Item("while steps ran", "", WALL_NS // 20 - 1)
    spent = account(WALL_NS, garbage_collection=[item])

    assert found("garbage_collection", processes=[process(account=spent)]) is None


def test_what_imports_collect_is_not() -> None:
    """It comes once, and no line of the job asks for it."""
    spent = account(WALL_NS, garbage_collection=[Item(BEFORE_STEPS, "", WALL_NS // 2)])

    assert found("garbage_collection", processes=[process(account=spent)]) is None
