"""Who met whom, who came last, and how long the others waited."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.profiles import op
from tests.unit.export.test_aligned_timeline import REDUCE, ranks
from tfprobe.analysis.distributed import synchronization_events
from tfprobe.analysis.distributed.aligned import peers


def found(*rows: Any, without: frozenset[int] = frozenset()) -> list[tuple[int, int, int]]:
    """Return (group, last, waited us) of each event."""
    met = peers(synchronization_events.find_events(ranks(*rows)), [0] * len(rows), without=without)
    waited_us = np.where(met.waited_ns < 0, -1, met.waited_ns // 1000)
    return list(zip(met.group.tolist(), met.last.tolist(), waited_us.tolist(), strict=True))


def test_all_wait_for_the_one_that_comes_last() -> None:
    """It itself waits for nobody."""
    first, second, third = found([op(REDUCE, 0, 50)], [op(REDUCE, 10, 40)], [op(REDUCE, 40, 10)])

    assert (first[1:], second[1:], third[1:]) == ((2, 40), (2, 30), (2, 0))
    assert first[0] == second[0] == third[0]


def test_a_collective_that_nobody_else_recorded_has_no_peers() -> None:
    """Waiting shows only beside the others."""
    (alone,) = found([op(REDUCE, 0, 50)], [op("Sum", 0, 50)])

    assert alone == (-1, -1, -1)


def test_the_nth_of_a_name_meets_the_nth() -> None:
    """A loop runs one op again and again."""
    one = [op(REDUCE, 0, 10), op(REDUCE, 20, 10)]

    groups = [group for group, _, _ in found(one, one)]

    assert groups[0] == groups[2] != groups[1] == groups[3]


def test_a_process_without_a_known_clock_is_a_peer_but_nobody_waits_for_it() -> None:
    """Its times say nothing beside those of others."""
    rows = [op(REDUCE, 0, 50)], [op(REDUCE, 10, 40)], [op(REDUCE, 900, 10)]

    told = found(*rows, without=frozenset({2}))

    assert [each[1:] for each in told] == [(1, 10), (1, 0), (-1, -1)]
    assert len({group for group, _, _ in told}) == 1
