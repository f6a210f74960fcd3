"""Evaluation during training is told from a tenth of the loop on."""

from __future__ import annotations

import pytest

from tests.support.subjects import WHOLE_NS, account, found, process
from tfprobe.analysis.account.categories import SETUP
from tfprobe.analysis.account.ledger import Item
from tfprobe.analysis.system.application import ActivityInSteps

FIT = ActivityInSteps("train", "model.fit", 1, WHOLE_NS // 10, WHOLE_NS)


def evaluated(total_ns: int) -> ActivityInSteps:
    return ActivityInSteps("evaluate", "model.evaluate", 4, total_ns // 10, total_ns)


def test_a_tenth_of_the_loop_is_told() -> None:
    """With its steps, which are most of it."""
    training = process(activities=(FIT, evaluated(WHOLE_NS // 10)))

    finding = found("evaluation_often", processes=[training])

    assert finding is not None
    assert finding.gain.high_ns == WHOLE_NS // 10
    assert "validation_freq" in finding.action


def test_less_is_not() -> None:
    """Nor is a process that does nothing else."""
    little = process(activities=(FIT, evaluated(WHOLE_NS // 10 - 10)))
    only = process(activities=(evaluated(WHOLE_NS),))

    assert found("evaluation_often", processes=[little]) is None
    assert found("evaluation_often", processes=[only]) is None


def test_what_the_first_compiles_stays() -> None:
    """It is compiled once, however seldom the model is evaluated."""
    compiled = ActivityInSteps(
        "evaluate", "model.evaluate", 4, 0, WHOLE_NS // 2, once_ns=WHOLE_NS * 3 // 10
    )

    finding = found("evaluation_often", processes=[process(activities=(FIT, compiled))])

    assert finding is not None
    assert finding.gain.high_ns == WHOLE_NS // 5
    assert [each.time_ns for each in finding.evidence][1:3] == [
        WHOLE_NS // 20,
        WHOLE_NS * 3 // 10,
    ]


def test_a_single_evaluation_is_none_too_many() -> None:
    """None of it can be left away."""
    once = ActivityInSteps("evaluate", "model.evaluate", 1, WHOLE_NS // 2, WHOLE_NS // 2)

    assert found("evaluation_often", processes=[process(activities=(FIT, once))]) is None


@pytest.mark.parametrize(
    ("times", "again_ns"), [(5, WHOLE_NS * 3 // 20), (1, 0), (6, 0)], ids=["5", "1", "6"]
)
def test_leaving_off_and_taking_up_again_is_in_the_bound(times: int, again_ns: int) -> None:
    """Where each of four evaluations lies between two training calls; the first has to begin."""
    setups = Item(SETUP, "train.py:9", WHOLE_NS // 8, times=times)
    saves = Item("Saver.save", "train.py:9", WHOLE_NS // 16)
    spent = account(2 * WHOLE_NS, preparation=[setups], checkpoints=[saves])
    training = process(activities=(FIT, evaluated(WHOLE_NS // 5)), account=spent)

    finding = found("evaluation_often", processes=[training])

    assert finding is not None
    assert finding.gain.high_ns == WHOLE_NS // 5 + again_ns


def test_evaluation_between_updates_of_pytorch_is_told() -> None:
    """Nothing calls a method that trains: the program's own loop does."""
    own_loop = process(activities=(evaluated(WHOLE_NS // 10),), trains=True)

    finding = found("evaluation_often", processes=[own_loop])

    assert finding is not None
    assert finding.gain.high_ns == WHOLE_NS // 10
