"""What the processes page tells of few and of many."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.open_runs import ToldRun
from tests.support.profiles import loop, process, profile, timed_loop
from tests.support.rundir import MONO_NS, UNIX_NS
from tests.support.tiers import SECOND_NS, activity, device_resource_sample, resource_sample
from tfprobe.errors import Missing, UsageError
from tfprobe.profile.profile import Loop, Process, Profile
from tfprobe.web.pages import processes
from tfprobe.web.params import Params

MS = 1_000_000


def told(made: Profile, **arguments: str) -> dict[str, Any]:
    document = processes.document(ToldRun(made), Params(arguments))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    return document


def ranks(count: int, **changes: Any) -> tuple[Process, ...]:
    offset_ns = UNIX_NS - MONO_NS
    return tuple(
        process(
            index=at,
            rank=at,
            pid=4000 + at,
            host=f"node{at // 8}",
            unix_minus_monotonic_ns=offset_ns,
            **changes,
        )
        for at in range(count)
    )


def stepped(process: int, steps_ms: Sequence[float], **changes: Any) -> Loop:
    return timed_loop([round(each * MS) for each in steps_ms], process=process, **changes)


def test_a_process_is_told_with_its_work_and_what_it_used() -> None:
    """The rate is from the first step to the last, pauses included."""
    busy = {"cpus": 8, "cpu_limit": 2.0, "memory_limit_bytes": 64, "machine_memory_bytes": 128}
    resource_samples = [
        resource_sample(at, user_ns=at * SECOND_NS, system_ns=0, peak_resident_bytes=32, **busy)
        for at in range(3)
    ]

    (row,) = told(
        profile(loops=[stepped(0, [9] * 10, gaps_ns=MS)], resource_samples=resource_samples)
    )["processes"]

    assert (row["host"], row["pid"], row["state"]) == ("node7", 4711, "finished")
    assert (row["work"], row["work_title"], row["steps"]) == (0, "session_run loss", 10)
    assert row["steps_per_s"] == pytest.approx(10 / 0.099)
    assert (row["p50_ns"], row["p95_ns"]) == (9 * MS, 9 * MS)
    assert (row["cores_busy"], row["usable_cpus"]) == (1, 2)
    assert (row["peak_bytes"], row["memory_limit_bytes"]) == (32, 64)


def test_what_is_not_known_of_a_process_has_its_reason() -> None:
    """Never a zero."""
    (row,) = told(profile(processes=[process(hooks=Missing("a file"))]))["processes"]

    assert row["work"] is None
    for name in ("steps_per_s", "p50_ns", "overhead_ratio", "cores_busy", "peak_bytes"):
        assert row[name] is None
        assert row["missing"][name]


def test_the_dearest_work_of_several_processes_is_compared() -> None:
    """A loop of one process alone is not, however dear."""
    loops = [
        stepped(0, [10, 10]),
        stepped(1, [10, 20]),
        stepped(0, [900], index=1, name="alone"),
    ]

    document = told(profile(loops=loops, processes=ranks(2)))

    assert [each["name"] for each in document["groups"]] == ["loss"]
    found = document["ranks"]
    assert (found["name"], found["first_step"], found["steps_per_column"]) == ("loss", 0, 1)
    assert [lane["cells"] for lane in found["lanes"]] == [[1, 0.6667], [1, 1.3333]]
    assert [lane["work"] for lane in found["lanes"]] == [0, 1]


def test_of_several_threads_the_busiest_stands_for_its_process() -> None:
    """A process is one row."""
    loops = [stepped(0, [10]), stepped(0, [10, 10], index=1), stepped(1, [10, 10])]

    lanes = told(profile(loops=loops, processes=ranks(2)))["ranks"]["lanes"]

    assert [(lane["process"], lane["work"]) for lane in lanes] == [(0, 1), (1, 2)]


def test_one_process_is_compared_with_nobody() -> None:
    """With the reason in place of a map."""
    found = told(profile(loops=[loop()]))["ranks"]

    assert found["lanes"] == []
    assert "nothing to compare" in found["missing"]


def test_lives_count_from_the_first_moment_of_all() -> None:
    """Bars are what a process did, steps among them."""
    activities = (
        activity("import", "tensorflow", 0, 10),
        activity("import", "tensorflow", 5, 20, process=1),
    )

    document = told(profile(processes=ranks(2), activities=activities))

    assert document["start_unix_ns"] == UNIX_NS
    lives = document["lives"]
    assert [life["rank"] for life in lives] == [0, 1]
    assert lives[1]["bars"][0]["kind"] == "import"
    assert lives[1]["bars"][0]["start_ns"] == 5 * MS


def test_hardware_is_that_of_a_host_or_of_all() -> None:
    """Curves of several stand on one axis of time."""
    resource_samples = [
        resource_sample(at, process=number, resident_bytes=100 + number, user_ns=at, system_ns=0)
        for at in range(3)
        for number in (0, 9)
    ]
    machine = [
        resource_sample(
            at,
            process=None,
            host=host,
            devices=(device_resource_sample(), device_resource_sample(1)),
        )
        for at in range(3)
        for host in ("node0", "node1")
    ]
    made = profile(processes=ranks(16), resource_samples=(*resource_samples, *machine))

    both, one = told(made)["hardware"], told(made, host="node1")["hardware"]

    assert both["hosts"] == one["hosts"] == ["node0", "node1"]
    assert [line["rank"] for line in both["processes"]["resident_bytes"]["lines"]] == [0, 9]
    assert [line["rank"] for line in one["processes"]["resident_bytes"]["lines"]] == [9]
    assert (len(both["devices"]), len(one["devices"])) == (4, 2)
    assert one["accelerators"]["utilization_ratio"]["lines"][0]["values"] == [0.5] * 3


def test_a_machine_without_accelerators_says_so() -> None:
    """The reason is NVML's absence."""
    hardware = told(profile())["hardware"]

    assert "NVML" in hardware["missing"]["devices"]
    assert "took no resource sample" in hardware["missing"]["processes"]


@pytest.mark.parametrize("arguments", [{"measure": "x"}, {"work": "77"}, {"host": "<b>"}])
def test_nonsense_is_refused(arguments: dict[str, str]) -> None:
    """With a sentence."""
    with pytest.raises(UsageError):
        told(profile(loops=[loop()]), **arguments)


def test_thousands_of_processes_are_cut() -> None:
    """What is left out is counted."""
    many = tuple(process(index=at, pid=at + 1, host="<script>" + "y" * 200) for at in range(2_500))

    document = told(profile(processes=many))

    assert (len(document["processes"]), document["more_processes"]) == (2_000, 500)
    assert (len(document["lives"]), document["more_lives"]) == (256, 2_244)
