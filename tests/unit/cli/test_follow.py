"""`tfprobe report --follow` where there is no terminal: lines, then the report; or documents."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.rundir import (
    LAYOUT,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    steps_bin,
    write_run,
)
from tfprobe.cli.main import main
from tfprobe.cli.read import report

FINISHED = {LAYOUT.STATE_WORD: LAYOUT.FINISHED}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    process = WrittenProcess(loops=[WrittenLoop(steps=regular_steps(3))])
    return write_run(tmp_path / "run", [process])


@pytest.fixture
def then(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Whenever the command sleeps, the next of these things happens."""

    def will(*things: Callable[[], object]) -> None:
        left = iter(things)
        monkeypatch.setattr(report, "time", SimpleNamespace(sleep=lambda _: next(left)()))

    return will


def step(run: Path, count: int, header: Mapping[int, int] | None = None) -> None:
    (path,) = run.glob("*/4711-*/steps.bin")
    with path.open("r+b") as file:
        file.write(steps_bin([WrittenLoop(steps=regular_steps(count))], header))


def test_each_update_is_a_line_and_the_report_comes_last(run, then, capsys):
    """As a log wants it."""
    then(lambda: None, lambda: step(run, 8), lambda: step(run, 9, FINISHED))

    status = main(["report", str(run), "--follow"])

    first, second, third, *report = capsys.readouterr().out.splitlines()
    assert status == 0
    assert first.endswith("unknown · 1 process · 3 steps · session_run loss,train_op p50 1.00 ms"
                          " · 0 captures")  # fmt: skip
    assert " 8 steps " in second
    assert "finished" in third
    assert report[1].startswith("  finished · started")


def test_with_json_each_update_is_a_document_on_a_line(run, then, capsys):
    """The last is the one that the command gives without --follow."""
    then(lambda: step(run, 8), lambda: step(run, 9, FINISHED))

    status = main(["report", str(run), "--follow", "--json"])

    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    main(["report", str(run), "--json"])
    assert (status, [each["run"]["state"] for each in documents]) == (
        0,
        ["unknown", "unknown", "finished"],
    )
    assert documents[-1] == json.loads(capsys.readouterr().out)


def test_a_run_that_is_removed_ends_it_with_its_status(run, then, capsys):
    """One paragraph says which."""
    then(lambda: shutil.rmtree(run))

    status = main(["report", str(run), "--follow"])

    err = capsys.readouterr().err
    assert (status, err.count("\n")) == (3, 1)
    assert f"Run {run} no longer exists." in err


def test_an_interrupt_ends_it_with_130(run, then):
    """As `tail -f` ends."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    then(interrupt)

    assert main(["report", str(run), "--follow"]) == 130


def test_a_run_without_a_step_says_so(tmp_path, capsys):
    """And has the status that the report has."""
    run = write_run(tmp_path / "run", [WrittenProcess(header=FINISHED)])

    status = main(["report", str(run), "--follow"])

    assert (status, " · no step · " in capsys.readouterr().out) == (1, True)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--follow", "--md", "x.md"], "cannot be combined"),
        (["--every", "2"], "--every requires --follow"),
        (["--follow", "--every", "0"], "0"),
    ],
)
def test_what_makes_no_sense_is_refused(run, capsys, options, what):
    """With the status of usage errors."""
    status = main(["report", str(run), *options])

    assert (status, what in capsys.readouterr().err) == (2, True)
