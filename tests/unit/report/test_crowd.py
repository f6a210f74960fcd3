"""Many processes become few lines, in which those that stand out are named."""

from __future__ import annotations

import dataclasses

from tests.support.profiles import HOOKS, loop, process, profile
from tfprobe.errors import Missing
from tfprobe.report.documents.process_groups import Crowd, Why, crowd
from tfprobe.report.documents.run_report import gather
from tfprobe.report.text.report import group_title, name_of, remarks

MS = 1_000_000


def of(count: int, *, slow: int = -1, killed: int = -1, dear: int = -1, silent: int = -1) -> Crowd:
    """Return so many workers, one of which may be slow, killed, dearly recorded or silent."""
    dear_hooks = dataclasses.replace(HOOKS, traced_ns=HOOKS.wall_ns // 2)
    processes = [
        process(
            index=at,
            pid=4000 + at,
            host=f"node{at // 8}",
            rank=at,
            role="worker",
            state="killed" if at == killed else "finished",
            hooks=dear_hooks if at == dear else HOOKS,
        )
        for at in range(count)
    ]
    loops = [
        loop([(13 if at == slow else 10) * MS + at] * 10, process=at, kind="fit", name="resnet")
        for at in range(count)
        if at != silent
    ]
    return crowd(gather(profile(processes=processes, loops=loops)).processes)


def named(item: Crowd) -> list[tuple[int | None, Why]]:
    return [(each.report.process.rank, each.why) for each in item.stand_out]


def test_ranks_that_are_alike_are_one_line():
    """Of ranks that do the same there is one row, with the least, the middle and the most."""
    item = of(9)

    (group,) = item.groups
    assert (group.role, group.kind, group.name, group.processes, group.steps) == (
        "worker",
        "fit",
        "resnet",
        9,
        90,
    )
    assert dataclasses.astuple(group.mean_ns) == (10 * MS, 10 * MS + 4, 10 * MS + 8)
    assert named(item) == []


def test_a_slow_rank_is_named():
    """A rank whose mean step is far above the median stands out, with how far."""
    (found,) = of(9, slow=5).stand_out

    assert (found.report.process.rank, found.why, round(found.ratio, 3)) == (5, Why.SLOW, 1.3)


def test_a_rank_that_was_killed_is_named():
    """A process that ended otherwise than most stands out."""
    assert named(of(9, killed=2)) == [(2, Why.STATE)]


def test_a_rank_that_was_dear_to_record_is_named():
    """Recording that took much more of one process than of others stands out."""
    assert named(of(9, dear=7)) == [(7, Why.RECORDING)]


def test_a_rank_without_steps_is_counted_once():
    """A process without steps is among the processes, and in no row of loops."""
    item = of(9, silent=3)

    assert (item.processes, item.groups[0].processes) == (9, 8)


def test_no_process_is_counted_twice_where_it_stands_out_twice():
    """The rest is all that is not named, whatever the reasons are."""
    texts = list(remarks(of(1000, slow=5, killed=5)))

    assert texts[-1] == "and 999 more; --json has all"


def test_processes_of_which_nothing_is_known_are_told():
    """Without any step there is no row and no cost, and the title still says how many there are."""
    processes = [process(index=at, hooks=Missing("lost"), state="unknown") for at in range(9)]

    item = crowd(gather(profile(processes=processes)).processes)

    assert group_title(item) == "9 processes on 1 host · unknown · TensorFlow 2.21.0"
    assert list(remarks(item)) == [
        "recording cost unknown: no process tells",
        "none stands out; --json has all",
    ]


def test_a_process_is_named_by_its_rank_and_place():
    """Who stands out can be found: rank, host and pid."""
    (found,) = of(9, killed=8).stand_out

    assert name_of(found.report) == "worker 8 · node1 · pid 4008"
