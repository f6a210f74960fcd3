"""The page of the ranks: who is late, who waits for whom, their clocks, and what is odd."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.open_runs import ToldRun
from tests.support.profiles import op, process, profile, timed_loop
from tests.support.rank_steps import write_rank_steps
from tests.support.rundir import BOOT_ID, HOST
from tests.unit.export.test_aligned_timeline import REDUCE, ranks
from tfprobe.analysis.distributed import rank_comparison, rank_parts
from tfprobe.profile.profile import Profile
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine
from tfprobe.web import together
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages import ranks as page
from tfprobe.web.params import Params

MS = 1_000_000


def told(found: Profile) -> Any:  # Any: JSON
    return json.loads(json.dumps(page.document(ToldRun(found), Params()), allow_nan=False))


def three() -> Profile:
    """Three ranks; the second process, rank 1, comes last to the collective."""
    return ranks([op(REDUCE, 0, 50)], [op(REDUCE, 40, 10)], [op(REDUCE, 10, 40)])


@pytest.fixture
def run(tmp_path) -> OpenRun:
    """Ten ranks on three machines; rank 2 comes late to each all-reduce, rank 5 left nothing."""
    root = write_rank_steps(tmp_path / "r1", 10, lacking=(5,), ahead_ns={1: 3_000 * MS})
    return OpenRun(RunFolder(root), Machine(HOST, BOOT_ID))


def test_who_waits_for_whom_is_a_map() -> None:
    """By the numbers of ranks: the column is waited for, the row waits."""
    found = told(three())["waits"]

    assert [each["rank"] for each in found["ranks"]] == [0, 1, 2]
    assert sorted(found["cells"]) == [[1, 0, 30_000, 1], [1, 2, 40_000, 1]]


def test_each_rank_is_told_with_what_it_cost_others() -> None:
    """In the order of the numbers; and how often it came last."""
    zero, one, two = told(three())["ranks"]

    assert (one["caused_ns"], one["waiting_ns"], one["last"]) == (70_000, 0, 1)
    assert (two["waiting_ns"], two["last"], two["matched"]) == (40_000, 0, 1)
    assert zero["hidden_ratio"] == 0


def test_a_late_rank_is_named_with_its_evidence(run) -> None:
    """How much longer it takes, how far that is from chance, how often others waited for it."""
    found = page.document(run, Params())

    (late,) = found["stragglers"]
    assert (late["rank"], late["last_ratio"], late["matched"]) == (2, 1.0, 7)
    assert late["z"] > 3
    assert [each["rank"] for each in found["ranks"] if each["is_named"]] == [2]


def test_a_missing_rank_and_the_clocks_are_told(run) -> None:
    """Three machines, of which one is three seconds ahead."""
    found = page.document(run, Params())

    assert any("Of 10 ranks 1 is not in this run: 5." in each for each in found["facts"])
    offsets = {each["rank"]: each["offset_ns"] for each in found["ranks"]}
    assert offsets[4] == pytest.approx(3_000 * MS, abs=100_000)
    assert found["machines"] == 3


def test_slowest_and_fastest_of_each_step_are_columns() -> None:
    """All of one step, with whose the slowest was."""
    loops = [timed_loop([(10 + at) * MS] * 6, process=at, name="fit") for at in range(3)]
    processes = [process(index=at, pid=at, rank=at) for at in range(3)]

    found = told(profile(loops=loops, processes=processes))["steps"]

    assert found["slowest"] == [2] * len(found["step"])
    assert set(found["min_ns"]) == {10 * MS}
    assert set(found["max_ns"]) == {12 * MS}


def test_without_collectives_the_page_says_what_to_record() -> None:
    """What is known without them is told all the same."""
    found = told(profile(processes=[process(rank=0), process(index=1, rank=2)]))

    assert "record the same steps" in found["waits"]["missing"]
    assert len(found["ranks"]) == 2


def test_of_very_many_ranks_those_are_in_the_map_that_matter() -> None:
    """Each of them has its row in the table."""
    rows = [[op(REDUCE, 50 if at == 70 else at % 5, 60)] for at in range(100)]

    found = told(ranks(*rows))

    assert len(found["waits"]["ranks"]) == page.MOST_IN_MAP
    assert found["waits"]["left_out"] == 100 - page.MOST_IN_MAP
    assert 29 in {each["rank"] for each in found["waits"]["ranks"]}
    assert len(found["ranks"]) == 100


def test_a_run_without_processes_is_a_page() -> None:
    """It has nothing to say, and says it."""
    found = told(replace(profile(), processes=()))

    assert (found["ranks"], found["facts"]) == ([], [])


def test_a_process_by_itself_is_what_the_views_make_of_it(run) -> None:
    """The page has the numbers of `tfprobe ranks`, though it cuts processes out another way."""
    profile = run.profile
    parts = [rank_parts.rank_part(together.alone(profile, each)) for each in profile.processes]

    assert page._document(rank_comparison.compare_parts(parts)) == page._document(
        rank_comparison.compare_parts(rank_parts.rank_parts_of(profile))
    )
