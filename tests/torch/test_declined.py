"""Steps are counted and not traced where somebody else may use the profiler, and it says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tf.laboratory import Laboratory, Outcome, as_bare, counted, counts

JOB = Path(__file__).parent / "jobs" / "declining.py"
ANOTHER = "another profiler is attached to this process"
DAEMON = "KINETO_USE_DAEMON is set: a daemon may start a trace at any time"
# The variables are those of libkineto and of Nsight Systems; Triton's Proton is a module.
CASES = {
    "daemon": ((), {"KINETO_USE_DAEMON": "1"}, DAEMON),
    "nsys": ((), {"NSYS_PROFILING_SESSION_ID": "7"}, ANOTHER),
    "proton": (("proton",), {}, ANOTHER),
}


def outcomes_of(laboratory: Laboratory, who: str) -> tuple[Outcome, Outcome]:
    """Return the outcomes of the job bare and with every step to be traced."""
    arguments, env, _ = CASES[who]
    return laboratory.pair(str(JOB), *arguments, env=env)


@pytest.mark.parametrize("who", CASES)
def test_steps_are_counted_and_none_is_traced(laboratory, who) -> None:
    """The job prints and ends as bare, and one reason is told for all steps in a row."""
    bare, recorded = outcomes_of(laboratory, who)

    as_bare(bare, recorded)
    if who != "daemon":  # libkineto logs, with times, that it finds none
        assert bare.stderr == recorded.stderr
    assert counts(recorded) == counted(recorded)
    assert [event for event in recorded.events if event["event"] == "sample"] == []
    assert list(recorded.run.glob("*/*/captures/*")) == []
    declined = [event for event in recorded.events if event["event"] == "declined"]
    assert {event["why"] for event in declined} == {CASES[who][2]}
    (loop,) = recorded.loops
    assert sum(event["times"] for event in declined) <= loop["count"]
    # At the 1st, 2nd, 4th ... time in a row: a long job gets a few lines.
    assert len(declined) <= loop["count"].bit_length() + 1
