"""What a fit of Keras on JAX waits for is named: its steps begin when they have their batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tf.laboratory import Laboratory, Outcome, as_bare, tfprobe_json

JOB = str(Path(__file__).parent / "jobs" / "inputs.py")


@pytest.fixture(scope="module")
def outcomes(laboratory: Laboratory) -> dict[str, Outcome]:
    """The outcomes of the job: bare, and with the default budget."""
    return laboratory.outcomes(JOB, ways=("bare", "budget"))


def test_a_job_prints_and_ends_as_without_a_recording(outcomes) -> None:
    """Losses and all that it prints."""
    as_bare(outcomes["bare"], outcomes["budget"])
    assert outcomes["budget"].stderr == outcomes["bare"].stderr


def test_all_steps_are_counted_and_have_times(outcomes) -> None:
    """Keras reads the loss at the end of an epoch, which is seen on a CPU, too."""
    (loop,) = [loop for loop in outcomes["budget"].loops if loop["name"] == "m_slow"]

    document = tfprobe_json("steps", str(outcomes["budget"].run))

    assert (loop["kind"], loop["count"]) == ("fit", 80)
    (steps,) = [each for each in document["work"] if each["name"] == "m_slow"]
    assert "missing" not in steps["step_times"]


def test_the_generator_is_what_it_waits_for(outcomes) -> None:
    """With the line of the job that it is at."""
    document = tfprobe_json("input", str(outcomes["budget"].run))

    (loop,) = [each for each in document["works"] if each["name"] == "m_slow"]
    assert {source["what"] for source in loop["sources"]} >= {"batches"}
