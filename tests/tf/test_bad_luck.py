"""Whatever happens to a job or is done by it, it behaves as without tfprobe, and what was recorded
until then is readable.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.tf.laboratory import Laboratory, Outcome
from tests.tf.requirements import need_tensorflow

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

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


def as_bare(bare: Outcome, recorded: Outcome) -> None:
    """Assert that a job printed the same and ended the same, bare and recorded."""
    assert bare.stdout.decode() == recorded.stdout.decode(), recorded.stderr[-3000:]
    assert bare.status == recorded.status, recorded.stderr[-3000:]


def count(outcome: Outcome, kind: str, has: str) -> list[int]:
    """Return the counts of the works of `kind` with `has` in their name, in ascending order."""
    works = [work for work in outcome.work if work["kind"] == kind and has in work["name"]]
    return sorted(work["count"] for work in works)


def test_session_users_notice_nothing(laboratory: Laboratory) -> None:
    """Own trace options and metadata, four threads, wrong feeds, copies, pickles, mocked clocks and
    files, a closed session, an own Session class: all as bare, and every step counted.
    """
    bare, recorded = laboratory.pair("session_bad_luck.py")

    as_bare(bare, recorded)
    assert sum(count(recorded, "session_run", "counted_step")) >= 222
    assert [event for event in recorded.events if event["event"] in ("error", "aside")] == []


def test_disabled_profiling_is_respected(laboratory: Laboratory) -> None:
    """With TF_DISABLE_PROFILING=1 a full trace raises after the step has run, so none is taken."""
    bare, recorded = laboratory.pair("session_bad_luck.py", env={"TF_DISABLE_PROFILING": "1"})

    as_bare(bare, recorded)
    assert sum(count(recorded, "session_run", "counted_step")) > 0


def test_keras_users_notice_nothing(laboratory: Laboratory) -> None:
    """Signatures, copies, pickles, clones, mocked clocks, callbacks that raise, stop or train
    another model: all as bare.
    """
    bare, recorded = laboratory.pair("keras_bad_luck.py")

    as_bare(bare, recorded)
    assert count(recorded, "fit", "") != []


def test_a_users_own_profiler_always_wins(laboratory: Laboratory) -> None:
    """tf.profiler before, around, in the middle of and inside a step, in a Keras callback and in
    TensorBoard's: it never fails because of us and captures what it would have captured.
    """
    need_tensorflow(laboratory, (2, 2))

    bare, recorded = laboratory.pair("profiler_bad_luck.py")

    as_bare(bare, recorded)
    assert sum(count(recorded, "function", "train_step")) == 100


def test_workers_of_a_cluster_survive_their_traces(laboratory: Laboratory) -> None:
    """Two workers train as bare; where TensorFlow's profiler would crash them, no step is traced
    and the run says why.
    """
    need_tensorflow(laboratory, (2, 4))

    bare, recorded = laboratory.pair(str(EXAMPLES / "two_workers.py"), "--steps", "20")

    as_bare(bare, recorded)
    assert count(recorded, "function", "train_step") == [20, 20]
    events = {event["event"] for event in recorded.events if event.get("work") == 0}
    if laboratory.tensorflow < (2, 17):
        assert "sample" in events
    else:
        assert "sample" not in events
        why = {event["why"] for event in recorded.events if event["event"] == "declined"}
        assert any("crashes processes of a cluster" in each for each in why)


def test_a_users_profile_context_always_wins(laboratory: Laboratory) -> None:
    """tf.contrib.tfprof.ProfileContext traces and dumps the same steps as without us."""
    need_tensorflow(laboratory, (1, 14), (1, 15))

    bare, recorded = laboratory.pair("contrib_profiler.py")

    as_bare(bare, recorded)


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
