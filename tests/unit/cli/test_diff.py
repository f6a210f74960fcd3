"""`tfprobe diff`: what it prints, and the status that a build ends with."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.support.captures import CPU, Node, run_metadata
from tests.support.rundir import MONO_NS, WrittenLoop, WrittenProcess, write_run
from tfprobe.cli.main import main

NAME = "000002-session_run-0.run_metadata.pb"
CAPTURE = {NAME: run_metadata({CPU: [Node("a", 10, 20, "a = MatMul()")]})}


def steps(step_us: int, *, seed: int, count: int = 200, gap_us: int = 300) -> list[tuple[int, int]]:
    """Return steps of about this length."""
    chance = random.Random(seed)
    found, at_ns = [], MONO_NS
    for _ in range(count):
        end_ns = at_ns + int(step_us * 1000 * chance.uniform(0.95, 1.05))
        found.append((at_ns, end_ns))
        at_ns = end_ns + gap_us * 1000
    return found


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two recordings of a job, one with slower steps, one slower in all, another job, and none."""
    for name, step_us, gap_us, kind in (
        ("one", 1000, 300, "session_run"),
        ("same", 1000, 300, "session_run"),
        ("slower", 1300, 300, "session_run"),
        ("throttled", 1300, 390, "session_run"),
        ("other", 1000, 300, "fit"),
    ):
        timed = steps(step_us, seed=len(name), gap_us=gap_us)
        loop = WrittenLoop(kind=kind, steps=timed, sampled=[2])
        captures = CAPTURE if kind == "session_run" else {}
        write_run(tmp_path / name, [WrittenProcess(loops=[loop], captures=captures)])
    write_run(tmp_path / "silent")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["one", "one"], 0),
        (["one", "same"], 0),
        (["one", "slower"], 0),
        (["one", "same", "--fail-over", "0"], 0),
        (["one", "slower", "--fail-over", "10"], 1),
        (["one", "slower", "--fail-over", "50"], 0),
        (["one", "throttled", "--fail-over", "10"], 0),
        (["one", "throttled", "--fail-over", "10", "--strict"], 1),
        (["slower", "one", "--fail-over", "10"], 0),
        (["one", "slower", "--fail-over", "10", "--on", "memory", "--on", "steps"], 1),
    ],
)
def test_the_status_says_whether_a_build_may_go_on(runs, capsys, arguments, status):
    """1 where step times are significantly longer by more than allowed, else 0."""
    assert main(["diff", "-o", str(runs), *arguments]) == status


def test_the_page_says_why_it_fails(runs, capsys):
    """One line names what grew, by how much, and what is allowed."""
    main(["diff", "-o", str(runs), "one", "slower", "--fail-over", "10"])

    text = " ".join(capsys.readouterr().out.split())
    line = text[text.index("FAIL (steps): the ") :]
    assert "of session_run loss,train_op grew by " in line


def test_no_change_is_said_first(runs, capsys):
    """The first words answer the question."""
    main(["diff", "-o", str(runs), "one", "same"])

    assert capsys.readouterr().out.startswith("No significant change of step times.")


def test_the_document_has_all(runs, capsys):
    """--json prints one document, with the gate's answer."""
    status = main(["diff", "-o", str(runs), "one", "slower", "--fail-over", "10", "--json"])

    document = json.loads(capsys.readouterr().out)
    (loop,) = document["works"]
    assert (status, document["schema"], document["significant"]) == (1, "tfprobe.diff/1", True)
    assert loop["step"]["low"] < 0.3 < loop["step"]["high"]
    assert [(each["on"], each["fails"]) for each in document["gate"]] == [("steps", True)]
    assert (document["cause"], loop["cause"]["whose"]) == ("program", "program")


def test_what_cannot_be_told_is_said(runs, capsys):
    """Where one run each does not tell whose doing it is, neither page nor document claims it."""
    arguments = ["diff", "-o", str(runs), "one", "throttled", "--fail-over", "10"]
    main(arguments)
    text = " ".join(capsys.readouterr().out.split())
    main([*arguments, "--json"])
    document = json.loads(capsys.readouterr().out)

    assert "The cause cannot be determined from one run per side" in text
    assert "undecided (steps): the" in text
    assert (document["cause"], document["works"][0]["cause"]["whose"]) == ("unknown", "unknown")
    assert [each["verdict"] for each in document["gate"]] == ["cannot be told"]


@pytest.fixture
def repeated(tmp_path: Path) -> Path:
    """Three runs of a job, by turns with three whose steps take a fifth longer."""
    for at in range(6):
        is_slower = at % 2
        timed = steps(1200 + at if is_slower else 1000 + at, seed=at)
        loop = WrittenLoop(kind="session_run", steps=timed)
        manifest = {
            "started": f"2026-11-20T20:{at:02}:00+00:00",
            "name": "slow" if is_slower else "usual",
        }
        name = f"{'slow' if is_slower else 'usual'}{at}"
        write_run(tmp_path / name, [WrittenProcess(loops=[loop])], manifest=manifest)
    return tmp_path


SIDES = ["usual0", "usual2", "usual4", "--", "slow1", "slow3", "slow5"]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (SIDES, 0),
        ([*SIDES, "--fail-over", "5"], 1),
        ([*SIDES, "--fail-over", "50"], 0),
        (["--fail-over", "5", *SIDES], 1),
        (["usual0", "usual2", "--", "usual4", "--fail-over", "5"], 0),
        (["usual0", "--", "usual4", "--fail-over", "5"], 0),
        (["--history", "usual4", "--fail-over", "5"], 0),
    ],
)
def test_several_runs_a_side_have_a_status_too(repeated, capsys, arguments, status):
    """Options may stand after `--`; one run on each side of it are a pair."""
    assert main(["diff", "-o", str(repeated), *arguments]) == status


def test_several_runs_are_answered_first(repeated, tmp_path, capsys):
    """As a page, as one document and as Markdown."""
    arguments = ["diff", "-o", str(repeated), *SIDES, "--fail-over", "5"]
    main(arguments)
    page = capsys.readouterr().out
    main([*arguments, "--json"])
    document = json.loads(capsys.readouterr().out)
    main([*arguments, "--md", str(tmp_path / "diff.md")])

    assert page.startswith("session_run loss,train_op: B is slower, the median step is ")
    assert (document["schema"], document["verdict"]) == ("tfprobe.diff-runs/1", "slower")
    assert [run["name"] for run in document["a"]] == ["usual"] * 3
    assert document["in_turns"]
    assert "**FAIL (steps): the " in (tmp_path / "diff.md").read_text()


def test_history_is_the_runs_of_the_job_before(repeated, capsys):
    """Those of its name, oldest first, in its own directory; `--last` takes fewer."""
    main(["diff", "-o", str(repeated), "--history", "slow5", "--json"])
    whole = json.loads(capsys.readouterr().out)
    main(["diff", "-o", str(repeated), "--history", "slow5", "--last", "1", "--json"])
    pair = json.loads(capsys.readouterr().out)

    assert ([run["id"] for run in whole["a"]], whole["b"][0]["id"]) == (["slow1", "slow3"], "slow5")
    assert (pair["schema"], pair["a"]["id"]) == ("tfprobe.diff/1", "slow3")


def test_markdown_goes_to_a_file(runs, tmp_path, capsys):
    """--md writes the file and nothing else; the status is the same."""
    target = tmp_path / "diff.md"

    status = main(
        ["diff", "-o", str(runs), "one", "slower", "--fail-over", "10", "--md", str(target)]
    )

    assert (status, capsys.readouterr().out) == (1, "")
    assert "# session_run loss,train_op: in B the median step is" in target.read_text()
    assert "**FAIL (steps):" in target.read_text()


def test_files_are_compared_too(tmp_path, capsys):
    """Two files from elsewhere have no step times, and their ops are compared."""
    for name, time in (("a.pb", 20), ("b.pb", 40)):
        content = run_metadata({CPU: [Node("a", 10, time, "a = MatMul()")]})
        (tmp_path / name).write_bytes(content)

    status = main(["diff", str(tmp_path / "a.pb"), str(tmp_path / "b.pb"), "--json"])

    (loop,) = json.loads(capsys.readouterr().out)["works"]
    (found,) = loop["ops"]["types"]
    assert status == 0
    assert (found["name"], found["mean_b_us"] - found["mean_a_us"]) == ("MatMul", 20.0)
    assert found["median"] == {"missing": "too few samples to decide"}


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["one", "other"], 1, "no kind of step in common"),
        (["one", "silent"], 1, "B has none"),
        (["one", "nowhere"], 3, "nowhere"),
        (["one"], 2, "one recording was given"),
        (["one", "same", "slower"], 2, "3 recordings were given"),
        (
            [
                "one",
                "--",
            ],
            2,
            "Each side of `--` needs a recording",
        ),
        (["--", "one"], 2, "Each side of `--` needs a recording"),
        (["one", "--", "same", "--", "slower"], 2, "Each side of `--` needs a recording"),
        (["one", "--history", "same"], 2, "--history cannot be combined with other runs"),
        (["--history", "other"], 1, "No earlier run of the same job as other"),
        (
            ["one", "same", "--", "slower", "--fail-over", "5", "--on", "memory"],
            2,
            "--on memory cannot compare several runs",
        ),
        (["one", "same", "--", "other"], 1, "no kind of step in common"),
        (["one", "same", "--on", "op"], 2, "--fail-over"),
        (["one", "same", "--strict"], 2, "--fail-over"),
        (["one", "same", "--fail-over", "-1"], 2, "--fail-over"),
        (["one", "same", "--fail-over", "x"], 2, "--fail-over"),
        (["one", "same", "--fail-over", "nan"], 2, "not a percentage"),
        (["one", "same", "--rank", "3"], 1, "no process of rank 3"),
    ],
)
def test_what_cannot_be_compared_is_said(runs, capsys, arguments, status, words):
    """One paragraph on stderr, a status, and nothing on stdout."""
    found = main(["diff", "-o", str(runs), *arguments])

    out, err = capsys.readouterr()
    assert (found, out) == (status, "")
    assert words in err
    assert err.count("\n") == 1
