"""One step of many ranks: which of them are drawn, and where."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.profiles import op
from tests.unit.export.test_aligned_timeline import REDUCE, UNKNOWN, clocks, ranks
from tfprobe.analysis.distributed import synchronization_events
from tfprobe.analysis.distributed.aligned import aligned
from tfprobe.analysis.timeline.rank_timeline import (
    FIRST,
    LAST,
    LONGEST,
    REQUESTED,
    SLOW,
    RankTimeline,
    same_step,
    timeline_of_step,
)
from tfprobe.errors import Missing
from tfprobe.profile.profile import Profile

S = 1_000_000_000


def of(found: Profile, *offsets_ns: int | Missing, asked: int = 0, **more: Any) -> RankTimeline:
    by = clocks(*(offsets_ns or [0] * len(found.processes)))
    together = aligned(found, synchronization_events.find_events(found), by)
    return timeline_of_step(together, together.profile.captures[asked], **more)


def many(count: int, late: int) -> Profile:
    """Ranks of which one comes to a collective 40 us after the others, who came a little apart."""
    rows = ([op(REDUCE, 40 if at == late else at % 4, 60)] for at in range(count))
    return ranks(*rows)


def test_all_ranks_are_drawn_where_they_are_few() -> None:
    """In the order of their numbers."""
    found = of(many(3, late=1))

    assert [each.capture.process for each in found.ranks] == [2, 1, 0]
    assert found.left_out == 0


def test_of_very_many_those_are_drawn_that_matter() -> None:
    """The one asked for, the one that others wait for, a slow one, the longest; then the first."""
    every = many(1_000, late=500)
    long = replace(every.captures[700], duration_ns=5 * every.captures[700].duration_ns)
    captures = (*every.captures[:700], long, *every.captures[701:])

    found = of(replace(every, captures=captures), asked=300, slow=(800,))

    why = {each.capture.process: each.why for each in found.ranks}
    assert (why[300], why[500], why[800], why[700]) == (REQUESTED, LAST, SLOW, LONGEST)
    assert list(why.values()).count(SLOW) == 1
    assert list(why.values()).count(FIRST) >= 13
    assert found.left_out == 976


def test_the_longest_of_one_step_is_not_called_slow() -> None:
    """One step does not say which rank is slow, so few ranks are drawn without a word on it."""
    every = many(3, late=1)
    long = replace(every.captures[0], duration_ns=5 * every.captures[0].duration_ns)

    found = of(replace(every, captures=(long, *every.captures[1:])), asked=2)

    assert {each.capture.process: each.why for each in found.ranks} == {
        0: FIRST,
        1: LAST,
        2: REQUESTED,
    }


def test_times_count_from_the_first_start() -> None:
    """On the clock of the reference."""
    found = of(many(2, late=1), 0, 3_000)

    second, first = found.ranks
    assert first.capture.start_ns + found.move_ns(first) == 3_000
    assert second.capture.start_ns + found.move_ns(second) == 0


def test_a_rank_whose_clock_is_unknown_is_drawn_from_the_start_of_the_step() -> None:
    """Elsewhere it might be hours away, and nothing could be seen of the others."""
    every = many(2, late=1)
    away = replace(every.captures[1], start_ns=every.captures[1].start_ns + 5 * S)

    found = of(replace(every, captures=(every.captures[0], away)), 0, UNKNOWN)

    second, first = found.ranks
    assert not second.is_on_clock
    assert second.capture.start_ns + found.move_ns(second) == 0
    assert first.capture.start_ns + found.move_ns(first) == 0


def test_a_step_of_a_process_before_it_was_started_again_is_left_out() -> None:
    """It has the same number, and was long ago."""
    every = many(3, late=1)
    old = replace(every.captures[1], start_ns=every.captures[1].start_ns - 100 * S)

    found = of(replace(every, captures=(every.captures[0], old, every.captures[2])))

    assert [each.capture.process for each in found.ranks] == [2, 0]


def test_steps_of_another_number_or_work_are_another_step() -> None:
    """What one evaluates is beside no training step."""
    every = many(3, late=1)
    other = replace(every.captures[1], step=8)
    unknown = replace(every.captures[2], loop=Missing("nobody tells"))
    found = replace(every, captures=(every.captures[0], other, unknown))

    assert same_step(found, found.captures[0]) == (found.captures[0],)
    assert same_step(found, unknown) == (unknown,)
