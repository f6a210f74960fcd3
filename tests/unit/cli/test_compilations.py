"""Single compilations, and breaks of graphs, are in `tfprobe steps`, its JSON and page, and SQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.asked_tables import asked
from tests.support.rundir import (
    LAYOUT,
    MONO_NS,
    UNIX_NS,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)
from tfprobe.cli.main import main
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine
from tfprobe.web import answers
from tfprobe.web.opened import OpenRun
from tfprobe.web.params import Params

MS = 1_000_000
ROWS = {"argument": "x", "what": "shape", "before": "float32[8,3]", "after": "float32[5,3]"}


def compiled(step: int, *, xla_ms: int, **facts: Any) -> dict[str, Any]:
    """Return the event of a compilation that began with its step."""
    return {
        "event": "compile",
        "work": 0,
        "step": step,
        "name": "train_step",
        "count": 1,
        "start_ns": MONO_NS + 10 * step * MS,
        "trace_ns": 2 * MS,
        "lower_ns": None,
        "xla_ns": xla_ms * MS,
        "cached": None,
        "first": False,
        "changed": None,
        "changes": None,
        "called_at": ["/home/ada/train.py", 31],
        **facts,
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose function is compiled, also for another shape and after caches were cleared."""
    events = [
        compiled(0, xla_ms=90, first=True),
        compiled(7, xla_ms=60, changed=[ROWS], changes=1, cached=False),
        compiled(9, xla_ms=3, changed=[], changes=0, cached=True),
    ]
    loop = WrittenLoop(kind="jit", name="train_step", steps=regular_steps(30))
    process = WrittenProcess(
        loops=[loop], events=events, header={LAYOUT.STATE_WORD: LAYOUT.FINISHED}
    )
    return write_run(tmp_path / "run", [process])


def test_the_text_lists_them_in_order(run, capsys, monkeypatch) -> None:
    """When, in which step, the time of each stage, and why."""
    monkeypatch.setenv("COLUMNS", "120")

    main(["steps", str(run)])

    _, _, text = capsys.readouterr().out.partition("Compilations\n")
    rows = [line.split(maxsplit=11) for line in text.splitlines()]
    assert text.splitlines()[0].strip() == "3 took 159 ms; 1 came from a cache on disk."
    assert [" ".join(row[2:]) for row in rows[2:]] == [
        "0 train_step 2.00 ms – 90.0 ms new function",
        "7 train_step 2.00 ms – 60.0 ms x float32[8,3] → float32[5,3]",
        "9 train_step 2.00 ms – 3.00 ms (cached) no argument differs",
    ]


def test_the_document_has_all_of_each(run, capsys) -> None:
    """A stage that was not needed, and a cache that was not looked into, are null."""
    main(["steps", str(run), "--json"])

    found = json.loads(capsys.readouterr().out)["compilations"]
    assert [each["step"] for each in found] == [0, 7, 9]
    assert found[1] == {
        "host": "node7",
        "pid": 4711,
        "work": 0,
        "step": 7,
        "name": "train_step",
        "compiler": "XLA",
        "start_unix_ns": UNIX_NS + 70 * MS,
        "duration_us": 62000.0,
        "trace_us": 2000.0,
        "lower_us": None,
        "backend_us": 60000.0,
        "cached": False,
        "first": False,
        "why": "x float32[8,3] → float32[5,3]",
        "changes": [ROWS],
        "changes_left_out": 0,
        "file": "/home/ada/train.py",
        "line": 31,
    }
    assert (found[0]["cached"], found[0]["changes"]) == (None, None)


def test_another_loop_has_none_of_them(run, capsys) -> None:
    """`--loop` keeps those of the chosen loops."""
    main(["steps", str(run), "--json", "--loop", "train_step"])
    chosen = json.loads(capsys.readouterr().out)
    status = main(["steps", str(run), "--json", "--loop", "eval"])

    assert len(chosen["compilations"]) == 3
    assert status == 1
    assert "compilations" not in json.loads(capsys.readouterr().out)


def test_sql_has_a_row_of_each(run) -> None:
    """With what differs as JSON."""
    query = (
        "select work, step, name, start_ns, duration_ns, trace_ns, lower_ns, backend_ns, cached, "
        "first, why, changes->0->>'after', file, line from compilations where step < 9"
    )

    _, rows = asked(query, run)

    place = ("/home/ada/train.py", 31)
    assert rows == [
        (0, 0, "train_step", UNIX_NS, 92 * MS, 2 * MS, None, 90 * MS, None, True,
         "new function", None, *place),
        (0, 7, "train_step", UNIX_NS + 70 * MS, 62 * MS, 2 * MS, None, 60 * MS, False, False,
         "x float32[8,3] → float32[5,3]", "float32[5,3]", *place),
    ]  # fmt: skip


def test_the_page_has_the_longest_first(run) -> None:
    """Times since the start of the process: a script holds no Unix time in ns exactly."""
    opened = OpenRun(RunFolder(run), this_machine())

    found = answers.answer(opened, "steps", Params({}))["compilations"]

    assert found["count"] == 3
    assert [row["step"] for row in found["rows"]] == [0, 7, 9]
    assert [row["since_start_ns"] for row in found["rows"]] == [0, 70 * MS, 90 * MS]


def broken(step: int | None, line: int, **facts: Any) -> dict[str, Any]:
    """Return the event of a graph that torch.compile ended."""
    return {
        "event": "graph_break",
        "work": None if step is None else 0,
        "step": step,
        "name": "forward",
        "reason": "Failed to trace builtin operator: `print`",
        "at": ["/home/ada/net.py", line],
        "skipped": False,
        **facts,
    }


@pytest.fixture
def torch_run(tmp_path: Path) -> Path:
    """Two loops of PyTorch: a graph breaks before the first step, and in steps of both."""
    torch = {"compiler": "torch.compile", "backend_ns": 90 * MS, "xla_ns": None}
    before = compiled(0, xla_ms=0, name="forward", work=None, **torch)
    events = [
        before | {"step": None},
        broken(None, 14),
        compiled(7, xla_ms=0, name="forward", guard="0/0: len(xs) == 2", **torch),
        broken(7, 14),
        broken(7, 20, skipped=True, name="log", reason="print in a loop"),
        broken(3, 30, work=1, name="evaluate"),
    ]
    loops = [
        WrittenLoop(kind="optimizer_step", name="SGD", steps=regular_steps(30)),
        WrittenLoop(kind="forward", name="Net", steps=regular_steps(9)),
    ]
    process = WrittenProcess(
        loops=loops, events=events, header={LAYOUT.STATE_WORD: LAYOUT.FINISHED}
    )
    return write_run(tmp_path / "torch", [process])


def test_the_text_lists_each_line_that_breaks_once(torch_run, capsys, monkeypatch) -> None:
    """With PyTorch's reason; the most frequent first."""
    monkeypatch.setenv("COLUMNS", "120")

    main(["steps", str(torch_run)])

    _, _, text = capsys.readouterr().out.partition("Graph breaks\n")
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert rows == [
        "4, each counted in every compilation.",
        "function at times why",
        "forward net.py:14 2 Failed to trace builtin operator: `print`",
        "log net.py:20 1 runs uncompiled: print in a loop",
        "evaluate net.py:30 1 Failed to trace builtin operator: `print`",
    ]


def test_the_page_has_those_of_its_loop(torch_run) -> None:
    """And what was compiled before any loop was known, as for the finding."""
    opened = OpenRun(RunFolder(torch_run), this_machine())

    training, evaluation = (
        answers.answer(opened, "steps", Params({"work": work})) for work in ("0", "1")
    )

    breaks = training["graph_breaks"]
    assert (breaks["count"], breaks["rows"][1]) == (
        2,
        {
            "step": 7,
            "name": "log",
            "source": "/home/ada/net.py:20",
            "count": 1,
            "reason": "print in a loop",
            "skipped": True,
        },
    )
    assert [(row["step"], row["count"]) for row in breaks["rows"]] == [(None, 2), (7, 1)]
    assert [row["name"] for row in evaluation["graph_breaks"]["rows"]] == ["forward", "evaluate"]
    assert [row["step"] for row in training["compilations"]["rows"]] == [None, 7]
    assert [row["step"] for row in evaluation["compilations"]["rows"]] == [None]


def test_without_a_break_there_is_no_table(run) -> None:
    """JAX has none."""
    opened = OpenRun(RunFolder(run), this_machine())

    assert "graph_breaks" not in answers.answer(opened, "steps", Params({}))
