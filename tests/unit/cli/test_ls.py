"""`tfprobe ls` over many runs: filters, sizes, odd names, and what is said of an empty answer."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.rundir import LAYOUT, WrittenProcess, write_run
from tfprobe.cli.main import main
from tfprobe.cli.run_filters import STATES
from tfprobe.profile.profile import LIVE_STATES
from tfprobe.runs import liveness

DAY_NS = 24 * 3600 * 10**9


def _write(runs: Path, name: str, /, *, days: int, **manifest: Any) -> Path:
    """Write a finished run that ended so many days ago."""
    ended_ns = time.time_ns() - days * DAY_NS
    process = WrittenProcess(
        header={LAYOUT.STATE_WORD: LAYOUT.FINISHED, LAYOUT.EXIT_WORD: ended_ns}
    )
    return write_run(
        runs / name, [process], manifest={"started_unix_ns": ended_ns - DAY_NS, **manifest}
    )


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs: of today, of ten days ago by bob, and one of which nothing was recorded."""
    folder = tmp_path / "runs"
    _write(folder, "new", days=0)
    labels = {"name": "night, west", "tags": {"lr": "0.1", "api_key": "hidden"}}
    _write(folder, "old", days=10, user="bob", command=["python", "serve.py"], **labels)
    launched_ns = time.time_ns() - 5 * DAY_NS
    write_run(folder / "silent", manifest={"host": "elsewhere", "started_unix_ns": launched_ns})
    return folder


def _listed(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    status = main(["ls", *map(str, arguments), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert (status, document["schema"]) == (0, "tfprobe.ls/1")
    return [run["id"] for run in document["runs"]]


@pytest.mark.parametrize(
    ("arguments", "listed"),
    [
        ((), ["new", "silent", "old"]),
        (("--state", "finished"), ["new", "old"]),
        (("--state", "running,stopped"), []),
        (("--state", "running", "--state", "unknown"), ["silent"]),
        (("--user", "b?b"), ["old"]),
        (("--host", "elsewhere"), ["silent"]),
        (("--command", r"serve\.py$"), ["old"]),
        (("--name", "night, west"), ["old"]),
        (("--name", "night*", "--name", "day"), ["old"]),
        (("--tag", "lr=0.1", "--tag", "api_key"), ["old"]),
        (("--tag", "lr=0.*"), ["old"]),
        (("--tag", "lr=1"), []),
        (("--tag", "lr=0.1", "--tag", "team"), []),
        (("--older", "7d"), ["old"]),
        (("--newer", "7d"), ["new", "silent"]),
        (("--limit", 2), ["new", "silent"]),
        (("--limit", 1, "--older", "7d"), ["old"]),
    ],
)
def test_filters_choose_among_runs(runs, capsys, arguments, listed) -> None:
    """Newest first, as without them; a limit counts what is left."""
    assert _listed(capsys, runs, *arguments) == listed


def test_a_document_tells_user_hosts_size_and_end(runs, capsys) -> None:
    """The size is null unless it was asked for: it takes a walk through the run."""
    main(["ls", str(runs), "--user", "bob", "--json"])
    (plain,) = json.loads(capsys.readouterr().out)["runs"]
    main(["ls", str(runs), "--user", "bob", "--json", "--size"])
    (sized,) = json.loads(capsys.readouterr().out)["runs"]

    assert (plain["user"], plain["hosts"], plain["size_bytes"]) == ("bob", ["node7"], None)
    assert plain["last_active"].startswith(
        time.strftime("%Y-%m-", time.gmtime(time.time() - 10 * 24 * 3600))
    )
    assert sized["size_bytes"] > 0


def test_labels_are_told_and_masked(runs, capsys) -> None:
    """Name and tags have a column where any run has them, and what looks secret is not shown."""
    main(["ls", str(runs), "--json"])
    listed = {run["id"]: run for run in json.loads(capsys.readouterr().out)["runs"]}
    main(["ls", str(runs)])
    text = capsys.readouterr().out
    main(["ls", str(runs), "--user", "ada"])
    without = capsys.readouterr().out

    assert (listed["old"]["name"], listed["old"]["tags"]) == (
        "night, west",
        {"lr": "0.1", "api_key": "***"},
    )
    assert (listed["new"]["name"], listed["new"]["tags"]) == (None, {})
    assert "night, west · " in text
    assert "hidden" not in text
    assert "name" not in without


def test_the_report_tells_labels(runs, capsys) -> None:
    """As text below the command, and in the document of the run."""
    main(["report", str(runs / "old"), "--json"])
    document = json.loads(capsys.readouterr().out)["run"]
    main(["report", str(runs / "old")])

    assert (document["name"], document["tags"]["lr"]) == ("night, west", "0.1")
    assert "night, west · api_key=*** · lr=0.1" in capsys.readouterr().out


def test_an_empty_answer_says_which_filter_left_nothing(runs, capsys) -> None:
    """Status 1, and how many were left after each."""
    status = main(["ls", str(runs), "--state", "finished", "--user", "eve"])

    said = capsys.readouterr()
    assert (status, said.out) == (1, "")
    assert "3 runs, 2 after --state, none after --user" in said.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--state", "dead"), "'dead'"),
        (("--state", ","), "has an empty value"),
        (("--host", ""), "has an empty value"),
        (("--command", "("), "not a valid regular expression"),
        (("--name", " "), "is empty"),
        (("--tag", "=1"), "has no key"),
        (("--older", "-5d"), "use an age such as"),
        (("--newer", "12"), "use an age such as"),
        (("--limit", "0"), "--limit"),
    ],
)
def test_what_is_no_filter_is_refused(runs, capsys, arguments, expected) -> None:
    """Status 2 and one line that says what is expected."""
    status = main(["ls", str(runs), *arguments])

    said = capsys.readouterr().err
    assert (status, len(said.splitlines())) == (2, 1)
    assert expected in said


def test_a_name_with_a_newline_stays_on_its_line(tmp_path, capsys) -> None:
    """Whatever a directory is called, a run is one line and steers no terminal."""
    write_run(tmp_path / "runs" / "two\nlines\x1b[2J")

    status = main(["ls", str(tmp_path / "runs")])

    text = capsys.readouterr().out
    assert (status, len(text.splitlines())) == (0, 2)
    assert "\x1b" not in text


def test_a_run_inside_a_run_is_not_listed(tmp_path, capsys) -> None:
    """A directory of runs that somebody put into a run belongs to that run."""
    write_run(tmp_path / "runs" / "outer")
    write_run(tmp_path / "runs" / "outer" / "inner")

    assert _listed(capsys, tmp_path / "runs") == ["outer"]


def test_states_have_the_same_names_everywhere() -> None:
    """What a filter takes is what a listing shows; rooms that may not import each other agree."""
    assert STATES == liveness.STATES
    assert liveness.LIVE == LIVE_STATES
