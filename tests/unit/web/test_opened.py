"""A run is read as far as a page needs it, and what was made of it is kept while it is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.captures import CPU, Node, run_metadata
from tests.support.open_runs import ToldRun
from tests.support.profiles import Step, loop, op, profile
from tests.support.rundir import (
    BOOT_ID,
    HOST,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)
from tfprobe.errors import NoAnswer, UsageError
from tfprobe.profile.reader import followed_captures
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine
from tfprobe.web import answers
from tfprobe.web.opened import OpenRun
from tfprobe.web.params import Params


@pytest.fixture
def run(tmp_path: Path) -> OpenRun:
    process = WrittenProcess(
        loops=[WrittenLoop(steps=regular_steps(10), sampled=[3])],
        events=[{"kind": "sample", "work": 0, "step": 3, "capture": "3.run_metadata.pb"}],
        captures={"3.run_metadata.pb": run_metadata({CPU: [Node("a", 10, 20)]})},
    )
    return OpenRun(RunFolder(write_run(tmp_path / "r1", [process])), Machine(HOST, BOOT_ID))


def test_what_is_made_early_waits_for_no_capture(run):
    """Step times are there while captures are still read: all but captures is the same."""
    early, whole = run.early.refresh(), run.refresh()

    assert early.captures == ()
    assert [each.name for each in early.loops] == [each.name for each in whole.loops]


def test_an_answer_is_made_once(run):
    """While a run has nothing new, nothing is computed twice."""
    run.refresh()
    run.made("key", lambda: "first")

    run.refresh()

    assert run.made("key", lambda: "second") == "first"


def test_the_dearest_sampled_work_is_meant_where_none_is_named():
    """A page shows the loop that there is most to say of."""
    rare, dear = loop([1000], index=0, sampled=1), loop([9000], index=1)
    run = ToldRun(profile([Step([op("MatMul", 0, 1)], loop=0)], loops=[rare, dear]))

    assert run.loop(Params()) is rare
    assert run.early.loop(Params()) is rare
    assert run.loop(Params({"work": "1"})) is dear


def test_a_run_without_steps_has_no_work():
    """The page says so instead of showing nothing."""
    with pytest.raises(NoAnswer, match="No step has been recorded"):
        ToldRun(profile()).loop(Params())


def test_a_document_that_there_is_not_is_no_answer(run):
    """The names that there are stand in the sentence."""
    with pytest.raises(UsageError, match="overview"):
        answers.refresh(run, "../../etc/passwd")


def test_a_document_says_which_captures_were_not_read(tmp_path, monkeypatch):
    """A run of a thousand ranks is shown by its newest captures; step times by all steps."""
    monkeypatch.setattr(followed_captures, "LEAST_BYTES_A_ROW", 0)
    captures = {f"00000{at}-fit-0.run_metadata.pb": step_of(10) for at in range(5)}
    process = WrittenProcess(
        loops=[WrittenLoop(steps=regular_steps(10), sampled=range(5))], captures=captures
    )
    folder = RunFolder(write_run(tmp_path / "large", [process]))
    run = OpenRun(folder, Machine(HOST, BOOT_ID), most_rows=20)
    run.refresh()

    shares = answers.answer(run, "shares", Params())

    assert shares["captures"] == 2
    assert shares["unread"].startswith("Of 5 traced steps the newest 2 are read")
    assert "unread" not in answers.answer(run, "steps", Params())


def step_of(nodes: int) -> bytes:
    return run_metadata({CPU: [Node(f"n{at}", at, 1) for at in range(nodes)]})
