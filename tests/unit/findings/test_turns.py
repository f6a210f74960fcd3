"""Ranks are compared by the collectives that they meet in."""

from __future__ import annotations

from dataclasses import replace

from tests.support.profiles import loop
from tests.unit.analysis.distributed.test_collectives import recorded, reduce
from tfprobe.analysis.distributed.rank_lateness import lateness_of_loops


def _runs(steps: int):
    """Return a run in which rank 1 comes last to one collective in each step."""
    rank_0, rank_1 = [[reduce(0, 100)]] * steps, [[reduce(70, 30)]] * steps
    mine = loop(kind="function", name="f")
    return recorded({0: rank_0, 1: rank_1}, loops=[mine, replace(mine, process=1)])


def test_a_rank_is_known_by_how_often_it_came_last() -> None:
    """And by how long it waited in a collective."""
    found = lateness_of_loops(_runs(5))

    assert (found[0, 0].last_ratio, found[0, 0].waiting_ns) == (0.0, 70_000)
    assert (found[1, 0].last_ratio, found[1, 0].waiting_ns) == (1.0, 0.0)


def test_of_few_collectives_nothing_is_told() -> None:
    """Of four, one of two equal ranks may well be last in all."""
    assert lateness_of_loops(_runs(4)) == {}
