"""`tfprobe diff`: what it prints, and the status that a build ends with."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.support.captures import CPU, Node, run_metadata
from tests.support.rundir import MONO_NS, WrittenProcess, WrittenWork, write_run
from tfprobe.cli.main import main

NAME = "000002-session_run-0.run_metadata.pb"
CAPTURE = {NAME: run_metadata({CPU: [Node("a", 10, 20, "a = MatMul()")]})}


def steps(step_us: int, *, seed: int, count: int = 200) -> list[tuple[int, int]]:
    """Return steps of about this length."""
    chance = random.Random(seed)
    found, at_ns = [], MONO_NS
    for _ in range(count):
        end_ns = at_ns + int(step_us * 1000 * chance.uniform(0.95, 1.05))
        found.append((at_ns, end_ns))
        at_ns = end_ns + 10_000
    return found


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two recordings of a job, one of a slower one, of another job, and a silent run."""
    for name, step_us, kind in (
        ("one", 1000, "session_run"),
        ("same", 1000, "session_run"),
        ("slower", 1300, "session_run"),
        ("other", 1000, "fit"),
    ):
        work = WrittenWork(kind=kind, steps=steps(step_us, seed=len(name)), sampled=[2])
        captures = CAPTURE if kind == "session_run" else {}
        write_run(tmp_path / name, [WrittenProcess(works=[work], captures=captures)])
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
    (work,) = document["works"]
    assert (status, document["schema"], document["significant"]) == (1, "tfprobe.diff/1", True)
    assert work["step"]["low"] < 0.3 < work["step"]["high"]
    assert [(each["on"], each["fails"]) for each in document["gate"]] == [("steps", True)]


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

    (work,) = json.loads(capsys.readouterr().out)["works"]
    (found,) = work["ops"]["types"]
    assert status == 0
    assert (found["name"], found["mean_b_us"] - found["mean_a_us"]) == ("MatMul", 20.0)
    assert found["median"] == {"missing": "too few samples to tell"}


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["one", "other"], 1, "no kind of step in common"),
        (["one", "silent"], 1, "B has none"),
        (["one", "nowhere"], 3, "nowhere"),
        (["one"], 2, "Missing argument"),
        (["one", "same", "--on", "op"], 2, "--fail-over"),
        (["one", "same", "--fail-over", "-1"], 2, "--fail-over"),
        (["one", "same", "--fail-over", "x"], 2, "--fail-over"),
        (["one", "same", "--fail-over", "nan"], 2, "no percentage"),
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
