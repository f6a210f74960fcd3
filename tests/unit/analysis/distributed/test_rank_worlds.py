"""Who is missing is told by the worlds that are claimed, and by who is there."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest

from tfprobe.analysis.distributed import rank_facts
from tfprobe.profile.reader import rank_check

WORLD = 10**9
described = partial(SimpleNamespace, serves=(), folder="7-1")


@pytest.mark.parametrize(
    ("ranks", "expected", "lost"),
    [
        ({0: 1, 2: None}, 3, "1"),
        ({0: None, 2: None}, 3, "1"),
        ({0: 4, 1: 4, 2: 4}, 4, "3"),
    ],
)
def test_a_rank_that_is_missing_is_told_whatever_the_others_know(ranks, expected, lost) -> None:
    """Of a sparse cluster rank 0 may say that it is alone, and the others nothing."""
    members = [described(team="workers", world=world, rank=rank) for rank, world in ranks.items()]
    processes = [described(world=world) for world in ranks.values()]
    seats = [described(team="workers", rank=rank, process=at) for at, rank in enumerate(ranks)]

    told = list(rank_check._absent(members))
    (shown,) = rank_facts._missing(processes, seats)

    assert told == [f"Of {expected} ranks rank {lost} recorded nothing that is here."]
    assert shown.startswith(f"Of {expected} ranks 1 is not in this run: {lost}.")


def test_of_a_job_that_is_whole_nobody_is_missing() -> None:
    """Where nobody tells how many there are, the last who is there is the last."""
    members = [described(team="workers", world=None, rank=rank) for rank in range(3)]
    seats = [described(team="workers", rank=rank, process=rank) for rank in range(3)]

    told = list(rank_check._absent(members))
    shown = list(rank_facts._missing(members, seats))

    assert (told, shown) == ([], [])


def test_a_world_that_no_job_has_is_told() -> None:
    """A variable of nine digits names no missing rank, and takes no time."""
    rank = described(team="workers", world=WORLD, rank=0)
    seat = described(team="workers", rank=0, process=0)

    told = list(rank_check._absent([rank]))
    shown = list(rank_facts._missing([described(world=WORLD)], [seat]))

    assert told == ["One of its ranks says that they are 1,000,000,000, which no job has."]
    assert shown == ["A process says that there are 1,000,000,000 ranks, which no job has."]
