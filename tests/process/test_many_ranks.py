"""Recordings of many ranks as clusters leave them: what is there is told, and what is missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.process.launching import Launcher
from tests.support.captures import CPU, Node, run_metadata
from tests.support.rundir import (
    LAYOUT,
    MONO_NS,
    UNIX_NS,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_process,
    write_run,
)

RANKS, STEPS, SAMPLED = 4, 20, (5, 10)
Write = Callable[[Sequence[WrittenProcess]], Path]
Read = Callable[..., dict[str, Any]]


def _rank(index: int, world: int = RANKS, *, name: str = "", **manifest: Any) -> WrittenProcess:
    """Return a rank with a host of its own, and two traced steps."""
    steps = regular_steps(STEPS)
    files = {f"{step:06}-session_run-0.run_metadata.pb": step for step in SAMPLED}
    place = {"source": "OpenMPI", "index": index, "world": world, "role": "worker"}
    return WrittenProcess(
        pid=4000 + index,
        host=name or f"node{index}",
        loops=[WrittenLoop(steps=steps, sampled=SAMPLED)],
        header={LAYOUT.STATE_WORD: LAYOUT.FINISHED, LAYOUT.EXIT_WORD: UNIX_NS + 60_000_000_000},
        manifest={"rank": place, "boot_id": f"boot-{index}", **manifest},
        events=[_sample(name, step, steps[step]) for name, step in files.items()],
        captures=dict.fromkeys(files, _CAPTURE),
    )


_CAPTURE = run_metadata({CPU: [Node("product", 10, 300, "product = MatMul(a, b)")]})


def _sample(capture: str, step: int, times: tuple[int, int]) -> dict[str, Any]:
    start_ns, end_ns = times
    return {
        "event": "sample",
        "work": 0,
        "step": step,
        "capture": capture,
        "level": "full",
        "why": "every",
        "start_ns": start_ns,
        "end_ns": end_ns,
        "start_unix_ns": start_ns - MONO_NS + UNIX_NS,
        "plain_ns": 1_000_000,
    }


@pytest.fixture
def run(tmp_path: Path) -> Write:
    """Write a run of these ranks."""
    return lambda ranks: write_run(tmp_path / "runs" / "job", ranks)


@pytest.fixture
def read(launcher: Launcher) -> Read:
    """Ask a command about a run; fail where it has no answer."""

    def ask(command: str, run: Path, *flags: str) -> dict[str, Any]:
        ending = launcher.tfprobe(command, run, "--json", *flags)
        assert ending.status == 0, ending.stderr.decode()
        document: dict[str, Any] = json.loads(ending.stdout)
        return document

    return ask


def _problems(report: Mapping[str, Any], where: str = "ranks") -> list[str]:
    return [each["what"] for each in report["problems"] if where in each["where"]]


def _counted(report: Mapping[str, Any]) -> dict[str, int]:
    return {each["type"]: each["occurrences"] for each in report["ops"]}


def test_a_whole_job_has_nothing_to_complain_of(run: Write, read: Read) -> None:
    """All ranks are there once, each step and op of theirs is counted once."""
    report = read("report", run([_rank(index) for index in range(RANKS)]))

    assert report["problems"] == []
    assert [each["rank"] for each in report["processes"]] == [0, 1, 2, 3]
    assert _counted(report) == {"MatMul": RANKS * len(SAMPLED)}


def test_ranks_that_recorded_nothing_are_named(run: Write, read: Read) -> None:
    """A host whose disk was full, or that nobody merged: the others are answered for."""
    report = read("report", run([_rank(index, 8) for index in (0, 2, 3, 7)]))

    assert _problems(report) == ["Of 8 ranks ranks 1, 4-6 recorded nothing that is here."]
    assert _counted(report) == {"MatMul": 4 * len(SAMPLED)}


def test_two_that_claim_one_number_are_both_counted_and_told(run: Write, read: Read) -> None:
    """A TF_CONFIG copied without its index: neither replaces the other."""
    again = _rank(1, name="node9", boot_id="boot-9")

    report = read("report", run([_rank(0), _rank(1), _rank(2), again, _rank(3)]))

    [told] = _problems(report)
    assert told.startswith("2 processes say that they are rank 1: node1/4001-")
    assert "node9/4001-" in told
    assert _counted(report) == {"MatMul": 5 * len(SAMPLED)}


def test_a_role_of_the_jobs_own_is_numbered_apart(run: Write, read: Read) -> None:
    """TF_CONFIG may name any: the reader 1 is no rank 1, and stands for none that is missing."""
    seated = [("reader", 0), ("reader", 1), ("worker", 0), ("worker", 2)]
    known = {"source": "TF_CONFIG", "world": 3}
    places = [{**known, "role": role, "index": index} for role, index in seated]
    path = run([_rank(at, rank=place) for at, place in enumerate(places)])

    report, ranks = read("report", path), read("ranks", path)

    assert _problems(report) == ["Of 3 ranks rank 1 recorded nothing that is here."]
    assert ranks["facts"][0].startswith("Of 3 ranks 1 is not in this run: 1.")
    assert [fact for fact in ranks["facts"] if "at once" in fact] == []
    assert {row["team"] for row in ranks["ranks"]} == {"workers", "reader"}


def test_the_child_of_a_rank_claims_no_number_twice(run: Write, read: Read) -> None:
    """It has the variables of its rank, and steps of its own: nobody's mistake, to any command."""
    child = _rank(1, ppid=4001)
    child.pid = 5001
    path = run([_rank(0), _rank(1), child, _rank(2), _rank(3)])

    report, ranks = read("report", path), read("ranks", path)

    assert _problems(report) == []
    assert len(ranks["ranks"]) == RANKS + 1
    assert [fact for fact in ranks["facts"] if "at once" in fact] == []


def test_hosts_of_one_name_are_told_apart(run: Write, read: Read) -> None:
    """Containers that are all called localhost: each process has a folder of its own."""
    report = read("report", run([_rank(index, name="localhost") for index in range(RANKS)]))

    assert _problems(report) == [
        "4 machines are called localhost, or one was booted again: its ranks are told apart by "
        "their boots."
    ]
    assert len(report["processes"]) == RANKS
    assert _counted(report) == {"MatMul": RANKS * len(SAMPLED)}


def test_different_tensorflows_are_told_with_their_ranks(run: Write, read: Read) -> None:
    """An image that was not updated on one host."""
    ranks = [_rank(0), _rank(1), _rank(2), _rank(3, tensorflow="2.15.1")]

    report = read("report", run(ranks))

    assert _problems(report) == [
        "Its ranks run different TensorFlows: 2.15.1 on rank 3; 2.21.0 on ranks 0-2."
    ]


def test_a_rank_killed_at_half_keeps_what_it_did(run: Write, read: Read) -> None:
    """Its file of steps says ten, the last line of its events is torn."""
    path = run([_rank(0), _rank(1), _rank(2)])
    steps = regular_steps(STEPS // 2)
    half = WrittenProcess(
        pid=4003,
        host="node3",
        loops=[WrittenLoop(steps=steps, sampled=SAMPLED[:1])],
        manifest={**_rank(3).manifest, "pid_started_ticks": 1},
        events=_rank(3).events[:1],
        captures=dict([next(iter(_rank(3).captures.items()))]),
    )
    folder = write_process(path, half)
    with (folder / "events.jsonl").open("a") as events:
        events.write('{"unix_ns": 1795205058, "event": "sam')

    report = read("report", path)

    assert _problems(report) == []
    counts = [each["work"][0]["count"] for each in report["processes"]]
    assert counts == [STEPS, STEPS, STEPS, STEPS // 2]
    assert report["processes"][3]["state"] != "finished"
    assert _counted(report) == {"MatMul": 3 * len(SAMPLED) + 1}


@pytest.mark.parametrize("broken", ["process.json", "steps.bin", "captures"])
def test_a_corrupt_rank_is_named_and_the_others_answered(
    run: Write, read: Read, broken: str
) -> None:
    """Bits of one rank's files are gone: no other rank's number changes."""
    path = run([_rank(index) for index in range(RANKS)])
    whole = read("report", path)
    (folder,) = (path / "node2").iterdir()
    target = next((folder / "captures").iterdir()) if broken == "captures" else folder / broken
    target.write_bytes(b"\xff" * 100)

    report = read("report", path)

    assert any("node2" in each["where"] for each in report["problems"])
    others = [at for at in range(RANKS) if at != 2]
    for at in others:
        assert report["processes"][at] == whole["processes"][at]


def test_answers_are_the_same_whoever_works(run: Write, read: Read) -> None:
    """One process, two, and what is kept of the first time."""
    path = run([_rank(index, 5) for index in range(RANKS)])

    answers = [read("report", path, *flags) for flags in (("--workers", "1"), ("--workers", "2"))]
    answers.append(read("report", path))

    assert answers[0] == answers[1] == answers[2]


def test_one_rank_is_answered_for_alone(run: Write, read: Read) -> None:
    """--rank keeps its numbers, which do not depend on who else is there."""
    path = run([_rank(index) for index in range(RANKS)])

    alone = read("report", path, "--rank", "2")

    assert [each["rank"] for each in alone["processes"]] == [2]
    assert alone["processes"][0] == read("report", path)["processes"][2]
    assert _counted(alone) == {"MatMul": len(SAMPLED)}
