"""What torch.compile compiles is told, and it compiles what it compiles without a recording."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.tf.laboratory import Laboratory, Outcome, tfprobe_json

JOB = Path(__file__).parent / "jobs" / "recompiling.py"


def outcome_of(laboratory: Laboratory) -> Outcome:
    """Return the outcome of the job; that it prints what it prints bare is asked in test_jobs."""
    return laboratory.outcomes(str(JOB), ways=("bare", "every"))["every"]


def events(laboratory: Laboratory, kind: str) -> list[dict[str, Any]]:
    """Return the events of a kind."""
    return [event for event in outcome_of(laboratory).events if event["event"] == kind]


def line_of(text: str) -> int:
    """Return the number of the first line of the job that has this text."""
    lines = JOB.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_each_compilation_says_which_guard_did_not_hold(laboratory) -> None:
    """By the size of a batch, a type, and a secret, which is masked; a clean function has one."""
    found = [event for event in events(laboratory, "compile") if "backward" not in event["name"]]

    counts = Counter(event["name"].partition(" ")[0] for event in found)
    net = [event for event in found if event["name"] == "Net.forward"]
    scaled = [event for event in found if event["name"] == "scaled"]
    assert counts == {"Net.forward": 5, "clean": 1, "broken": 6, "skipped": 1, "scaled": 8}
    assert [event["first"] for event in net] == [True, False, False, False, False]
    assert [event["step"] for event in net] == [None, 6, 12, 18, 24]
    assert net[1]["guard"].endswith("size mismatch at index 0. expected 4, actual 5")
    assert all("***" in event["guard"] for event in scaled[1:])
    assert "kkk" not in json.dumps(found)
    assert {event["called_at"][0] for event in found} == {str(JOB)}


def test_a_backward_pass_is_compiled_for_itself(laboratory) -> None:
    """PyTorch puts it off until it is needed, and so it has the name of its function."""
    found = [event for event in events(laboratory, "compile") if "backward" in event["name"]]

    assert {event["name"] for event in found} == {"Net.forward, backward"}
    assert len(found) == 5


def test_each_break_says_where_and_why(laboratory) -> None:
    """A print and a value that is read; a break in a loop, and too many compilations, skip all."""
    found = {
        (event["at"][1], event["skipped"]): event["reason"]
        for event in events(laboratory, "graph_break")
    }

    printed, read = line_of("seen by Dynamo"), line_of(".item()")
    looped = line_of("in a loop")
    assert set(found) == {
        (printed, False),
        (read, False),
        (looped, True),
        (line_of("scaled(x, "), True),
    }
    assert "print" in found[printed, False]
    assert "item" in found[read, False]
    assert "limit" in found[line_of("scaled(x, "), True]


def test_compilations_are_activities_and_retraces(laboratory) -> None:
    """The time of each counts as compiling, and each further one as a retrace of its loop."""
    outcome = outcome_of(laboratory)
    lines = [
        line
        for path in outcome.run.glob("*/*/activities.jsonl")
        for line in map(json.loads, path.read_text().splitlines())
        if line["activity"] == "torch_compile"
    ]

    retraces = {loop["name"]: loop["retraces"] for loop in outcome.loops}
    assert sum(line["name"] == "Net.forward" for line in lines) == 5
    assert retraces["SGD"] == 4


def test_advice_names_what_is_compiled_again(laboratory) -> None:
    """And which guard did not hold."""
    document = tfprobe_json("advise", str(outcome_of(laboratory).run))

    (finding,) = [each for each in document["findings"] if each["rule"] == "recompiling"]
    texts = [evidence["text"] for evidence in finding["evidence"]]
    assert "Net.forward, compiled 5 times" in texts
    assert any(text.startswith("args[0] has another size at index 0") for text in texts)
    assert "mark_dynamic" in finding["action"]
