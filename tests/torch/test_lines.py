"""Lines of PyTorch are those that called what took the time, not where functions begin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tf.laboratory import Laboratory, Outcome, as_bare, counted, counts, tfprobe_json
from tfprobe.profile.reader.run_reader import load
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine

JOB = Path(__file__).parent / "jobs" / "lines.py"
# What runs an op, and what its line has.
CALLS = {
    "aten::linear": {"self.first(x)", "self.second(x)"},
    "aten::tanh": {"torch.tanh(x)"},
    # an operator calls no function that PyTorch notes; the gradient of a square multiplies, too
    "aten::mul": {"def forward"},
    "aten::item": {"loss.item()"},
    # the gradient of a call is where it was called
    "TanhBackward0": {"torch.tanh(x)"},
}


def outcomes_of(laboratory: Laboratory) -> dict[str, Outcome]:
    """Return the outcomes of the job, bare and with every other step traced."""
    return laboratory.outcomes(str(JOB), ways=("bare", "every"))


def is_of_job(file: str) -> bool:
    """Say whether this is the job: PyTorch shortens names by the directories of sys.path."""
    return Path(file).name == JOB.name


def text_at(line: int) -> str:
    """Return a line of the job."""
    return JOB.read_text().splitlines()[line - 1].strip()


def test_the_job_is_not_disturbed(laboratory) -> None:
    """Lines are read from the session of the profiler once it has ended."""
    outcomes = outcomes_of(laboratory)

    as_bare(outcomes["bare"], outcomes["every"])
    assert counts(outcomes["every"]) == counted(outcomes["every"])
    assert "error in" not in outcomes["every"].agent_log


@pytest.mark.parametrize("op", CALLS)
def test_an_op_has_the_line_that_called_it(laboratory, op) -> None:
    """Its innermost frame of the job."""
    profile = load(RunFolder(outcomes_of(laboratory)["every"].run), this_machine())

    nodes = [node for nodes in profile.nodes.values() for node in nodes.values() if node.op == op]
    frames = [[frame for frame in node.trace or () if is_of_job(frame.file)] for node in nodes]
    found = [text_at(own[-1].line) for own in frames if own]
    assert {text for text in CALLS[op] if any(text in line for line in found)} == CALLS[op]


def test_what_waits_in_a_step_has_its_line(laboratory) -> None:
    """The finding names the line that sleeps, not the function around it."""
    found: dict[str, Any] = tfprobe_json("advise", str(outcomes_of(laboratory)["every"].run))

    sources = [
        evidence.get("source") or ""
        for finding in found["findings"]
        for evidence in finding["evidence"]
    ]
    lines = [int(line) for file, _, line in (s.rpartition(":") for s in sources) if is_of_job(file)]
    assert "time.sleep(0.004)" in [text_at(line) for line in lines]
