"""Jobs of PyTorch run as without tfprobe, and all of their steps are counted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.tf.laboratory import WAYS, Laboratory, Outcome, as_bare, counted, counts

JOBS = Path(__file__).parent / "jobs"
NAMES = (
    "annotations.py",
    "by_hand.py",
    "by_hand_compiled.py",
    "compiling.py",
    "inference.py",
    "interrupted.py",
    "keras_models.py",
    "profiling.py",
    "recompiling.py",
    "training.py",
    "whole_steps.py",
)
BY_BUDGET = ("by_hand.py", "inference.py", "keras_models.py", "profiling.py", "training.py")
RECORDED = [(name, "every") for name in NAMES] + [(name, "budget") for name in BY_BUDGET]
# Time, process and place of a line that PyTorch logs.
_LOGGED = re.compile(r"^(USDT:|[EWI]\d{4} )[^\]]*\]", re.MULTILINE)


def outcomes(laboratory: Laboratory, name: str) -> dict[str, Outcome]:
    """Return the outcomes of a job: bare, traced, and of some with the budget."""
    return laboratory.outcomes(
        str(JOBS / name), ways=WAYS if name in BY_BUDGET else ("bare", "every")
    )


@pytest.mark.parametrize(("name", "way"), RECORDED)
def test_a_job_prints_and_ends_as_without_a_recording(laboratory, name, way) -> None:
    """Weights bit for bit, the job's own traces, compiled graphs, copies, pickles and threads."""
    found = outcomes(laboratory, name)

    as_bare(found["bare"], found[way])
    assert _LOGGED.sub("", found[way].stderr) == _LOGGED.sub("", found["bare"].stderr)


@pytest.mark.parametrize(("name", "way"), RECORDED)
def test_every_step_is_counted(laboratory, name, way) -> None:
    """By the program's own count: accumulation, several optimizers, skipped updates, evaluation."""
    outcome = outcomes(laboratory, name)[way]

    known = counted(outcome)

    assert {name: count for name, count in counts(outcome).items() if name in known} == known


@pytest.mark.parametrize("name", NAMES)
def test_the_agent_has_no_error(laboratory, name) -> None:
    """It says so in its log and in an event."""
    outcome = outcomes(laboratory, name)["every"]

    assert "error in" not in outcome.agent_log
    assert [event for event in outcome.events if event["event"] in ("error", "aside")] == []


def test_the_process_says_which_frameworks_it_uses(laboratory) -> None:
    """PyTorch alone: nothing of TensorFlow is loaded for it."""
    outcome = outcomes(laboratory, "inference.py")["budget"]

    (process,) = [json.loads(path.read_text()) for path in outcome.run.glob("*/*/process.json")]

    assert list(process["frameworks"]) == ["torch"]
    assert process["tensorflow"] is None
    assert process["devices"][0]["type"] == "CPU"


def test_a_save_is_an_activity_with_its_line(laboratory) -> None:
    """Under whichever of its names torch.save is called."""
    outcome = outcomes(laboratory, "inference.py")["budget"]

    (path,) = outcome.run.glob("*/*/activities.jsonl")
    noted = [json.loads(line) for line in path.read_text().splitlines()]

    (save,) = [each for each in noted if each["activity"] == "save"]
    code = (JOBS / "inference.py").read_text().splitlines()
    assert (save["name"], save["count"]) == ("torch.save", 1)
    assert "torch.save(" in code[save["line"] - 1]


def test_steps_are_traced_and_their_modules_have_paths(laboratory) -> None:
    """Each capture names the file of its modules, with the attribute path of each."""
    outcome = outcomes(laboratory, "inference.py")["every"]

    traced = [event for event in outcome.events if event["event"] == "sample"]
    graphs = {path.name: path for path in outcome.run.glob("*/*/graphs/*.modules.json")}
    known = {}
    for event in traced:
        document = json.loads(graphs[f"{event['graph']}.modules.json"].read_text())
        known.update({module["path"]: module for module in document["modules"]})

    assert {loop["kind"] for loop in outcome.loops} == {"optimizer_step", "forward"}
    assert {"0", "1", "2", ""} <= set(known)
    assert known["0"]["class"] == "Linear"
    assert known["0"]["parameters"] == [
        ["weight", [64, 32], "float32"],
        ["bias", [64], "float32"],
    ]


def test_steps_of_optimizers_in_turn_are_traced(laboratory) -> None:
    """All are due at once: none may take the place of another that waits for its step."""
    outcome = outcomes(laboratory, "training.py")["every"]

    traced = {loop["name"] for loop in outcome.loops if loop["sampled"]}

    assert {"Pair", "Pair 2"} <= traced


def test_the_profiler_of_the_job_comes_first(laboratory) -> None:
    """From its preparation to its end no step is traced, and the reason is told."""
    outcome = outcomes(laboratory, "profiling.py")["every"]

    reasons = {event["why"] for event in outcome.events if event["event"] == "declined"}

    assert "the job is profiling" in reasons
    assert any(event["event"] == "profiling" for event in outcome.events)
    assert any(event["event"] == "sample" for event in outcome.events)
