"""`tfprobe advise`: one document, one page, one status; thresholds from flags and tfprobe.toml."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.captures import CPU, Node, run_metadata
from tests.support.rundir import UNIX_NS, WrittenLoop, WrittenProcess, regular_steps, write_run
from tfprobe.cli.main import main
from tfprobe.errors import NoAnswer, UsageError
from tfprobe.findings.engine import advise, top
from tfprobe.recording import open_run

NAME = "000002-session_run-0.run_metadata.pb"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch) -> Path:
    """An output directory with a silent run and, newer, one whose function is traced again."""
    monkeypatch.chdir(tmp_path)
    nodes = [Node("layer/a", 0, 60, label="layer/a = MatMul()")]
    steps = list(regular_steps(30))
    for at in (5, 12, 20):
        steps[at] = (steps[at][0] - 40_000_000, steps[at][1])
    loop = WrittenLoop(steps=steps, sampled=[2], retraces=3)
    process = WrittenProcess(loops=[loop], captures={NAME: run_metadata({CPU: nodes})})
    write_run(tmp_path / "runs" / "r1", manifest={"started_unix_ns": UNIX_NS - 1})
    write_run(tmp_path / "runs" / "r2", [process])
    return tmp_path / "runs"


def _findings(capsys) -> list[str]:
    return [each["rule"] for each in json.loads(capsys.readouterr().out)["findings"]]


def test_it_prints_one_document(runs, capsys) -> None:
    """tfprobe.advise/1, with the run, the findings, what they come to, and what was not checked."""
    status = main(["advise", "-o", str(runs), "--json"])

    document = json.loads(capsys.readouterr().out)
    assert (status, document["schema"]) == (0, "tfprobe.advise/1")
    assert document["run"]["id"] == "r2"
    assert "retracing" in [each["rule"] for each in document["findings"]]
    assert document["together"]["high"] > 0
    assert {"rule", "reason"} == set(document["unchecked"][0])


def test_it_prints_a_page(runs, capsys) -> None:
    """For a person."""
    status = main(["advise", "-o", str(runs)])

    assert status == 0
    assert "A function is retraced repeatedly" in capsys.readouterr().out


def test_it_writes_markdown(runs, capsys, tmp_path) -> None:
    """To a file, and nothing to stdout."""
    status = main(["advise", "-o", str(runs), "--md", str(tmp_path / "advice.md")])

    assert (status, capsys.readouterr().out) == (0, "")
    assert "## " in (tmp_path / "advice.md").read_text()


def test_a_run_without_steps_has_no_advice(runs, capsys) -> None:
    """Status 1, and why."""
    status = main(["advise", "-o", str(runs), "r1"])

    assert status == NoAnswer.exit_code
    assert "no steps" in capsys.readouterr().err


def test_a_threshold_of_the_command_line_holds(runs, capsys) -> None:
    """Above what was found, nothing is told."""
    main(["advise", "-o", str(runs), "--json", "--threshold", "retraces_least=4"])

    assert "retracing" not in _findings(capsys)


def test_a_threshold_of_the_file_holds_unless_the_command_line_says_otherwise(
    runs, capsys, tmp_path
) -> None:
    """As everywhere: flags win."""
    (tmp_path / "tfprobe.toml").write_text("[advice]\nretraces_least = 4\n")

    main(["advise", "-o", str(runs), "--json"])
    of_file = _findings(capsys)
    main(["advise", "-o", str(runs), "--json", "--threshold", "retraces_least=3"])

    assert "retracing" not in of_file
    assert "retracing" in _findings(capsys)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--threshold", "retrace_least=4"], "retraces_least"),
        (["--threshold", "input_ratio=lots"], "not a number"),
        (["--threshold", "input_ratio"], "NAME=VALUE"),
        (["--checkers", "NoSuchChecker"], "AcceleratorUtilizationChecker"),
        (["--checkers", "all", "--json"], "--json"),
    ],
)
def test_a_mistake_is_one_paragraph(runs, capsys, words, told) -> None:
    """Status 2, and what would have been right."""
    status = main(["advise", "-o", str(runs), *words])

    error = capsys.readouterr().err
    assert (status, error.count("\n")) == (UsageError.exit_code, 1)
    assert told in error


def test_a_wrong_table_in_the_file_is_a_mistake(runs, capsys, tmp_path) -> None:
    """It names the file."""
    (tmp_path / "tfprobe.toml").write_text("advice = 3\n")

    status = main(["advise", "-o", str(runs)])

    assert status == UsageError.exit_code
    assert "tfprobe.toml" in capsys.readouterr().err


def test_the_checkers_answer_in_tfprofs_words(runs, capsys) -> None:
    """For a recorded run as for the files of tfprof."""
    status = main(["advise", "-o", str(runs), "--checkers", "ExpensiveOperationChecker,JobChecker"])

    answer = capsys.readouterr().out
    assert status == 0
    assert answer.startswith("\nExpensiveOperationChecker:\ntop 1 operation type: MatMul, cpu: ")
    assert "AcceleratorUtilizationChecker" not in answer


def test_the_checkers_take_a_file(capsys, tmp_path) -> None:
    """A RunMetadata from elsewhere."""
    path = tmp_path / "step.pb"
    path.write_bytes(run_metadata({CPU: [Node("a", 0, 60, label="a = MatMul()")]}))

    status = main(["advise", str(path), "--checkers", "all"])

    assert status == 0
    assert "OperationChecker:" in capsys.readouterr().out


def test_a_file_from_elsewhere_is_advised_on(capsys, tmp_path) -> None:
    """Its traced steps are the loop; what a file does not tell is unchecked."""
    path = tmp_path / "step.pb"
    path.write_bytes(run_metadata({CPU: [Node("a", 0, 60, label="a = MatMul()")]}))

    status = main(["advise", str(path), "--json"])

    document = json.loads(capsys.readouterr().out)
    assert status == 0
    assert [each["rule"] for each in document["findings"]] == ["expensive_ops"]
    assert "threads_oversubscribed" in [each["rule"] for each in document["unchecked"]]


def test_a_report_may_ask_for_the_first_three(runs) -> None:
    """Without graphs and code, from what a profile holds."""
    findings = top(advise(open_run(runs / "r2").profile()))

    assert 1 <= len(findings) <= 3
