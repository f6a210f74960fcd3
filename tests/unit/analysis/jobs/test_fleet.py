"""A look at many runs becomes rows: each field of a process and a loop, or why there is none."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from tests.support.fleets import process_row, run_row
from tests.support.looks import (
    NOW_NS,
    SECOND_NS,
    device,
    fleet,
    process,
    resource_sample,
    run,
    steps,
)
from tests.support.profiles import timed_loop
from tests.support.rundir import MONO_NS
from tfprobe.analysis.jobs.fleet import ProcessRow, run_rows
from tfprobe.analysis.jobs.job_totals import straggler
from tfprobe.errors import Missing
from tfprobe.profile.profile import Problem
from tfprobe.profile.snapshots import LoopShares, ProcessSnapshot, TraceRequestState
from tfprobe.report.documents.document import published
from tfprobe.report.documents.jobs_document import jobs_document

MS = 10**6
NOTHING = Missing("nothing")


def paced(step_ns: int, **changes) -> ProcessRow:
    """A process whose latest steps all took as long."""
    return process_row(p50_ns=step_ns, trend_ns=(step_ns,) * 24, **changes)


def _row(look: ProcessSnapshot, *machines) -> ProcessRow:
    (row,) = run_rows(fleet(run([look], machines=machines)))
    (found,) = row.processes
    return found


def _at(*loops, since_ns: int = 0, **more) -> ProcessSnapshot:
    """A process a moment after its last step."""
    last_ns = max(int(loop.recent.end_ns[-1]) for loop in loops)
    return process(loops, now_mono_ns=last_ns + since_ns, **more)


def test_a_run_is_shown_with_what_there_is_to_know_of_it():
    """Id, command, where, whose, since when, and what could not be read."""
    problem = Problem("run.json", "cut")

    (row,) = run_rows(fleet(run(problems=(problem,))))

    assert (row.command, row.state) == (("python", "train.py"), "running")
    assert (row.host, row.user, row.problems) == ("node7", "ada", (problem,))
    assert [each.pid for each in row.processes] == [4711]


def test_runs_and_processes_keep_their_order():
    """Whoever looks twice finds them where they were."""
    rows = run_rows(fleet(run([process(pid=2), process(pid=1)], id="b"), run([], id="a")))

    assert [(row.id, [each.pid for each in row.processes]) for row in rows] == [
        ("b", [2, 1]),
        ("a", []),
    ]


def test_completed_steps_are_those_of_all_works():
    """As in every report: a function inside a fit is counted, too; steps that raised are not."""
    fit = steps(50, kind="fit")
    function = dataclasses.replace(steps(200, step_ns=MS, kind="function", index=1), raised=7)

    assert _row(_at(fit, function)).steps == 50 + 193


def test_the_pace_is_that_of_the_busiest_work():
    """Not that of what runs inside its steps, nor both together."""
    fit = timed_loop([9 * MS] * 1000, MS, kind="fit")
    function = timed_loop([MS] * 1000, [9 * MS] * 1000, kind="function", index=1)

    row = _row(_at(function, fit))

    assert row.steps_per_s == pytest.approx(100, rel=0.01)
    assert (row.p50_ns, row.p95_ns, row.trend_ns) == (9 * MS, 9 * MS, (9 * MS,) * 24)
    assert [loop.steps_per_s for loop in row.loops] == pytest.approx([100, 100], rel=0.01)
    assert [loop.p50_ns for loop in row.loops] == [MS, 9 * MS]


def test_threads_that_run_the_same_steps_add_up():
    """Four towers make four times as many steps as one."""
    towers = [steps(1000, kind="session_run", thread=f"t{n}", index=n) for n in range(4)]

    assert _row(_at(*towers)).steps_per_s == pytest.approx(400, rel=0.01)


def test_a_process_whose_steps_stay_away_makes_none():
    """0 steps a second, and how long ago the last one was."""
    row = _row(_at(steps(1000), since_ns=20 * SECOND_NS))

    assert (row.steps_per_s, row.since_last_step_ns) == (0.0, 20 * SECOND_NS)
    assert row.p50_ns == 10 * MS


def test_the_last_step_is_that_of_any_work():
    """A process that evaluates is not idle."""
    fit = steps(10, kind="fit")
    evaluate = steps(100, kind="evaluate", index=1)

    assert _row(_at(fit, evaluate, since_ns=7)).since_last_step_ns == 7


def test_a_process_without_steps_has_no_pace():
    """Before its first step there is nothing to tell but that it is there."""
    row = _row(process([]))

    assert (row.steps, row.state, row.loops) == (0, "running", ())
    paces = (row.steps_per_s, row.p50_ns, row.p95_ns, row.trend_ns, row.since_last_step_ns)
    assert all(isinstance(each, Missing) for each in paces)


def test_where_all_steps_raised_there_is_no_pace():
    """Nothing was completed, but the process is not idle."""
    loop = steps(5)
    raised = dataclasses.replace(loop.recent, raised=np.ones(5, dtype=np.bool_))
    loop = dataclasses.replace(loop, raised=5, recent=raised)

    row = _row(_at(loop, since_ns=3))

    assert (row.steps, row.since_last_step_ns) == (0, 3)
    assert isinstance(row.steps_per_s, Missing)
    assert isinstance(row.p50_ns, Missing)


def test_a_process_that_could_not_be_read_says_why():
    """Whatever its steps.bin is."""
    row = _row(
        process([], now_mono_ns=NOTHING, request=NOTHING, resource_samples=(), hooks=NOTHING)
    )

    fields = (row.steps_per_s, row.since_last_step_ns, row.samples_left, row.overhead_ratio)
    assert fields == (NOTHING,) * 4


def test_cores_are_cpu_time_by_wall_time_between_the_last_two_pulses():
    """User and system time."""
    resource_samples = (
        resource_sample(at_ns=NOW_NS - 10 * SECOND_NS, user_ns=0, system_ns=0),
        resource_sample(at_ns=NOW_NS - 2 * SECOND_NS, user_ns=SECOND_NS, system_ns=SECOND_NS),
        resource_sample(
            at_ns=NOW_NS, user_ns=6 * SECOND_NS, system_ns=2 * SECOND_NS, resident_bytes=9
        ),
    )

    row = _row(process(resource_samples=resource_samples))

    assert (row.cpus_used, row.resident_bytes) == (3.0, 9)


@pytest.mark.parametrize(
    "resource_samples",
    [
        (),
        (resource_sample(),),
        (resource_sample(), resource_sample(user_ns=NOTHING)),
        (resource_sample(), resource_sample()),
        (resource_sample(at_ns=0, user_ns=10**12), resource_sample(user_ns=5)),
    ],
    ids=["none", "one", "untold", "at once", "less than before"],
)
def test_cores_are_not_made_up(resource_samples):
    """It takes two pulses that make sense together."""
    assert isinstance(_row(process(resource_samples=resource_samples)).cpus_used, Missing)


def test_accelerators_are_those_of_the_machine():
    """The mean of their utilisation and the sum of their memory, as told last, by whomever."""
    old = resource_sample(process=None, host="node7", devices=(device(utilization_ratio=1.0),))
    new = resource_sample(
        process=None,
        host="node7",
        devices=(device(), device(index=1, utilization_ratio=0.25, memory_used_bytes=NOTHING)),
    )
    other = resource_sample(process=None, host="node8", devices=(device(utilization_ratio=0.0),))

    row = _row(process(), old, new, other)

    assert (row.gpu_ratio, row.gpu_memory_bytes) == (0.5, 1 << 30)
    assert isinstance(_row(process(), other).gpu_ratio, Missing)


@pytest.mark.parametrize("state", ["finished", "killed"])
def test_a_process_that_has_ended_uses_nothing_and_makes_no_steps(state):
    """What it did last is not what it does."""
    machine = resource_sample(process=None, host="node7", devices=(device(),))

    row = _row(
        process(
            state=state, resource_samples=(resource_sample(at_ns=0, user_ns=0), resource_sample())
        ),
        machine,
    )

    used = (row.cpus_used, row.resident_bytes, row.gpu_ratio, row.gpu_memory_bytes)
    rates = (row.steps_per_s, row.loops[0].steps_per_s)
    assert {getattr(each, "reason", each) for each in used + rates} == {"the process has ended"}


@pytest.mark.parametrize(
    ("request_", "left"),
    [
        (TraceRequestState(0, 0, 0), 0),
        (TraceRequestState(3, 3, 7), 7),
        (TraceRequestState(3, 3, 0), 0),
    ],
    ids=["nobody asked", "some", "all taken"],
)
def test_samples_left_are_those_of_the_latest_order(request_, left):
    """None where nobody has asked."""
    assert _row(process(request=request_)).samples_left == left


@pytest.mark.parametrize("request_", [TraceRequestState(4, 3, 0), TraceRequestState(3, 3, -5)])
def test_an_order_not_yet_seen_tells_no_samples(request_):
    """Nor do words that are garbage."""
    assert isinstance(_row(process(request=request_)).samples_left, Missing)


def test_the_overhead_is_that_of_the_report():
    """By the agent's own measure, since the start."""
    row = _row(_at(steps(100)))

    assert row.overhead_ratio == pytest.approx((1_000_000 + 100 * 500 + 5000) / 10**9)


def test_the_document_has_every_field_in_us():
    """What `tfprobe top --json` prints."""
    shares = LoopShares(0.5, 0.25, 0.125, 0.125, 3, NOW_NS)
    look = _at(steps(1000), since_ns=5 * MS, shares=shares, request=TraceRequestState(1, 1, 2))

    told = json.loads(json.dumps(published(jobs_document(fleet(run([look]))))))

    assert (told["schema"], told["dir"], told["at_unix_us"]) == (
        "tfprobe.top/1",
        "/runs",
        NOW_NS / 1000,
    )
    (found,) = told["runs"]
    assert (found["command"], found["state"], found["missing"]) == (
        ["python", "train.py"],
        "running",
        {},
    )
    (row,) = found["processes"]
    assert (row["p50_us"], row["since_last_step_us"], row["samples_left"]) == (10_000, 5_000, 2)
    assert len(row["trend_us"]) == 24
    assert row["shares"]["before"] == 0.5
    assert (row["goodput_ratio"], row["account"]["wall_us"]) == (0.75, 60_000_000)
    assert row["account"]["parts"][0] == {"part": "productive", "us": 45_000_000}
    assert [loop["count"] for loop in row["work"]] == [1000]


def test_the_document_says_why_something_is_missing():
    """null, and the reason beside it."""
    look = process([], now_mono_ns=NOTHING, shares=NOTHING, wall_time=NOTHING, resource_samples=())
    lost = run([look], host=NOTHING, command=NOTHING)

    told = jobs_document(fleet(lost, problems=(Problem(".", "closed"),)))

    (found,) = told["runs"]
    (row,) = found["processes"]
    assert (found["host"], found["missing"]["host"], found["command"]) == (None, "nothing", None)
    assert (row["steps_per_s"], row["missing"]["steps_per_s"]) == (None, "nothing")
    assert (row["shares"], row["missing"]["shares"]) == (None, "nothing")
    assert (row["account"], row["missing"]["account"]) == (None, "nothing")
    assert (row["goodput_ratio"], row["missing"]["goodput_ratio"]) == (None, "nothing")
    assert told["problems"] == [{"where": ".", "what": "closed"}]


def test_rows_do_not_need_a_clock_that_agrees():
    """A moment before the last step tells 0 ns since it, never less."""
    assert _row(process([steps(100)], now_mono_ns=MONO_NS)).since_last_step_ns == 0


def test_only_processes_of_one_group_are_slow_beside_each_other() -> None:
    """A long step of another program holds nobody up."""
    rows = [paced(10 * MS, pid=pid, group=0) for pid in (1, 2, 3)]
    other = paced(90 * MS, pid=4, group=4)
    slow = paced(20 * MS, pid=5, group=0)

    assert straggler(run_row("r1", *rows, other)) is None
    assert straggler(run_row("r1", *rows, other, slow)) == slow


def test_a_process_that_was_slow_once_is_not_a_slow_process() -> None:
    """Neither is one of which too few steps are known."""
    rows = [paced(10 * MS, pid=pid) for pid in (1, 2, 3)]
    once = process_row(
        pid=4, p50_ns=20 * MS, trend_ns=(10 * MS, 10 * MS, 10 * MS, 10 * MS, 90 * MS)
    )
    short = process_row(pid=5, p50_ns=20 * MS, trend_ns=(20 * MS,) * 4)
    ended = paced(20 * MS, pid=6, state="finished")

    assert straggler(run_row("r1", *rows, once, short, ended)) is None
