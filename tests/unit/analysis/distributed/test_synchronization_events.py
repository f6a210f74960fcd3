"""Where processes meet: collectives, sends and receives of the traced steps, as columns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.profiles import Step, loop, process, profile
from tests.support.rundir import UNIX_NS
from tests.unit.analysis.distributed.test_collectives import numbered, recorded, reduce
from tests.unit.analysis.transfers.test_transfers import row
from tfprobe.analysis.distributed.synchronization_events import (
    SynchronizationEvents,
    SynchronizationKind,
    find_events,
    merge_events,
)
from tfprobe.analysis.distributed.synchronization_matrix import event_groups
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Place

PS, WORKER = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:1"


def facts(found: SynchronizationEvents, *columns: str) -> list[tuple[object, ...]]:
    """Return rows with their texts."""
    texts = found.strings.values
    return [
        tuple(
            texts[getattr(found, name)[at]]
            if name in SynchronizationEvents.TEXTS
            else int(getattr(found, name)[at])
            for name in columns
        )
        for at in range(len(found))
    ]


def test_each_collective_of_a_recorded_step_is_a_row() -> None:
    """It says of which loop and step it is, and the how manieth of its name."""
    made = recorded({0: [[reduce(0, 100), reduce(200, 50)]]}, loops=[loop()])

    found = find_events(made)

    assert facts(found, "loop", "step", "name", "nth", "kind", "key") == [
        ("session_run loss", 0, "r", 0, SynchronizationKind.COLLECTIVE, ""),
        ("session_run loss", 0, "r", 1, SynchronizationKind.COLLECTIVE, ""),
    ]
    assert (found.start_ns - UNIX_NS).tolist() == [0, 200_000]
    assert (found.end_ns - UNIX_NS).tolist() == [100_000, 250_000]


def test_a_tensor_from_another_task_says_which_and_how_large() -> None:
    """The number of its edge is left out: that of its send is another one."""
    detail = f"[1.5KB] edge_7_w/read from {PS}/device:CPU:0 to {WORKER}/device:GPU:0"
    made = profile([Step([row("RecvTensor", 0, 10, Place.HOST, detail=detail)])])

    [found] = facts(find_events(made), "kind", "key", "bytes", "source", "target")

    assert found == (
        SynchronizationKind.RECV,
        "w/read",
        1536,
        f"{PS}/device:CPU:0",
        f"{WORKER}/device:GPU:0",
    )


def test_a_send_and_its_receive_share_a_key() -> None:
    """They are nodes of their own, numbered apart."""
    rows = [
        row("w/read/_4", 0, 10, Place.HOST, op_type="_Send"),
        row("w/read/_5", 5, 10, Place.HOST, op_type="_Recv"),
    ]

    found = facts(find_events(profile([Step(rows)])), "kind", "key", "nth")

    assert found == [
        (SynchronizationKind.SEND, "w/read", 0),
        (SynchronizationKind.RECV, "w/read", 0),
    ]


def test_what_stays_in_a_task_is_no_event() -> None:
    """A worker that sends from its CPU to its GPU meets nobody."""
    detail = f"[1.5KB] edge_7_w from {WORKER}/device:CPU:0 to {WORKER}/device:GPU:0"
    made = profile([Step([row("x/_5", 0, 10, Place.HOST, op_type="_Recv", detail=detail)])])

    assert len(find_events(made)) == 0


def test_receives_of_one_tensor_are_counted_by_themselves() -> None:
    """All have the name RecvTensor, and only those of one tensor are turns of each other."""
    rows = [
        row("RecvTensor", at, 10, Place.HOST, detail=f"[1B] edge_1_{name} from a to b")
        for at, name in ((0, "v"), (20, "w"), (40, "v"))
    ]

    found = facts(find_events(profile([Step(rows)])), "key", "nth")

    assert found == [("v", 0), ("w", 0), ("v", 1)]


def test_a_collective_keeps_what_all_ranks_call_it() -> None:
    """The names of ops may differ: it is the same event in both processes."""
    by_rank = {
        0: [[numbered(5, 0, 50), numbered(6, 100, 50)]],
        1: [[numbered(6, 120, 30, name="s")]],
    }
    alone = [replace(recorded({0: by_rank[at]}), processes=(process(),)) for at in by_rank]

    found = merge_events([find_events(each) for each in alone])

    assert facts(found, "process", "name", "collective", "part") == [
        (0, "r", "0 allreduce 5", 0),
        (0, "r", "0 allreduce 6", 0),
        (1, "s", "0 allreduce 6", 0),
    ]
    first, second, other = event_groups(found, (0, 0)).tolist()
    assert second == other != first


def test_the_parts_of_processes_make_the_whole() -> None:
    """A process by itself has number 0; in the whole it has its place."""
    by_rank = {0: [[reduce(0, 100)]], 1: [[reduce(70, 30, name="s")]]}
    alone = [replace(recorded({0: by_rank[at]}), processes=(process(),)) for at in by_rank]

    found = merge_events([find_events(each) for each in alone])

    assert facts(found, "process", "name") == [(0, "r"), (1, "s")]
    whole = find_events(recorded(by_rank))
    assert facts(found, "process", "name", "start_ns") == facts(
        whole, "process", "name", "start_ns"
    )


@pytest.mark.parametrize("parts", [[], [find_events(profile())]])
def test_without_recorded_steps_there_is_no_event(parts: list[SynchronizationEvents]) -> None:
    """Nothing is made up where nothing was sampled."""
    assert len(merge_events(parts)) == 0


def test_a_step_of_no_known_work_is_kept() -> None:
    """What a profiler service recorded has steps and no works."""
    made = recorded({0: [[reduce(0, 100)]]})
    captures = tuple(replace(each, loop=Missing("no work")) for each in made.captures)

    assert facts(find_events(replace(made, captures=captures)), "loop", "name") == [("", "r")]
