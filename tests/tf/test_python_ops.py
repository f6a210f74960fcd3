"""Python that ops call runs where no step sees it: its dearest line is told all the same."""

from __future__ import annotations

import json

from tests.tf.laboratory import JOBS, Laboratory


def test_the_line_of_a_generator_is_told(laboratory: Laboratory) -> None:
    """It is the one that makes the batch wait."""
    outcome = laboratory.start("generator.py", record=["--every", "10"]).outcome()

    assert outcome.status == 0, outcome.stderr
    (resource_samples,) = outcome.run.glob("*/*/pulses.jsonl")
    told = [json.loads(line)["thread_times"] for line in resource_samples.read_text().splitlines()]
    guests = [guest for each in told if each is not None for guest in each["guests"]]
    lines = (JOBS / "generator.py").read_text().splitlines()
    own = [lines[line - 1].strip() for file, line, *_ in guests if file.endswith("/generator.py")]
    assert "time.sleep(0.005)" in own
