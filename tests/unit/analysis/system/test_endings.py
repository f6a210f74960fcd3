"""How a run ended is said with the process that it was, and why."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.profiles import process
from tfprobe.analysis.system import endings
from tfprobe.profile.profile import Ending, Process, Raised, Run

NOTHING = Ending()
RAISED = Ending(1, exception=Raised("ValueError", "no data", "/x/evaluate.py", 6))


def ended(state: str, ending: Ending = NOTHING, **facts: Any) -> Process:
    return process(state=state, ending=ending, **facts)


def words(state: str, *processes: Process, ending: Ending = NOTHING) -> str:
    return endings.run_state(Run("r", "/r", ("job.sh",), "", state, ending), processes)


def test_of_several_programs_the_one_that_failed_is_named() -> None:
    """The path of an exception alone does not say which process it was, a status says nothing."""
    train = ended("finished", pid=1, title="train.py")
    check = ended("failed", Ending(3), pid=2, title="check.py")
    evaluate = ended("failed", RAISED, pid=3, title="evaluate.py")

    assert words("failed", train, check) == "failed: check.py (pid 2) with exit status 3"
    assert words("failed", train, check, evaluate) == (
        "failed: 2 of 3 processes, first evaluate.py (pid 3): "
        "ValueError: no data (/x/evaluate.py:6)"
    )


def test_a_rank_that_was_killed_is_named() -> None:
    """By its number, and a server by its role."""
    ranks = [ended("killed", rank=rank, role="worker") for rank in range(2)]
    server = ended("killed", rank=0, role="ps")
    gone = ": gone without a note of its end, by a signal, with its machine, or its disk failed"

    assert words("killed", ended("finished", rank=1), server) == f"killed: ps 0{gone}"
    assert words("killed", *ranks) == f"killed: all 2 processes, first rank 0{gone}"
    assert words("killed", *ranks, ending=Ending(signal=9)) == (
        "killed: all 2 processes, first rank 0 by SIGKILL"
    )


@pytest.mark.parametrize(
    ("state", "ending", "expected"),
    [
        ("failed", RAISED, "failed: ValueError: no data (/x/evaluate.py:6)"),
        ("failed", Ending(3), "failed with exit status 3"),
        (
            "killed",
            Ending(),
            "killed: gone without a note of its end, by a signal, with its machine, or its disk "
            "failed",
        ),
        ("killed", Ending(signal=15), "killed by SIGTERM"),
        ("finished", Ending(0), "finished"),
    ],
)
def test_a_single_process_needs_no_name(state: str, ending: Ending, expected: str) -> None:
    """It is the run."""
    assert words(state, ended(state, ending)) == expected
    assert words(state, ending=ending) == expected
