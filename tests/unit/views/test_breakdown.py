"""The parts of sampled step time are charged by priority and sum to 1 exactly."""

from __future__ import annotations

import random

import pytest

from tests.support.profiles import Step, op, profile, work
from tests.support.rundir import UNIX_NS
from tfprobe.errors import Missing
from tfprobe.model.executions import Place
from tfprobe.views.breakdown import Breakdown, divide

TOLERANCE = 1e-5


def parts(*steps: Step, **more) -> Breakdown:
    found = divide(profile(steps, **more))
    assert isinstance(found, Breakdown)
    return found


def test_a_cpu_step_is_host_compute_input_and_the_rest():
    """Without an accelerator the host computes; waiting for the iterator is input."""
    step = Step([op("IteratorGetNext", 0, 20), op("MatMul", 20, 50)], duration_us=100)

    found = parts(step)

    assert found.input == pytest.approx(0.2, abs=TOLERANCE)
    assert found.host_compute == pytest.approx(0.5, abs=TOLERANCE)
    assert found.other == pytest.approx(0.3, abs=TOLERANCE)


def test_what_overlaps_is_charged_once_to_the_device():
    """While a kernel runs, copies and the host are hidden behind it."""
    rows = [
        op("MatMul", 0, 60, Place.ACCELERATOR),
        op("MEMCPYHtoD", 40, 40, Place.HOST_TO_DEVICE),
        op("MEMCPYDtoH", 90, 5, Place.DEVICE_TO_HOST),
        op("MatMul", 0, 100),
    ]

    found = parts(Step(rows, duration_us=100))

    assert found.device_compute == pytest.approx(0.60, abs=TOLERANCE)
    assert found.host_to_device == pytest.approx(0.20, abs=TOLERANCE)
    assert found.device_to_host == pytest.approx(0.05, abs=TOLERANCE)
    assert found.host_compute == pytest.approx(0.15, abs=TOLERANCE)


def test_collectives_are_device_to_device():
    """Time in an all-reduce is communication, not compute."""
    found = parts(Step([op("NcclAllReduce", 0, 30, Place.ACCELERATOR)], duration_us=100))

    assert found.device_to_device == pytest.approx(0.3, abs=TOLERANCE)


def test_ops_on_several_threads_do_not_count_twice():
    """Two ops at the same time take that time once."""
    found = parts(Step([op("MatMul", 0, 50), op("Conv2D", 25, 50)], duration_us=100))

    assert found.host_compute == pytest.approx(0.75, abs=TOLERANCE)


def test_input_workers_are_not_step_time():
    """tf.data prepares the next step meanwhile; only waiting for it is input."""
    found = parts(Step([op("Mul", 0, 90, background=True)], duration_us=100))

    assert found.other == 1.0


def test_waiting_for_others_is_not_compute():
    """A receive waits for another device or host."""
    assert parts(Step([op("_Recv", 0, 90)], duration_us=100)).other == 1.0


def test_rows_outside_the_step_are_cut():
    """A window is a little wider than its step."""
    found = parts(Step([op("MatMul", -10, 60)], duration_us=100))

    assert found.host_compute == pytest.approx(0.5, abs=TOLERANCE)


def test_rows_of_another_clock_are_moved_to_the_step():
    """A trace whose clock is off by an hour still divides its step."""
    late = op("MatMul", 0, 50)._replace(start_ns=UNIX_NS + 3600 * 10**9)

    found = parts(Step([late], duration_us=100))

    assert found.host_compute == pytest.approx(0.5, abs=TOLERANCE)


def test_a_work_weighs_as_much_as_its_steps_took():
    """A work sampled as often as another but with a tenth of its time counts a tenth."""
    steps = [
        Step([op("MatMul", 0, 100)], duration_us=100, work=0),
        Step([op("_Recv", 0, 100)], duration_us=100, work=1),
    ]
    works = [work([900], index=0), work([100], index=1)]

    found = parts(*steps, works=works)

    assert found.host_compute == pytest.approx(0.9, abs=TOLERANCE)


def test_parts_sum_to_one_exactly():
    """However the time falls, no rounding is left over."""
    rng = random.Random(4)
    for _ in range(50):
        rows = [
            op(
                rng.choice(["MatMul", "IteratorGetNext"]),
                rng.randrange(90),
                rng.randrange(40),
                place,
            )
            for place in rng.choices(list(Place), k=rng.randrange(1, 12))
        ]

        found = parts(Step(rows, duration_us=97))

        values = [getattr(found, name) for name in Breakdown.__slots__ if name != "captures"]
        assert sum(values) == 1.0
        assert min(values) >= 0


def test_without_a_sample_there_is_a_reason():
    """A run without captures has no breakdown, and says so."""
    assert divide(profile()) == Missing("no step was sampled")
