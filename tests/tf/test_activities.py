"""What real jobs do besides steps is told by name, as often as it was done."""

from __future__ import annotations

import pytest

from tests.tf.laboratory import Laboratory, Outcome
from tests.tf.requirements import need_tensorflow
from tfprobe.errors import Missing
from tfprobe.profile.reader.run_reader import load
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine

WAYS = {
    "keras": ((1, 14), (2, 99)),
    "function": ((2, 0), (2, 99)),
    "session": ((1, 14), (2, 99)),
    "estimator": ((1, 14), (2, 15)),
    "named": ((1, 14), (2, 99)),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_a_job_does_besides_steps_is_counted(laboratory: Laboratory, way: str) -> None:
    """Import, build, compile, trace, train, evaluate, predict, save, callbacks, summary."""
    need_tensorflow(laboratory, *WAYS[way])

    outcome = laboratory.outcomes("activities.py", way)["budget"]

    assert outcome.status == 0, outcome.stderr[-2000:]
    stated = {name: fact["count"] for name, fact in outcome.stated.items()}
    told = _told(outcome)
    assert {name: told.get(name) for name in stated} == stated
    assert [event for event in outcome.events if event["event"] == "error"] == []


def test_a_retrace_lies_in_its_step(laboratory: Laboratory) -> None:
    """A call that traces takes the time of the trace: it can be told from one that runs."""
    need_tensorflow(laboratory, (2, 0))
    outcome = laboratory.outcomes("activities.py", "function")["budget"]

    profile = load(RunFolder(outcome.run), this_machine())

    (loop,) = [loop for loop in profile.loops if loop.name == "retraced"]
    shift_ns = profile.processes[loop.process].unix_minus_monotonic_ns
    assert isinstance(shift_ns, int)
    steps = list(zip(loop.recent.start_ns.tolist(), loop.recent.end_ns.tolist(), strict=True))
    traces = [item for item in profile.activities if item.name == "retraced"]
    assert len(traces) == 4
    for step, trace in zip(steps[::3], traces, strict=True):
        assert step[0] <= trace.start_ns - shift_ns <= trace.end_ns - shift_ns <= step[1]


def test_naming_changes_nothing(laboratory: Laboratory) -> None:
    """What the jobs print is the same recorded and not."""
    for way in ("keras", "session"):
        outcomes = laboratory.outcomes("activities.py", way)

        assert outcomes["bare"].stdout == outcomes["budget"].stdout == outcomes["every"].stdout


def _told(outcome: Outcome) -> dict[str, int]:
    profile = load(RunFolder(outcome.run), this_machine(), with_captures=False)
    # A part of TensorFlow that is loaded when it is first asked for is one more import.
    return {
        f"{item.kind} {item.name}": 1 if item.kind == "import" else item.count
        for item in profile.activities
    }


def test_a_job_tells_what_it_chose_and_used(laboratory: Laboratory) -> None:
    """Settings of TensorFlow, pulses of the process, bytes that a step was fed and gave back."""
    way = "keras" if laboratory.tensorflow >= (2, 0) else "session"
    outcome = laboratory.outcomes("activities.py", way)["every"]

    profile = load(RunFolder(outcome.run), this_machine())

    (process,) = profile.processes
    assert not isinstance(process.settings, Missing)
    assert process.settings["image_data_format"] in ("channels_last", "channels_first", None)
    assert process.settings["eager"] is False
    assert isinstance(process.settings["intra_op_threads"], int)
    assert {capture.result_bytes for capture in profile.captures} & {4, 8}
    assert len(profile.resource_samples) >= 2
    assert profile.resource_samples[-1].steps == sum(loop.executed for loop in profile.loops)
    assert isinstance(profile.resource_samples[0].resident_bytes, int)
