"""A world that no job has is said to be one, and nobody counts it out."""

from __future__ import annotations

from types import SimpleNamespace

from tfprobe.ingest import roster
from tfprobe.views import rank_facts

WORLD = 10**9


def test_a_world_that_no_job_has_is_told() -> None:
    """A variable of nine digits names no missing rank, and takes no time."""
    member = SimpleNamespace(team="", world=WORLD, rank=0)
    seat = SimpleNamespace(team="workers", rank=0, process=0)

    told = list(roster._absent([member]))
    shown = list(rank_facts._missing([SimpleNamespace(world=WORLD)], [seat]))

    assert told == ["One of its ranks says that they are 1,000,000,000, which no job has."]
    assert shown == ["A process says that there are 1,000,000,000 ranks, which no job has."]
