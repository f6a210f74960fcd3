"""Single compilations of JAX are in `tfprobe steps`, its JSON and its page, and in SQL."""

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
