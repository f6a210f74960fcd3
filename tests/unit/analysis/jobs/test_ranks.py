"""Processes of one loop stand beside each other, step by step."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.profiles import loop, timed_loop
from tfprobe.analysis.jobs.rank_steps import (
    ALONE,
    MOST_COLUMNS,
    MOST_LANES,
    MOST_POINTS,
    Measure,
    Ranks,
    compare_steps,
)
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop

MS = 1_000_000


def rank(process: int, steps_ms: Sequence[float], **changes) -> Loop:
    return timed_loop([round(each * MS) for each in steps_ms], process=process, **changes)


def shown(*loops: Loop, measure: Measure = "step") -> Ranks:
    found = compare_steps(loops, measure)
    assert isinstance(found, Ranks), found
    return found


def test_a_cell_is_the_step_over_the_middle_of_all() -> None:
    """The middle of 10, 10 and 15 ms is 10 ms: the third took half as much again."""
    found = shown(rank(0, [10, 10]), rank(1, [10, 20]), rank(2, [15, 10]))

    assert [lane.cells for lane in found.lanes] == [(1, 1), (1, 2), (1.5, 1)]
    assert found.median_ns == 10 * MS


def test_it_is_told_how_often_nobody_was_slower() -> None:
    """Rank 1 is last in three steps of four."""
    found = shown(rank(0, [10, 10, 10, 30]), rank(1, [12, 12, 12, 10]))

    assert [lane.slowest_ratio for lane in found.lanes] == [0.25, 0.75]
    assert [lane.compared for lane in found.lanes] == [4, 4]


def test_steps_meet_by_their_number() -> None:
    """A rank whose first steps are forgotten is compared from its first remembered one on."""
    late = loop([10 * MS] * 4, process=1, remembered=2)

    found = shown(rank(0, [10, 10, 10, 20]), late)

    assert (found.first_step, found.last_step) == (0, 3)
    assert [lane.cells[:2] for lane in found.lanes] == [(None, None)] * 2
    assert found.lanes[0].cells[3] == pytest.approx(4 / 3)


def test_steps_that_were_traced_or_raised_are_left_out_where_that_was() -> None:
    """Recording a step takes longer, and is no fault of the rank."""
    traced = rank(0, [90, 10, 10], sampled=[0])

    found = shown(traced, rank(1, [10, 10, 10]), rank(2, [10, 10, 10]))

    assert found.lanes[0].cells == (None, 1, 1)
    assert found.lanes[1].cells == (1, 1, 1)


def test_the_time_before_a_step_is_told_as_a_part_of_the_cycle() -> None:
    """Both take steps of 9 ms; one comes 2 ms later, which is a fifth of the usual 10 ms."""
    gaps = [[1 * MS] * 3, [1 * MS] * 3, [3 * MS] * 3]

    found = shown(
        *(rank(at, [9] * 3, gaps_ns=each) for at, each in enumerate(gaps)), measure="between"
    )

    assert [lane.cells for lane in found.lanes] == [(None, 1, 1), (None, 1, 1), (None, 1.2, 1.2)]
    assert found.median_ns == 1 * MS


def test_many_steps_are_columns_of_medians() -> None:
    """A step that stands out alone does not colour its column."""
    steps = [10.0] * 1000
    steps[500] = 90

    found = shown(rank(0, [10] * 1000), rank(1, [10] * 1000), rank(2, steps))

    assert found.steps_per_column == 5
    assert [len(lane.cells) for lane in found.lanes] == [MOST_COLUMNS] * 3
    assert set(found.lanes[2].cells) == {1.0}


def test_of_many_processes_the_slowest_are_shown() -> None:
    """Those left out are counted; the others stay in their order."""
    loops = [rank(at, [20 if at in (3, 290) else 10]) for at in range(300)]

    found = shown(*loops)

    processes = [lane.process for lane in found.lanes]
    assert len(processes) == MOST_LANES
    assert found.left_out == 300 - MOST_LANES
    assert {3, 290} <= set(processes)
    assert processes == sorted(processes)


def test_one_process_has_nobody_to_be_compared_with() -> None:
    """That is a reason, not a map of one colour."""
    assert compare_steps([rank(0, [1, 2])]) == ALONE
    assert compare_steps([]) == ALONE


def test_ranks_without_a_step_in_common_are_not_compared() -> None:
    """One remembers only its last steps, the other has never come so far."""
    one = loop([MS] * 9, process=0, remembered=2)

    assert isinstance(compare_steps([one, rank(1, [1, 1])]), Missing)


def test_slowest_middle_and_fastest_are_of_one_step() -> None:
    """At each step, with the process that was slowest."""
    found = shown(rank(0, [10, 20]), rank(1, [12, 15]), rank(2, [11, 30])).spread

    assert found.step == (0, 1)
    assert found.least_ns == (10 * MS, 15 * MS)
    assert found.median_ns == (11 * MS, 20 * MS)
    assert found.most_ns == (12 * MS, 30 * MS)
    assert found.slowest == (1, 2)


def test_of_very_many_steps_those_are_drawn_whose_slowest_took_longest() -> None:
    """What hurts is in sight; and never the slowest of one step beside the fastest of another."""
    times = [10.0] * 6_000
    times[4_321] = 90.0

    found = shown(rank(0, times), rank(1, [9.0] * 6_000)).spread

    assert len(found.step) <= MOST_POINTS
    at = found.step.index(4_321)
    assert (found.most_ns[at], found.least_ns[at], found.slowest[at]) == (90 * MS, 9 * MS, 0)
