"""The reading commands: one document, one paragraph of error, one exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tfprobe
from tests.support import kineto
from tests.support.captures import CPU, Node, run_metadata
from tests.support.rundir import (
    LAYOUT,
    UNIX_NS,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)
from tfprobe.cli import common
from tfprobe.cli.commands import with_current_names
from tfprobe.cli.main import main
from tfprobe.errors import NoAnswer, UnreadableInput

CAPTURE = {
    "000002-session_run-0.run_metadata.pb": run_metadata({CPU: [Node("a", label="a = X()")]})
}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """An output directory with a silent run and, newer, one with steps and a capture."""
    loop = WrittenLoop(steps=regular_steps(30), sampled=[2])
    process = WrittenProcess(
        loops=[loop], captures=CAPTURE, header={LAYOUT.STATE_WORD: LAYOUT.FINISHED}
    )
    write_run(tmp_path / "runs" / "r1", manifest={"started_unix_ns": UNIX_NS - 1})
    write_run(tmp_path / "runs" / "r2", [process])
    return tmp_path / "runs"


def test_report_defaults_to_the_latest_run(runs, capsys):
    """Without RUN it is the newest run of the output directory."""
    status = main(["report", "-o", str(runs), "--json"])

    document = json.loads(capsys.readouterr().out)
    assert (status, document["run"]["id"]) == (0, "r2")
    assert document["processes"][0]["work"][0]["count"] == 30


def test_report_without_json_is_for_people(runs, capsys):
    """The text names the command and its steps, and has no colour in a pipe."""
    status = main(["report", str(runs / "r2")])

    text = capsys.readouterr().out
    assert (status, "session_run" in text, "\x1b" in text) == (0, True, False)


def test_a_silent_run_is_reported_with_status_1(runs, capsys):
    """Nothing was recorded: the report says why, a shell sees it."""
    status = main(["report", str(runs / "r1"), "--json"])

    document = json.loads(capsys.readouterr().out)
    assert (status, len(document["silences"])) == (1, 1)


def test_tiers_are_four(runs, capsys):
    """What a recording does not tell of a tier is null or left out, and why is said."""
    status = main(["tiers", str(runs / "r2"), "--json"])

    document = json.loads(capsys.readouterr().out)
    (process,) = document["application"]
    assert (status, document["schema"]) == (0, "tfprobe.tiers/1")
    assert [each["name"] for each in process["activities"]] == ["loss,train_op"]
    assert document["framework"]["types"][0]["type"] == "X"
    assert "no accelerator" in document["runtime"]["missing"]
    assert "took no resource sample" in document["hardware"]["processes"][0]["missing"]


def test_tiers_of_a_file_are_framework_and_runtime(tmp_path, capsys):
    """A trace from elsewhere tells of ops and driver calls, and of nothing below or above them."""
    path = tmp_path / "trace.json"
    path.write_bytes(kineto.training())

    status = main(["tiers", str(path), "--json"])

    document = json.loads(capsys.readouterr().out)
    names = {each["name"] for each in document["runtime"]["calls"]}
    assert (status, "cudaLaunchKernel" in names) == (0, True)
    assert document["runtime"]["launches"]["matched"] > 0
    assert "a single file" in document["hardware"]["processes"][0]["missing"]


def test_tiers_of_a_silent_run_are_no_answer(runs, capsys):
    """The status is 1, and why nothing was recorded is said."""
    status = main(["tiers", str(runs / "r1")])

    assert status == 1
    assert "no data for any tier" in capsys.readouterr().err


def test_markdown_goes_to_a_file(runs, tmp_path, capsys):
    """--md writes the file and nothing else."""
    target = tmp_path / "report.md"

    status = main(["report", str(runs / "r2"), "--md", str(target)])

    assert (status, capsys.readouterr().out) == (0, "")
    assert target.read_text().startswith("# `python train.py")


def test_ls_prints_one_document(runs, capsys):
    """Newest first, with state and steps."""
    main(["ls", str(runs), "--json"])

    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "tfprobe.ls/1"
    assert [(run["id"], run["steps"]) for run in document["runs"]] == [("r2", 30), ("r1", 0)]


def test_steps_prints_one_document(runs, capsys):
    """Each work with its latest steps."""
    main(["steps", str(runs / "r2"), "--json", "--last", "3"])

    document = json.loads(capsys.readouterr().out)
    (loop,) = document["work"]
    assert document["schema"] == "tfprobe.steps/1"
    assert [step["step"] for step in loop["recent"]] == [27, 28, 29]


def test_steps_tell_of_all_steps(runs, capsys):
    """Distribution, outliers, trend and phases are in the document beside the latest steps."""
    main(["steps", str(runs / "r2"), "--json"])

    document = json.loads(capsys.readouterr().out)
    (loop,), (process,) = document["work"], document["processes"]
    assert loop["step_times"]["p50_us"] == 1000.0
    assert loop["gap_times"]["p50_us"] == 100.0
    assert loop["slow_steps"]["count"] == 0
    assert loop["trend"]["missing"] == "a trend takes 30 steps"
    assert sum(process["phases"].values()) == process["wall_us"] == 60_000_000.0


def test_steps_of_no_such_work_say_which_there_are(runs, capsys):
    """--loop with a name that nothing has ends with status 1 and the names there are."""
    status = main(["steps", str(runs / "r2"), "--loop", "predict"])

    assert (status, capsys.readouterr().err) == (
        1,
        "tfprobe: No loop has 'predict' in its kind and name. "
        "There are: session_run loss,train_op.\n",
    )


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["report", "no-such-run"], UnreadableInput.exit_code),
        (["ls", "no-such-directory"], UnreadableInput.exit_code),
        (["report", "-o", "empty"], NoAnswer.exit_code),
        (["steps", "-o", "runs", "r1"], NoAnswer.exit_code),
        (["report", "-o", "runs", "r2", "--rank", "3"], NoAnswer.exit_code),
        (["report", "--nonsense"], 2),
        (["steps", "--last", "x"], 2),
    ],
)
def test_an_error_is_one_paragraph_and_a_status(runs, monkeypatch, capsys, arguments, status):
    """Stderr says what was tried on what; stdout stays empty."""
    monkeypatch.chdir(runs.parent)

    found = main(arguments)

    out, err = capsys.readouterr()
    assert (found, out) == (status, "")
    assert err.startswith("tfprobe: ")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_a_closed_pipe_is_quiet(runs):
    """`tfprobe report | head` leaves no traceback."""
    command = [sys.executable, "-m", "tfprobe", "report", str(runs / "r2"), "--json"]
    read_end, write_end = os.pipe()
    os.close(read_end)

    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, check=False)

    os.close(write_end)
    assert done.stderr == b""


def test_open_run_gives_the_same_report(runs, capsys):
    """From Python: tables and the document of --json."""
    recording = tfprobe.open_run(runs / "r2")

    main(["report", str(runs / "r2"), "--json"])
    assert recording.report() == json.loads(capsys.readouterr().out)
    assert (recording.processes[0].pid, recording.loops[0].count) == (4711, 30)
    assert (len(recording.captures), len(recording.profile().executions)) == (1, 1)


@pytest.mark.parametrize(
    ("term", "no_colour", "is_coloured"),
    [("xterm", "", True), ("xterm", "1", False), ("dumb", "", False)],
)
def test_colour_is_for_terminals_that_have_it(monkeypatch, term, no_colour, is_coloured):
    """A dumb one, such as the shell of an editor, would show the codes, and lines would break."""
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("NO_COLOR", no_colour)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)

    assert common.page_colour() is is_coloured


def test_a_dumb_terminal_is_told_of_no_progress(monkeypatch, capsys):
    """What would be taken back when it is over would stay there, with a code behind it."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)

    with common.progress("Reading") as watch:
        watch(1, 2)

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["steps", "op"])
def test_the_former_name_of_an_option_still_works_and_says_so(
    runs: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Scripts that say `--work` get the same answer, and one line that names the new option."""
    answers = {}
    for option in ("--loop", "--work"):
        main([command, str(runs / "r2"), f"{option}=predict"])
        answers[option] = capsys.readouterr()

    assert answers["--work"].out == answers["--loop"].out
    line, rest = answers["--work"].err.split("\n", 1)
    assert line == "tfprobe: --work is deprecated; use --loop."
    assert rest == answers["--loop"].err


def test_what_stands_behind_two_dashes_is_no_option() -> None:
    """A run may be called as a former option is."""
    assert with_current_names(["rm", "--", "--work"]) == (["rm", "--", "--work"], ())
