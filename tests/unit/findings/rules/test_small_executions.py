"""Small steps of Keras are told where Python between them takes a tenth of the time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.subjects import (
    MS,
    STEPS,
    WHOLE_NS,
    cause,
    found,
    loop,
    ops,
    parts,
    process,
    timing,
)
from tests.support.subjects import line as python_line
from tfprobe.analysis.breakdown.python_lines import GapPython
from tfprobe.analysis.input.step_input import StepInput
from tfprobe.analysis.system.application import ActivityInSteps
from tfprobe.analysis.system.thread_times import StepThreads
from tfprobe.errors import Missing

SMALL = timing(usual_step_ns=1.0 * MS)


def test_a_tenth_between_small_steps_is_told() -> None:
    """With the argument that runs several steps in one call."""
    finding = found("small_executions", loop(timing=SMALL, parts=parts(idle=0.1)))

    assert finding is not None
    assert "steps_per_execution" in finding.action


def test_less_is_not() -> None:
    """What makes the batch does not count: it stays."""
    shares = parts(idle=0.099, host_preprocess=0.5)

    assert found("small_executions", loop(timing=SMALL, parts=shares)) is None


def test_what_is_idle_between_ops_stays() -> None:
    """One call for several steps runs the same ops, with as much time between them."""
    shares = replace(parts(idle=0.3), causes=(cause("idle", "between ops", "", 1.0),))

    finding = found("small_executions", loop(timing=SMALL, parts=shares))

    assert finding is not None
    assert finding.gain.high_ratio == pytest.approx(0.2)


def test_of_single_steps_a_call_the_calls_count_and_not_the_time_between_them() -> None:
    """A server waits for requests there, and has no steps to put into one execution."""
    single = timing(kind="predict", usual_step_ns=1.0 * MS)
    calls = ActivityInSteps("predict", "model.predict", STEPS, WHOLE_NS // 5)
    server = loop(timing=single, parts=parts(idle=0.7), process=process(activities=(calls,)))

    finding = found("small_executions", server)

    assert finding is not None
    assert "steps_per_execution" not in finding.action
    assert round(finding.gain.high_ratio, 6) == 0.2
    idle = replace(calls, own_ns=WHOLE_NS // 20)
    waiting = replace(server, process=process(activities=(idle,)))
    assert found("small_executions", waiting) is None
    whole = replace(server, process=process(activities=(replace(calls, count=STEPS // 2),)))
    finding = found("small_executions", whole)
    assert finding is not None
    assert "steps_per_execution" in finding.action


def test_first_calls_do_not_tell_what_a_call_takes() -> None:
    """A single one, which traces and compiles, is no loop of calls."""
    first = timing(kind="predict", usual_step_ns=2000.0 * MS, steps=1)
    call = ActivityInSteps("predict", "model.predict", 1, WHOLE_NS // 2)
    warmed = loop(timing=first, parts=parts(idle=0.7), process=process(activities=(call,)))

    assert found("small_executions", warmed) is None


def test_a_step_that_waits_for_a_cpu_is_small_all_the_same() -> None:
    """Beside other processes it lasts long, and Python between steps as well."""
    usual = timing(usual_step_ns=20.0 * MS)
    crowded = process(threads=StepThreads(0.1, 0.8, is_alone=False, others=()))

    assert found("small_executions", loop(timing=usual, parts=parts(idle=0.5))) is None
    delayed = loop(timing=usual, parts=parts(idle=0.5), process=crowded)
    assert found("small_executions", delayed) is not None


def test_without_a_sample_the_time_between_steps_counts() -> None:
    """It is measured for every step."""
    unsampled = loop(timing=SMALL, parts=Missing("no step was traced"))

    finding = found("small_executions", unsampled)

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.2


@pytest.mark.parametrize(
    "other",
    [
        timing(usual_step_ns=10.1 * MS),
        timing(usual_step_ns=1.0 * MS, per_execution=32),
        timing(usual_step_ns=1.0 * MS, kind="function"),
    ],
)
def test_others_are_not(other) -> None:
    """Long steps, several in a call, and loops that are not Keras'."""
    assert found("small_executions", loop(timing=other, parts=parts(idle=0.5))) is None


def test_epochs_of_one_batch_have_no_steps_to_put_together() -> None:
    """steps_per_execution joins steps of one epoch."""
    ends = ActivityInSteps("callbacks", "CallbackList.on_epoch_end", STEPS, 1)
    small = loop(timing=SMALL, parts=parts(idle=0.3), process=process(activities=(ends,)))

    finding = found("small_executions", small)

    assert finding is not None
    assert "steps_per_execution" not in finding.action


def test_keras_own_callbacks_and_ready_elements_come_once_for_several_steps() -> None:
    """Slow callbacks are another finding; a pipeline that does not keep up stays what it is."""
    shares = parts(idle=0.3, callbacks=0.2, input_wait=0.1)
    ready = StepInput("Map", 1.0 * MS, "Root::Map", (), keeps_up=True)

    findings = [
        found("small_executions", loop(timing=SMALL, parts=shares, input=each))
        for each in (ready, replace(ready, keeps_up=False))
    ]

    bounds = [round(each.gain.high_ratio, 6) for each in findings if each is not None]
    assert bounds == [0.45, 0.35]


def test_calls_of_single_steps_are_told_however_long_their_steps_are() -> None:
    """The bound is all that they take but for their ops: tracing their pipelines, too."""
    single = timing(kind="predict", usual_step_ns=20.0 * MS)
    calls = ActivityInSteps("predict", "model.predict", STEPS, WHOLE_NS // 5, WHOLE_NS)

    finding = found(
        "small_executions",
        loop(timing=single, process=process(activities=(calls,)), ops=ops(busy_ns=1.0 * MS)),
    )

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.9


def test_what_the_first_call_compiles_is_not_won() -> None:
    """One call for all would compile it, too."""
    single = timing(kind="predict", usual_step_ns=20.0 * MS)
    calls = ActivityInSteps(
        "predict", "model.predict", STEPS, WHOLE_NS // 5, WHOLE_NS, once_ns=WHOLE_NS // 2
    )

    finding = found(
        "small_executions",
        loop(timing=single, process=process(activities=(calls,)), ops=ops(busy_ns=1.0 * MS)),
    )

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.4


@pytest.mark.parametrize(("calls", "is_single"), [(STEPS // 3, True), (STEPS // 4, False)])
def test_calls_of_fit_with_few_steps_are_told_with_their_line(calls: int, is_single: bool) -> None:
    """fit does more around its steps than they are worth, however many are put together."""
    fits = ActivityInSteps("train", "model.fit", calls, WHOLE_NS // 2, WHOLE_NS)
    line = python_line("fit", "train.py:24", "python", 0.5, 1)
    small = loop(timing=SMALL, process=process(activities=(fits,)), python=GapPython((line,), 2))

    finding = found("small_executions", replace(small, parts=parts(idle=0.2)))

    assert finding is not None
    sources = {each.source for each in finding.evidence}
    assert ("train.py:24" in sources) is is_single
    assert ("steps_per_execution" in finding.action) is not is_single


def test_what_waits_for_the_lock_of_the_input_is_not_saved() -> None:
    """Several steps in one call wait for it as long."""
    made = StepInput("Generator", 1.0, "", (), keeps_up=True, python_ns=3.0 * MS)
    small = loop(timing=timing(usual_step_ns=2.0 * MS), parts=parts(idle=0.4))

    alone = found("small_executions", small)
    delayed = found("small_executions", replace(small, input=made))

    assert alone is not None
    assert delayed is not None
    assert (round(alone.gain.high_ratio, 6), round(delayed.gain.high_ratio, 6)) == (0.4, 0.1)
