"""What happens in a real job is in `tfprobe steps`, and `tfprobe diff` tells change from chance."""

from __future__ import annotations

import subprocess
import sys

from tests.tf.laboratory import READ_TIMEOUT_S, Laboratory, Outcome, tfprobe_json

# As many as the job has in tests/tf/jobs/eventful.py.
SAVED_EVERY = 50
SLOW_STEP = 333


def main_loop(outcome: Outcome) -> dict:
    document = tfprobe_json("steps", str(outcome.run))
    return max(document["work"], key=lambda loop: loop["count"])


def test_a_checkpoint_every_fifty_steps_is_told(laboratory: Laboratory) -> None:
    """Gaps before steps 50, 100 ... are long, in that rhythm, because a model is saved."""
    eventful = laboratory.start("eventful.py", record=["--every", "73"]).outcome()

    long_gaps = main_loop(eventful)["long_gaps"]

    rhythms = {(each["every"], each["first"] % each["every"]) for each in long_gaps["periods"]}
    causes = {each["cause"]: each["count"] for each in long_gaps["causes"]}
    assert (SAVED_EVERY, 0) in rhythms, long_gaps
    assert causes.get("save", 0) >= 5, long_gaps


def test_a_slow_step_is_told_and_our_own_are_not(laboratory: Laboratory) -> None:
    """Step 333 waits for half a second; steps that tfprobe traced are never in the list."""
    eventful = laboratory.start("eventful.py", record=["--every", "73"]).outcome()

    slow = main_loop(eventful)["slow_steps"]["longest"]

    steps = [each["step"] for each in slow]
    assert SLOW_STEP in steps[:5], slow
    assert {step for step in steps if step % 73 in (72, 0) and step > 0} == set()


def test_phases_of_a_real_job_sum_to_its_life(laboratory: Laboratory) -> None:
    """Start-up, set-up, steps, checkpoints and end: to the nanosecond the wall time."""
    eventful = laboratory.start("eventful.py", record=["--every", "73"]).outcome()

    (process,) = tfprobe_json("steps", str(eventful.run))["processes"]

    edges = [process["segments"][0][1], *(each[2] for each in process["segments"])]
    assert [each[1] for each in process["segments"]] == edges[:-1]
    assert edges[-1] - edges[0] == round(process["wall_us"] * 1000)
    assert process["phases"]["start-up"] > 0
    assert process["phases"]["steady"] > 0
    assert process["phases"]["checkpoint"] > 0


def test_two_recordings_of_the_same_job_differ_by_chance(laboratory: Laboratory) -> None:
    """Recorded at once, so that the machine is as busy for both: no change, status 0."""
    started = [laboratory.start("paced.py", record=["--every", "80"]) for _ in range(2)]
    one, other = (each.outcome() for each in started)

    done = compared(one, other, "--fail-over", "5")

    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("No significant change of step times.")


def test_a_planted_slowdown_is_found(laboratory: Laboratory) -> None:
    """Eight times the multiplications: the step is slower, its MatMul too, and a build ends."""
    started = [
        laboratory.start("paced.py", "--times", times, record=["--every", every])
        for times, every in (("1", "80"), ("8", "10"))
    ]
    one, other = (each.outcome() for each in started)

    done = compared(one, other, "--fail-over", "20", "--on", "steps", "--on", "op")

    assert done.returncode == 1, done.stdout
    assert "FAIL (steps): the " in done.stdout
    assert "FAIL (op): the time of " in done.stdout


def compared(one: Outcome, other: Outcome, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tfprobe", "diff", str(one.run), str(other.run), *options]
    return subprocess.run(command, capture_output=True, timeout=READ_TIMEOUT_S, text=True)
