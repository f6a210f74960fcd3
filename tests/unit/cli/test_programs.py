"""A run of several programs: each process is called by its command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.rundir import (
    LAYOUT,
    UNIX_NS,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)
from tfprobe.cli.main import main

MS, S = 1_000_000, 1_000_000_000
STEP = "train_step"


def process(pid: int, command: str, *, step_ms: int = 10, **manifest: Any) -> WrittenProcess:
    """Return a process that made 60 steps of this length."""
    loop = WrittenLoop(
        "function", STEP, steps=regular_steps(60, step_ns=step_ms * MS, gap_ns=2 * MS)
    )
    return WrittenProcess(
        pid=pid, loops=[loop], manifest={"argv": ["python", *command.split()], **manifest}
    )


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal in which no name is cut."""
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """A script of three programs, one of them twice with other arguments, the last much slower."""
    return write_run(
        tmp_path / "pipeline",
        [
            process(10, "prepare.py"),
            process(20, "train.py --lr 0.1", step_ms=10),
            process(30, "train.py --lr 0.2", step_ms=11),
            process(40, "evaluate.py", step_ms=90),
        ],
    )


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """Three workers that a server forked, of which one is slower."""
    return write_run(
        tmp_path / "server",
        [
            process(10 + at, "serve.py", step_ms=10 + 40 * (at == 2), interpreter_pid=9)
            for at in range(3)
        ],
    )


def text_of(capsys, *words: str) -> str:
    assert main(list(words)) == 0
    return " ".join(capsys.readouterr().out.split())


def document_of(capsys, *words: str) -> Any:  # Any: a JSON document
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("command", ["report", "ranks", "steps"])
def test_processes_are_called_by_their_commands(pipeline, capsys, command: str) -> None:
    """A pid tells nobody which of the programs it was."""
    text = text_of(capsys, command, str(pipeline))

    for named in ("prepare.py (pid 10)", "train.py --lr 0.1 (pid 20)", "evaluate.py (pid 40)"):
        assert named in text


@pytest.mark.parametrize(("command", "rows"), [("report", "processes"), ("ranks", "ranks")])
def test_documents_name_programs(pipeline, capsys, command: str, rows: str) -> None:
    """Beside the pid."""
    found = document_of(capsys, command, str(pipeline))[rows]

    assert [each["program"] for each in found] == [
        "prepare.py",
        "train.py --lr 0.1",
        "train.py --lr 0.2",
        "evaluate.py",
    ]


def test_the_table_of_processes_names_programs(pipeline, capsys) -> None:
    """For queries over a grid search."""
    query = "select program from processes where pid = 30"

    assert "train.py --lr 0.2" in text_of(capsys, "sql", str(pipeline), query)


@pytest.mark.parametrize("run", ["pipeline", "server"])
def test_what_is_no_rank_is_not_slow(run, request, capsys) -> None:
    """Other programs, and workers that a program forks, take what time they need."""
    found = document_of(capsys, "ranks", str(request.getfixturevalue(run)))

    assert found["stragglers"] == []
    assert {each["late"] for each in found["ranks"]} == {None}


def test_no_page_asks_for_collectives_of_what_is_no_job(pipeline, capsys) -> None:
    """There is nobody to wait for."""
    text = text_of(capsys, "ranks", str(pipeline))

    assert "No process is compared with another" in text
    assert "Who waits for whom" not in text


def test_the_same_command_in_parallel_is_compared(tmp_path, capsys) -> None:
    """Four that somebody started side by side, one of them slow."""
    steps = (10, 10, 10, 20)
    many = [process(at, "train.py", step_ms=each) for at, each in enumerate(steps, 1)]

    found = document_of(capsys, "ranks", str(write_run(tmp_path / "r1", many)))

    assert [each["process"] for each in found["stragglers"]] == [3]


def test_the_same_command_again_is_not_compared(tmp_path, capsys) -> None:
    """What ran one after the other shared no time."""
    many = [
        process(
            at,
            "train.py",
            step_ms=10 + 10 * (at == 3),
            started_unix_ns=UNIX_NS + at * 3600 * S,
        )
        for at in range(1, 4)
    ]
    header = {each.pid: UNIX_NS + each.pid * 3600 * S + 60 * S for each in many}
    ended = [
        WrittenProcess(
            each.pid,
            loops=each.loops,
            manifest=each.manifest,
            header={LAYOUT.EXIT_WORD: header[each.pid]},
        )
        for each in many
    ]

    found = document_of(capsys, "ranks", str(write_run(tmp_path / "r1", ended)))

    assert found["stragglers"] == []


def test_a_crowd_is_told_by_programs(tmp_path, capsys) -> None:
    """Of a grid search nobody is slower than the others, whatever it computes."""
    many = [
        process(at, f"train.py --units {at}", step_ms=10 * at, rank=None) for at in range(1, 12)
    ]

    text = text_of(capsys, "report", str(write_run(tmp_path / "grid", many)))

    assert "train.py function train_step 11" in text
    assert "times the median step" not in text


@pytest.mark.parametrize("command", ["steps", "breakdown", "memory", "advise"])
def test_absent_ranks_are_told_where_ranks_are_asked_for(tmp_path, capsys, command: str) -> None:
    """No other command repeats it: no part of the recording is lost."""
    rank = {"source": "TF_CONFIG", "index": 0, "world": 2, "role": "worker"}
    run = write_run(tmp_path / "r1", [process(10, "train.py", rank=rank)])

    main([command, str(run)])
    others = capsys.readouterr().err
    main(["report", str(run)])

    assert "could not be used" not in others
    assert "rank 1 recorded nothing" in capsys.readouterr().out


def test_ranks_of_other_tasks_of_a_process_are_not_absent(tmp_path, capsys) -> None:
    """It serves them itself."""
    rank = {"source": "tf.train.Server", "index": 0, "world": 2, "role": "worker"}
    rank["serves"] = [{"role": "worker", "index": 1}]
    run = write_run(tmp_path / "r1", [process(10, "train.py", rank=rank)])

    report, ranks = text_of(capsys, "report", str(run)), text_of(capsys, "ranks", str(run))

    assert "recorded nothing" not in report
    assert "not in this run" not in ranks


def test_a_parameter_server_needs_no_steps(tmp_path, capsys) -> None:
    """It is there by its role."""
    place = {"source": "tf.train.Server", "index": 0, "world": 1, "role": "ps"}
    server = WrittenProcess(pid=9, manifest={"rank": place})
    run = write_run(tmp_path / "r1", [server, process(10, "train.py")])

    text = text_of(capsys, "report", str(run))

    assert "ps 0" in text
    assert "ran no step" not in text
