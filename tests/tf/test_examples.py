"""The scripts in examples/ run as they are, recorded, and their steps are in the report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tf.laboratory import READ_TIMEOUT_S, Laboratory, Outcome, tfprobe_json
from tests.tf.requirements import need_tensorflow

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STEPS = 20

SCRIPTS = {
    # script: kind of its steps, first and last TensorFlow, how many processes take them
    "mnist_softmax_session.py": ("session_run", (1, 14), (2, 99), 1),
    "keras_fit.py": ("fit", (1, 14), (2, 99), 1),
    "custom_loop.py": ("function", (2, 0), (2, 99), 1),
    "eager_loop.py": ("eager", (2, 0), (2, 99), 1),
    "estimator.py": ("session_run", (1, 14), (2, 15), 1),
    "two_workers.py": ("function", (2, 4), (2, 99), 2),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_examples_print_the_same_and_are_counted(laboratory: Laboratory, script: str) -> None:
    """Each example prints the same loss recorded and bare, and the report has its steps."""
    kind, first, last, workers = SCRIPTS[script]
    need_tensorflow(laboratory, first, last)
    arguments = (str(EXAMPLES / script), "--steps", str(STEPS))

    bare = laboratory.start(*arguments).outcome()
    recorded = laboratory.start(*arguments, record=[]).outcome()

    assert bare.stdout.decode() == recorded.stdout.decode(), recorded.stderr[-3000:]
    assert bare.status == recorded.status == 0
    counts = [loop["count"] for loop in recorded.loops if loop["kind"] == kind]
    assert counts.count(STEPS) >= workers, recorded.loops


@pytest.mark.parametrize("script", SCRIPTS)
def test_parts_of_every_recorded_step_sum_to_its_wall_time(
    laboratory: Laboratory, script: str
) -> None:
    """What `tfprobe breakdown` charges to parts is the time that the agent measured, to 0.1 %.

    Of the time between steps no more than was seen: what watching added is taken out of it.
    """
    _, first, last, _ = SCRIPTS[script]
    need_tensorflow(laboratory, first, last)

    arguments = (str(EXAMPLES / script), "--steps", str(STEPS))
    recorded = laboratory.start(*arguments, record=["--every", "4"]).outcome()

    measured = _measured_us(recorded)
    if not measured:
        pytest.skip("no step of this example can be traced in this TensorFlow")
    document = tfprobe_json("breakdown", str(recorded.run), "--steps")
    steps = [(loop["pid"], step) for loop in document["works"] for step in loop["recorded"]]
    assert len(steps) == len(measured)
    for pid, step in steps:
        step_us, between_us = measured[pid, step["capture"]]
        assert step["step_us"] == pytest.approx(step_us, rel=1e-3)
        assert sum(step["parts_us"].values()) == pytest.approx(step["cycle_us"], rel=1e-3)
        if step["between_us"] is not None:
            assert 0 <= step["between_us"] <= 1.02 * between_us + 5


def test_the_report_of_a_fit_is_one_screen_that_answers_first(laboratory: Laboratory) -> None:
    """At most 60 lines of 80 columns: where the time went, what to change, then the rest."""
    arguments = (str(EXAMPLES / "keras_fit.py"), "--steps", "120")
    recorded = laboratory.start(*arguments, record=[]).outcome()

    command = [sys.executable, "-m", "tfprobe", "report", str(recorded.run)]
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=READ_TIMEOUT_S
    )

    lines = done.stdout.splitlines()
    headings = [line for line in lines if line and not line.startswith(" ")]
    assert len(lines) <= 60, done.stdout
    assert max(map(len, lines)) <= 80
    assert headings[-5:-2] == ["Where the time went", "Where a step goes", "What to change"]


def _measured_us(recorded: Outcome) -> dict[tuple[int, str], tuple[float, float]]:
    """Return how long each traced step and the watched time after it were, in µs.

    By the number of the process and the name of the capture.
    """
    found = {}
    for folder in (path.parent for path in recorded.run.glob("*/*/process.json")):
        pid = int(folder.name.split("-")[0])
        gaps = {(gap["work"], gap["step"]): gap for gap in _lines(folder / "gaps.jsonl")}
        for sample in _lines(folder / "events.jsonl"):
            if sample["event"] != "sample":
                continue
            gap = gaps.get((sample["work"], sample["step"]))
            between_ns = gap["end_ns"] - gap["start_ns"] if gap else 0
            step_ns = sample["end_ns"] - sample["start_ns"]
            found[pid, sample["capture"]] = (step_ns / 1000, between_ns / 1000)
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]
