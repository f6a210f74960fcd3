"""A delay of a part says what waits for it: the slope of a step's time, with an interval."""

from __future__ import annotations

import numpy as np
import pytest

from tfprobe.analysis.compare.delays import (
    Criticality,
    DelayedProcess,
    DelayMarks,
    DelaySlope,
    delay_slope,
)
from tfprobe.errors import Missing

LEVELS = (0, 0.25, 0.5, 0.5, 0.25, 0)
SCATTER = (0.1, -0.1, 0.05, -0.05, 0.1, -0.1)
PART_NS = 40.0


def measured(unit_ns, *, part_ns=PART_NS, drift_ns=0.0, rounds=1) -> list[DelayedProcess]:
    """Processes whose step is `unit_ns(delay)` long, on a machine that gets slower each round."""
    found = []
    for number in range(rounds):
        for level, scatter in zip(LEVELS, SCATTER, strict=True):
            took_ns = unit_ns(level * part_ns) + scatter + number * drift_ns
            found.append(DelayedProcess(number, level, took_ns, part_ns, level * part_ns))
    return found


def slope(processes, error_ratio=0.01) -> DelaySlope:
    found = delay_slope(processes, error_ratio=error_ratio)
    assert isinstance(found, DelaySlope)
    return found


def test_what_everything_waits_for_is_critical() -> None:
    """A second saved there is a second won: 40 of 100 ns are at most 40 %."""
    found = slope(measured(lambda delay: 100 + delay))

    assert found.verdict is Criticality.CRITICAL
    assert found.slope.ratio == pytest.approx(1, abs=0.02)
    assert found.most.ratio == pytest.approx(0.4, abs=0.01)
    assert found.most.low_ratio < found.most.ratio < found.most.high_ratio


def test_what_nothing_waits_for_is_slack() -> None:
    """A delay costs nothing, so neither does the part."""
    found = slope(measured(lambda _delay: 100))

    assert found.verdict is Criticality.SLACK
    assert found.most.high_ratio < 0.02


def test_slack_that_ends_is_partly_critical() -> None:
    """From a delay of 12 on, the part is what a step waits for."""
    found = slope(measured(lambda delay: 100 + max(0, delay - 12), rounds=3))

    assert found.verdict is Criticality.PARTLY
    assert 0.25 < found.slope.ratio < 0.5
    assert [round(level.unit_ns) for level in found.levels] == [100, 100, 108]


def test_a_part_that_runs_twice_at_once_has_half_a_slope() -> None:
    """Two workers share 200 ns of a step of 100: without them, all of it might be won."""
    found = slope(measured(lambda delay: 100 + delay / 2, part_ns=200.0))

    assert found.share_ratio == pytest.approx(2, rel=0.01)
    assert found.most.ratio == pytest.approx(1, abs=0.02)


def test_a_machine_that_gets_slower_between_rounds_decides_nothing() -> None:
    """Only the processes of one round are compared."""
    found = slope(measured(lambda delay: 100 + delay, drift_ns=50.0, rounds=3))

    assert found.slope.ratio == pytest.approx(1, abs=0.02)
    assert found.verdict is Criticality.CRITICAL


def test_a_delay_within_the_difference_of_two_bases_tells_nothing() -> None:
    """Half of 40 ns are 20 % of a step."""
    found = slope(measured(lambda delay: 100 + delay), error_ratio=0.25)

    assert found.verdict is Criticality.UNKNOWN
    assert "two bases" in found.why


def test_a_wide_interval_tells_nothing() -> None:
    """The steps scatter by more than the delay."""
    units = (100, 160, 90, 150, 80, 130)
    processes = [
        DelayedProcess(0, level, unit_ns, 40, level * 40)
        for level, unit_ns in zip(LEVELS, units, strict=True)
    ]

    assert slope(processes).verdict is Criticality.UNKNOWN


@pytest.mark.parametrize(
    ("processes", "why"),
    [
        ([], "not enough"),
        (measured(lambda _: 100)[1:5], "not enough"),
        (measured(lambda _: 100)[:2], "not enough"),
        (measured(lambda _: 100, part_ns=0.0), "no delay"),
    ],
)
def test_without_enough_processes_or_delay_there_is_no_slope(processes, why) -> None:
    """Missing with the reason."""
    found = delay_slope(processes, error_ratio=0.0)

    assert isinstance(found, Missing)
    assert why in found.reason


def test_what_lies_before_or_between_two_lines_is_shared_out() -> None:
    """Before the first line there was nothing."""
    marks = DelayMarks(np.array([100, 200]), np.array([10, 30]), np.array([0, 20]))

    assert marks.between(150, 200) == (10.0, 10.0)
    assert marks.between(50, 300) == (30.0, 20.0)
