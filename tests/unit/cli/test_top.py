"""What the live page asks is answered from run directories as they are, and as they come to be."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.captures import CPU, Node, run_metadata
from tests.support.rundir import (
    HOST,
    LAYOUT,
    UNIX_NS,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)
from tfprobe.cli.main import main
from tfprobe.errors import Missing, TfprobeError
from tfprobe.live.breakdown_cache import BreakdownCache
from tfprobe.live.top.run_source import LiveSource
from tfprobe.live.top.source import Key
from tfprobe.live.watched_runs import Fleet
from tfprobe.runs.liveness import this_machine

CAPTURE = "000003-session_run-0.run_metadata.pb"
EVENTS = (
    {"event": "start", "tensorflow": "2.21.0"},
    {"event": "work", "work": 0, "kind": "session_run", "name": "loss", "thread": "MainThread"},
    {"event": "sample", "work": 0, "step": 3, "capture": CAPTURE, "level": "full", "why": "request",
     "start_ns": 0, "end_ns": 2_000_000, "start_unix_ns": UNIX_NS, "bytes": 2048},
    {"event": "declined", "work": 0, "step": 4, "why": "another profiler", "times": 8},
    {"event": "error", "where": "graphs", "what": "no disk"},
)  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with one traced step."""
    capture = run_metadata(
        {CPU: [Node("layer/MatMul", 0, 900, label="layer/MatMul = MatMul(x, w)")]}
    )
    loop = WrittenLoop(name="loss", steps=regular_steps(20), sampled=(3,))
    process = WrittenProcess(loops=(loop,), events=EVENTS, captures={CAPTURE: capture})
    return write_run(tmp_path / "runs" / "r1", [process])


@pytest.fixture
def key(run: Path) -> Key:
    """Its process."""
    (folder,) = (run / HOST).iterdir()
    return Key(str(run), HOST, folder.name)


def source(directory: Path) -> LiveSource:
    here = this_machine()
    return LiveSource(Fleet(directory, here, latest=BreakdownCache().time_use), here)


def unwatched(_done: int, _count: int) -> None:
    """Nobody looks how far reading is."""


def test_a_look_has_the_rows_of_all_runs(run):
    """With the command, the user and the steps of each."""
    (row,) = source(run.parent).look().runs

    assert row.command == ("python", "train.py", "--epochs", "3")
    assert row.user == "ada"
    assert [process.steps for process in row.processes] == [20]


def test_the_ops_are_those_of_the_newest_captures(run, key):
    """By type, as in the report."""
    table = source(run.parent).ops(key, unwatched)

    assert not isinstance(table, Missing)
    assert [op.type for op in table.types] == ["MatMul"]


def test_the_log_tells_samples_refusals_and_errors(run, key):
    """In words; works and graphs are no news."""
    told = [(each.what, each.text) for each in source(run.parent).notes(key, unwatched)]

    assert told == [
        ("start", "TensorFlow 2.21.0"),
        ("sample", f"step 3 · request · 2.00 ms · 2.00 KiB · {CAPTURE}"),
        ("declined", "step 4 · another profiler · 8 times"),
        ("error", "graphs · no disk"),
    ]


def test_findings_and_report_are_those_of_the_run(run, key):
    """The report is the one that `tfprobe report` prints."""
    asked = source(run.parent)

    assert all(each.subject.pid in (None, 4711) for each in asked.findings(key, unwatched))
    assert "MatMul" in asked.report(key.directory, 100, unwatched)


@pytest.mark.parametrize("asks", ["ops", "findings", "sample", "report"])
def test_a_run_that_has_vanished_is_an_error_in_words(run, key, asks):
    """Whatever is asked of it; the page shows the sentence."""
    asked = source(run.parent)
    shutil.rmtree(run)
    arguments = {"sample": (key, 5), "report": (key.directory, 80, unwatched)}

    with pytest.raises(TfprobeError):
        getattr(asked, asks)(*arguments.get(asks, (key, unwatched)))


def test_a_process_that_has_ended_records_nothing(tmp_path):
    """Who asks it for samples is told why."""
    run = write_run(tmp_path / "r1", [WrittenProcess(header={LAYOUT.STATE_WORD: LAYOUT.FINISHED})])

    (told,) = source(tmp_path).sample(Key(str(run)), 5)

    assert told.startswith("4711: ")


@pytest.mark.parametrize("flag", ["--once", "--json"])
def test_where_there_is_no_run_the_status_is_1(tmp_path, capsys, flag):
    """With what to do."""
    assert main(["top", str(tmp_path), flag]) == 1
    assert "Record one with `tfprobe run -- COMMAND`." in capsys.readouterr().err


def test_one_run_alone_can_be_watched(run, capsys):
    """By its directory, or by its id in the directory of all runs."""
    write_run(run.parent / "r2")

    for words in ([str(run)], ["r1", "-o", str(run.parent)]):
        assert main(["top", *words, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert [each["id"] for each in document["runs"]] == ["r1"]


def test_the_table_has_where_time_goes(run, capsys):
    """Captures of one look are read at once: there is no next look to wait for."""
    assert main(["top", str(run.parent), "--once", "--json"]) == 0

    (process,) = json.loads(capsys.readouterr().out)["runs"][0]["processes"]
    assert process["shares"] is not None


@pytest.mark.parametrize("every", ["0", "-1", "nan", "inf", "1e9", "soon"])
def test_a_pace_that_is_none_is_refused(capsys, every):
    """Looking without rest would be work for the machine of the jobs."""
    assert main(["top", "--every", every]) == 2
    assert "--every" in capsys.readouterr().err
