"""However a job ends, it ends as without tfprobe, and the steps that it ran are counted."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping

import pytest

from tests.tf.laboratory import Laboratory, Outcome, as_bare, count

# Far more than a job needs to reach its loop on a loaded machine.
REACH_LOOP_S = 300
# TensorFlow itself sometimes crashes, bare, when an interrupt ends the interpreter in mid-step.
ATTEMPTS = 4


def signalled(
    laboratory: Laboratory, case: str, number: int, *, record: list[str] | None
) -> Outcome:
    """Send a signal to a job once it is in its loop; return what is left of it."""
    for _ in range(ATTEMPTS):
        job = laboratory.start("endings.py", case, record=record)
        deadline = time.monotonic() + REACH_LOOP_S
        while b"training" not in job.said():
            assert job.process.poll() is None, job.outcome().stderr
            if time.monotonic() > deadline:
                job.process.kill()  # or it takes a core from all tests that follow
                pytest.fail("the job never reached its loop")
            time.sleep(0.02)  # a file has no event to wait for
        outcome = job.interrupted(number)
        if outcome.status != -signal.SIGSEGV:
            break
    return outcome


ENDINGS: Mapping[str, tuple[int, list[int]]] = {
    # case: exit status, steps recorded in every process
    "returns": (0, [50]),
    "raises": (1, [50]),
    "exits": (3, [50]),
    "os_exits": (7, [50]),
    "kills_itself": (-signal.SIGKILL, [49, 50]),
    "os_exits_in_a_step": (9, [49, 50]),
    "forks_for_numpy": (0, [60]),
    "forks_for_tensorflow": (0, [20, 30, 40]),
    "raw_forks": (0, [60]),
    "spawns": (0, [20, 30, 40]),
}


@pytest.mark.parametrize("case", ENDINGS)
def test_every_end_is_the_jobs_own(laboratory: Laboratory, case: str) -> None:
    """A job that returns, raises, exits, is killed, forks or spawns ends as bare, and the steps it
    took until then are in the report.
    """
    status, steps = ENDINGS[case]

    bare, recorded = laboratory.pair("endings.py", case)

    as_bare(bare, recorded)
    assert recorded.status == status
    counts = count(recorded, "session_run", "main_step")
    if "_in_a_step" in case or case == "kills_itself":
        # The step in which the process died may or may not have been completed in the record.
        assert counts in [[step] for step in steps]
    else:
        assert counts == steps


@pytest.mark.parametrize(
    ("case", "number", "status"),
    [
        ("endless", signal.SIGKILL, -signal.SIGKILL),
        ("endless", signal.SIGTERM, -signal.SIGTERM),
        ("endless", signal.SIGINT, -signal.SIGINT),
        ("endless_and_handles", signal.SIGTERM, 5),
    ],
    ids=["SIGKILL", "SIGTERM", "SIGINT", "SIGTERM-handled"],
)
def test_a_signal_in_mid_training_reaches_the_job(
    laboratory: Laboratory, case: str, number: int, status: int
) -> None:
    """A signal in mid-training does to the job what it does bare; what was recorded is readable."""
    bare = signalled(laboratory, case, number, record=None)
    recorded = signalled(laboratory, case, number, record=["--every", "1"])

    as_bare(bare, recorded)
    # Before Python 3.8 an uncaught KeyboardInterrupt ends with status 1, not by the signal.
    assert recorded.status in ((status, 1) if number == signal.SIGINT else (status,))
    assert count(recorded, "session_run", "main_step")[0] >= 50


def test_forked_processes_name_their_parent(laboratory: Laboratory) -> None:
    """A forked child that trains has a folder of its own, which names its parent's."""
    _, recorded = laboratory.pair("endings.py", "forks_for_tensorflow")

    parents = [event["parent"] for event in recorded.events if event["event"] == "fork"]

    assert len(parents) == 2
    for parent in parents:
        assert len(list(recorded.run.glob(f"*/{parent}/process.json"))) == 1
