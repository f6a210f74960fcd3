"""The page draws one step of all ranks: what each does, where they meet, who waits for whom."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.open_runs import ToldRun
from tests.support.profiles import op
from tests.unit.export.test_aligned_timeline import REDUCE, ranks
from tfprobe.errors import NoAnswer
from tfprobe.profile.profile import Profile
from tfprobe.web.pages.timeline import ranks as timeline_ranks
from tfprobe.web.params import Params


def asked(found: Profile, capture: int = 0) -> Any:  # Any: JSON
    document = timeline_ranks.document(ToldRun(found), Params({"capture": str(capture)}))
    return json.loads(json.dumps(document, allow_nan=False))


def two() -> Profile:
    """Two ranks that meet twice; the second process, which is rank 0, comes late to the second."""
    return ranks(
        [op("MatMul", 0, 10), op(REDUCE, 10, 10), op(REDUCE, 40, 50)],
        [op("MatMul", 0, 10), op(REDUCE, 10, 10), op(REDUCE, 70, 20)],
    )


def test_each_rank_has_its_tracks() -> None:
    """What it does, its meetings, and its waiting, on the rows of its group."""
    found = asked(two())

    assert [(each["group"], each["name"]) for each in found["tracks"]] == [
        (rank, name)
        for rank in ("rank 0, ± 2.0 µs", "rank 1")
        for name in ("what it does", "meets others", "waits for the last")
    ]
    rows = found["slices"]["row"]
    assert rows == sorted(rows)
    assert max(rows) < sum(each["rows"] for each in found["tracks"])


def test_a_collective_knows_its_peers_and_the_last_of_them() -> None:
    """With how long that one was behind, and how long the others waited together."""
    found = asked(two())

    (late,) = (each for each in found["meetings"].values() if each["waited_ns"])
    assert (late["count"], late["last_title"], late["behind_ns"]) == (2, "rank 0", 30_000)
    assert late["waited_ns"] == 30_000
    assert [(each["title"], each["waited_ns"]) for each in late["members"]] == [
        ("rank 0", 0),
        ("rank 1", 30_000),
    ]
    ids = found["slices"]["id"]
    assert all(each["id"] in ids for each in late["members"])


def test_waiting_is_drawn_from_when_a_rank_came_until_all_were_there() -> None:
    """Nothing is drawn of the one that came last."""
    found = asked(two())

    waits = [
        (found["slices"]["start_ns"][at], found["slices"]["length_ns"][at])
        for at, category in enumerate(found["slices"]["category"])
        if found["categories"][category]["name"] == "waiting"
    ]
    assert waits == [(40_000, 30_000)]


def test_the_ranks_are_told_with_their_clocks() -> None:
    """How much each waited, how often it was last, and how sure its times are."""
    zero, one = asked(two())["ranks"]

    assert zero["title"] == "rank 0 (worker) node7 pid 101"
    assert (zero["last"], zero["waited_ns"]) == (1, 0)
    assert (one["matched"], one["waited_ns"], one["is_reference"]) == (2, 30_000, True)


def test_a_step_of_one_process_is_no_answer() -> None:
    """The page says what to record."""
    with pytest.raises(NoAnswer, match="record the same steps on all ranks"):
        asked(ranks([op(REDUCE, 0, 10)]))


def test_ranks_that_never_meet_are_drawn_all_the_same() -> None:
    """What each does is there; what they waited for each other nobody knows."""
    found = asked(ranks([op("MatMul", 0, 10)], [op("MatMul", 5, 10)]))

    assert found["meetings"] == {}
    assert [each["waited_ns"] for each in found["ranks"]] == [None, None]


def test_very_many_meetings_are_drawn_by_the_longest() -> None:
    """And it is counted how many are not."""
    rows = [op(REDUCE, 10 * at, 2 + at % 3) for at in range(2_000)]

    found = asked(ranks(rows, rows))

    meets = [each for each in found["tracks"] if each["name"] == "meets others"]
    assert [(each["count"], each["left_out"]) for each in meets] == [(400, 1_600)] * 2
    assert len(found["meetings"]) <= 1_000
    assert len(json.dumps(found)) < 1_000_000
