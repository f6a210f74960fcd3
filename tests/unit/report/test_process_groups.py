"""Many processes become few lines, in which those that stand out are named."""

from __future__ import annotations

import dataclasses

from tests.support.profiles import HOOKS, loop, process, profile
from tfprobe.errors import Missing
from tfprobe.report.documents.process_groups import ProcessGroups, Reason, process_groups
from tfprobe.report.documents.run_report import gather_report
from tfprobe.report.text.report import group_title, name_of, remarks

MS = 1_000_000


def of(
    count: int, *, slow: int = -1, killed: int = -1, costly: int = -1, silent: int = -1
) -> ProcessGroups:
    """Return so many workers, one of which may be slow, killed, costlyly recorded or silent."""
    costly_hooks = dataclasses.replace(HOOKS, traced_ns=HOOKS.wall_ns // 2)
    processes = [
        process(
            index=at,
            pid=4000 + at,
            host=f"node{at // 8}",
            rank=at,
            role="worker",
            state="killed" if at == killed else "finished",
            hooks=costly_hooks if at == costly else HOOKS,
        )
        for at in range(count)
    ]
    loops = [
        loop([(13 if at == slow else 10) * MS + at] * 10, process=at, kind="fit", name="resnet")
        for at in range(count)
        if at != silent
    ]
    return process_groups(gather_report(profile(processes=processes, loops=loops)))


def named(item: ProcessGroups) -> list[tuple[int | None, Reason]]:
    return [(each.report.process.rank, each.reason) for each in item.notable]


def test_ranks_that_are_alike_are_one_line():
    """Of ranks that do the same there is one row, with the least, the middle and the most."""
    item = of(9)

    (group,) = item.loops
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
    (found,) = of(9, slow=5).notable

    assert (found.report.process.rank, found.reason) == (5, Reason.SLOW)
    assert round(found.ratio, 3) == 0.3


def test_a_rank_that_was_killed_is_named():
    """A process that ended otherwise than most stands out."""
    assert named(of(9, killed=2)) == [(2, Reason.STATE)]


def test_a_rank_that_was_costly_to_record_is_named():
    """Recording that took much more of one process than of others stands out."""
    assert named(of(9, costly=7)) == [(7, Reason.RECORDING)]


def test_a_rank_without_steps_is_counted_once():
    """A process without steps is among the processes, and in no row of loops."""
    item = of(9, silent=3)

    assert (item.processes, item.loops[0].processes) == (9, 8)


def test_no_process_is_counted_twice_where_it_stands_out_twice():
    """The rest is all that is not named, whatever the reasons are."""
    texts = list(remarks(of(1000, slow=5, killed=5)))

    assert texts[-1] == "and 999 more; --json has all"


def test_processes_of_which_nothing_is_known_are_told():
    """Without any step there is no row and no cost, and the title still says how many there are."""
    processes = [process(index=at, hooks=Missing("lost"), state="unknown") for at in range(9)]

    item = process_groups(gather_report(profile(processes=processes)))

    assert group_title(item) == "9 processes on 1 host · unknown · TensorFlow 2.21.0"
    assert list(remarks(item)) == [
        "recording cost unknown: no process tells",
        "none stands out; --json has all",
    ]


def test_a_process_is_named_by_its_rank_and_place():
    """Who stands out can be found: rank, host and pid."""
    (found,) = of(9, killed=8).notable

    assert name_of(found.report) == "worker 8 · node1 · pid 4008"
