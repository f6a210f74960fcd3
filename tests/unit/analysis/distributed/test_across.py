"""The processes of a job beside each other: who is there, who waits for whom, what is amiss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.planted import KEY, team
from tests.support.profiles import Step, process, profile, timed_loop
from tests.unit.analysis.distributed.test_collectives import recorded, reduce
from tests.unit.analysis.transfers.test_transfers import row
from tfprobe.analysis.distributed.rank_comparison import RankComparison, compare_parts
from tfprobe.analysis.distributed.rank_parts import (
    RankPart,
    limit_to_steps,
    rank_part,
    rank_parts_of,
)
from tfprobe.analysis.distributed.rank_waits import Servers, Waits
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Place
from tfprobe.report.documents.rank_report import ranks_document

SMALL = {
    "ranks": 8,
    "steps": 60,
    "recorded": 10,
    "collectives": 2,
    "kind": "together",
    "per_machine": 4,
}


def job(**changes: Any) -> list[RankPart]:
    return list(team(1, is_slow=True, slower=0.2, **{**SMALL, **changes}).parts)


def changed(part: RankPart, **changes: Any) -> RankPart:
    return replace(part, process=replace(part.process, **changes))


def said(parts: Sequence[RankPart]) -> str:
    return "\n".join(compare_parts(parts).facts)


def two(rank_1: Sequence[Any], **more: Any) -> RankComparison:
    """Return two ranks of which the second did this in its steps; the first reduced at once."""
    made = recorded({0: [[reduce(0, 100)]] * len(rank_1), 1: rank_1}, **more)
    return compare_parts(rank_parts_of(made))


def test_the_slow_rank_is_named_with_its_row() -> None:
    """Also where all steps take as long as each other."""
    made = team(1, is_slow=True, slower=0.2, **SMALL)

    found = compare_parts(made.parts)

    assert [each.process for each in found.stragglers] == [made.slow]
    assert found.loop == KEY
    assert found.facts == ()


def test_figures_of_a_step_are_all_of_that_step() -> None:
    """The longest of one step never stands beside the shortest of another."""
    loops = [
        timed_loop([10_000, 50_000], process=0, index=0),
        timed_loop([20_000, 30_000], process=1, index=0),
    ]
    made = profile(processes=[process(index=0, rank=0), process(index=1, rank=1)], loops=loops)

    figures = compare_parts(rank_parts_of(made)).figures

    assert [(f.step, f.least_ns, f.most_ns, f.quickest, f.slowest) for f in figures] == [
        (0, 10_000, 20_000, 0, 1),
        (1, 30_000, 50_000, 1, 0),
    ]


def test_who_comes_early_waits_for_who_comes_last() -> None:
    """Rank 0 is inside for 100 µs, rank 1 for the last 30."""
    found = two([[reduce(70, 30)]])

    assert isinstance(found.waits, Waits)
    [pair] = found.waits.pairs
    assert (pair.who, pair.whom, pair.count, pair.waiting_ns) == (0, 1, 1, 70_000)
    assert [(each.waiting_ns, each.caused_ns, each.last) for each in found.waits.turns] == [
        (70_000, 0, 0),
        (0, 70_000, 1),
    ]


def test_a_receive_waits_until_its_tensor_is_sent() -> None:
    """What comes behind the send is the way, not waiting for the sender."""
    rows = {
        0: [[row("w/_1", 0, 100, Place.HOST, op_type="_Recv")]],
        1: [[row("w/_2", 60, 5, Place.HOST, op_type="_Send")]],
    }

    found = compare_parts(rank_parts_of(recorded(rows)))

    assert isinstance(found.waits, Waits)
    [pair] = found.waits.pairs
    assert (pair.who, pair.whom, pair.waiting_ns) == (0, 1, 60_000)


def test_the_same_program_on_all_ranks_sends_to_itself() -> None:
    """Each has a Send and a Recv of one name, between its own devices: nobody waits for a peer."""
    own = [
        row("w/_1", 0, 100, Place.HOST, op_type="_Recv"),
        row("w/_2", 60, 5, Place.HOST, op_type="_Send"),
    ]

    found = compare_parts(rank_parts_of(recorded({0: [own], 1: [own]})))

    assert isinstance(found.waits, Missing)


def test_where_ranks_recorded_other_steps_it_is_said_how_to_record() -> None:
    """With a budget each chooses its own steps."""
    found = two([[], [reduce(0, 30)]], loops=[])
    assert isinstance(found.waits, Waits)

    made = recorded({0: [[reduce(0, 100)], []], 1: [[], [reduce(0, 30)]]})
    found = compare_parts(rank_parts_of(made))

    assert isinstance(found.waits, Missing)
    assert "--every or --steps" in found.waits.reason


def test_ranks_that_are_not_there_are_named() -> None:
    """The world that processes tell says how many there should be."""
    parts = job()

    assert "Of 8 ranks 2 are not in this run: 2, 5." in said(parts[:2] + parts[3:5] + parts[6:])


def test_two_that_claim_one_rank_are_told() -> None:
    """Both live at once: a wrong start script, not a restart."""
    parts = job()
    parts[3] = changed(parts[3], rank=2)

    assert "say that they are rank 2: pid 4002 on node0, pid 4003 on node0." in said(parts)


@pytest.mark.parametrize(
    ("ppid", "is_fork", "has_steps"), [(4002, False, True), (1, True, True), (1, False, False)]
)
def test_a_child_of_a_rank_claims_nothing_twice(ppid, is_fork, has_steps) -> None:
    """It has inherited the variables of its rank; so has a TensorBoard, which makes no step."""
    parts = job()
    child = changed(parts[2], pid=9, ppid=ppid, is_fork=is_fork)

    text = said([*parts, child if has_steps else replace(child, steps=(), recorded=())])

    assert "at once" not in text


def test_a_child_of_another_machine_claims_a_rank_itself() -> None:
    """Process numbers are of one machine alone."""
    parts = job()
    other = changed(parts[2], pid=9, ppid=4002, host="node9")

    assert "2 processes at once say that they are rank 2" in said([*parts, other])


def test_a_rank_that_was_started_again_claims_nothing_twice() -> None:
    """Its first process had ended when the second began; that one is compared."""
    parts = job()
    ended_ns = parts[2].process.started_unix_ns + 2_000_000_000
    again = changed(parts[2], started_unix_ns=ended_ns, pid=9)

    text = said([*parts, again])

    assert "at once" not in text
    assert "Started again, each in a process of its own: rank 2." in text


def test_servers_and_evaluators_count_apart() -> None:
    """Each of them has a number 0, too, and so has whatever role a job has named itself."""
    parts = job()
    others = [
        replace(changed(parts[0], role=role, rank=0), recorded=())
        for role in ("ps", "evaluator", "reader")
    ]

    found = compare_parts([*parts, *others])

    assert "at once" not in "\n".join(found.facts)
    assert found.most_together == 8


def test_versions_that_differ_are_told() -> None:
    """Ranks that run other kernels differ in time and in numbers."""
    parts = job()
    parts[6] = changed(parts[6], tensorflow="2.12.0")

    text = said(parts)

    assert "several versions of TensorFlow: 2.21.0 in" in text
    assert "2.12.0 in rank 6" in text


def test_a_rank_that_was_killed_or_is_behind_is_told() -> None:
    """The others went on, or hang since."""
    parts = job()
    parts[4] = changed(parts[4], state="killed")
    parts[4] = replace(parts[4], steps=(replace(parts[4].steps[0], executed=30),))

    text = said(parts)

    assert "Killed: rank 4." in text
    assert "the middle process made 60 steps, and fewer: rank 4 (30)." in text


def test_several_ranks_that_were_killed_are_told_in_one_sentence() -> None:
    """Two are joined by a word, not by a comma."""
    parts = job()
    parts[4], parts[5] = (changed(parts[at], state="killed") for at in (4, 5))

    assert "Killed: rank 4 and rank 5." in said(parts)


@pytest.mark.parametrize(("state", "is_told"), [("finished", False), ("killed", True)])
def test_a_server_killed_after_its_workers_finished_is_no_fault(state: str, is_told: bool) -> None:
    """A parameter server never ends by itself."""
    parts = [changed(each, state="finished") for each in job()]
    parts[0] = changed(parts[0], role="ps", state="killed")
    parts[1] = changed(parts[1], state=state)

    assert ("Killed: ps 0 and rank 1." in said(parts)) is is_told


def test_machines_of_one_name_are_told() -> None:
    """Their boots tell them apart; people cannot."""
    parts = [changed(each, host="localhost") for each in job()]

    assert "have one name: localhost" in said(parts)


def test_one_process_has_nobody_beside_it() -> None:
    """A world of one."""
    found = compare_parts([rank_part(profile(loops=[timed_loop([1000] * 30)]))])

    assert (found.stragglers, found.figures, found.facts) == ((), (), ())
    assert isinstance(found.waits, Missing)


def test_no_process_is_an_answer_too() -> None:
    """A run in which none has reported yet."""
    assert compare_parts([]).rows == ()


def test_chosen_steps_alone_are_compared() -> None:
    """Figures, traced steps and events are of those."""
    found = compare_parts([limit_to_steps(each, 20, 39) for each in job()])

    assert (found.first_step, found.last_step) == (20, 39)
    assert {each.step for each in found.figures} <= set(range(20, 40))


def test_parameter_servers_tell_bytes_and_who_asks() -> None:
    """A worker of TensorFlow 1 records what it gets from and gives to each."""
    ps, worker = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"
    there = f"{ps}/device:CPU:0"
    rows = [
        row("RecvTensor", 0, 10, Place.HOST, detail=f"[2KB] w from {there} to {worker}/cpu:0"),
        row("RecvTensor", 20, 5, Place.HOST, detail=f"[1KB] g from {worker}/cpu:0 to {there}"),
        row("ApplyGradientDescent", 30, 7, Place.HOST, device=there),
    ]

    found = compare_parts([rank_part(profile([Step(rows)]))]).servers

    assert isinstance(found, Servers)
    [load] = found.loads
    [exchange] = load.exchanges
    assert load.server == ps
    assert (exchange.pulled_bytes, exchange.pushed_bytes) == (2048, 1024)
    assert (load.receiving_ns, load.busy_ns) == (15_000, 7_000)


def test_what_no_recording_tells_of_a_server_is_no_zero() -> None:
    """Ops ran there, but no tensor to or from it was recorded: nobody knows its share."""
    there = "/job:ps/replica:0/task:0/device:CPU:0"

    found = compare_parts(
        [rank_part(profile([Step([row("AssignAdd", 30, 7, Place.HOST, device=there)])]))]
    )
    told = ranks_document(found, "r1")["servers"]

    assert told["imbalance_ratio"] is None
    [load] = told["servers"]
    assert (load["bytes"], load["receiving_ns"], load["busy_ns"]) == (None, None, 7_000)


def test_the_document_has_no_number_that_json_lacks() -> None:
    """NaN and infinity are no JSON, and objects of numpy are none of Python."""
    import json

    text = json.dumps(ranks_document(compare_parts(job()), "r1"), allow_nan=False)

    assert json.loads(text)["schema"] == "tfprobe.ranks/1"


@pytest.mark.parametrize("count", [2, 5])
def test_part_by_part_is_as_the_whole(count: int) -> None:
    """Whoever makes the parts, the rows are the same."""
    loops = [timed_loop([10_000 + at * 100] * 20, process=at, index=0) for at in range(count)]
    made = profile(processes=[process(index=at, rank=at) for at in range(count)], loops=loops)

    rows = compare_parts(rank_parts_of(made)).rows

    assert [each.process.index for each in rows] == list(range(count))
    assert np.allclose([each.mean_ns for each in rows], [10_000 + at * 100 for at in range(count)])


def test_programs_of_their_own_do_not_wait_for_each_other() -> None:
    """Collectives of one name, in steps of one number, are not the same one in two programs."""
    made = recorded({0: [[reduce(0, 100)]] * 2, 1: [[reduce(50, 50)]] * 2})
    parts = [changed(each, rank=None, role=None) for each in rank_parts_of(made)]
    apart = [changed(each, group=at) for at, each in enumerate(parts)]

    assert not isinstance(compare_parts(parts).waits, Missing)
    assert isinstance(compare_parts(apart).waits, Missing)
    assert compare_parts(apart).most_together == 1


def test_the_job_of_several_processes_is_compared() -> None:
    """Another program took more time, and is alone."""
    team_of = job()
    alone = changed(team_of[0], rank=None, role=None, group=99)
    steps = tuple(replace(each, total_ns=10**15) for each in alone.steps)

    found = compare_parts([*team_of, replace(alone, steps=steps)])

    assert found.rows[-1].late == Missing(
        "it does not synchronize with the processes that are compared"
    )
    assert found.stragglers


def test_processes_without_a_rank_are_named_by_program_and_host() -> None:
    """A sentence that begins with a host in capitals reads as if that were a program."""
    parts = [
        changed(part, rank=None, role=None, title=title)
        for part, title in zip(job()[:3], ("prepare.py", "train.py", "export.py"), strict=True)
    ]
    parts[1] = changed(parts[1], state="failed")

    assert "Failed: train.py (pid 4001) on node0." in said(parts)
