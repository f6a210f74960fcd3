"""An eager loop is told where a tenth of the cycle is outside ops."""

from __future__ import annotations

import pytest

from tests.support.subjects import MS, found, loop, ops, parts, process, timing
from tfprobe.errors import Missing

EAGER = timing(kind="eager")


def test_a_tenth_outside_ops_is_told() -> None:
    """Between ops there is only Python, which a function does once."""
    finding = found("eager_loop", loop(timing=EAGER, parts=parts(idle=0.1)))

    assert finding is not None
    assert "@tf.function" in finding.action


def test_less_is_not() -> None:
    """Large ops are no faster in a function."""
    assert found("eager_loop", loop(timing=EAGER, parts=parts(idle=0.099))) is None


def test_dispatch_within_ops_is_won_too() -> None:
    """Of 20 ops each has 10 us in its own time: 200 us of a step of 10 ms, beside 3 ms outside."""
    of_ops = ops(per_step=20.0, busy_ns=5.0 * MS, step_ns=10.0 * MS)

    with_ops = found("eager_loop", loop(timing=EAGER, parts=parts(idle=0.3), ops=of_ops))
    unknown = loop(timing=EAGER, parts=parts(idle=0.3), ops=Missing("no step was traced"))
    without = found("eager_loop", unknown)

    assert with_ops is not None
    assert without is not None
    more_ns = with_ops.gain.high_ns - without.gain.high_ns
    assert more_ns == pytest.approx(0.02 * EAGER.regular_step_ns, rel=1e-6)


def test_functions_that_are_made_to_run_eagerly_are_told() -> None:
    """With the switch that makes them."""
    forced = process(settings={"eager": True})

    finding = found("eager_loop", loop(process=forced, parts=parts(idle=0.2)))

    assert finding is not None
    assert "run_functions_eagerly" in finding.action


def test_a_model_that_is_compiled_to_run_eagerly_is_told() -> None:
    """Its steps are, and functions beside it are not."""
    forced = process(settings={"eager": False, "run_eagerly": True})

    of_model = found(
        "eager_loop", loop(timing=timing(kind="fit"), process=forced, parts=parts(idle=0.2))
    )
    beside = loop(timing=timing(kind="function"), process=forced, parts=parts(idle=0.2))

    assert of_model is not None
    assert "run_eagerly=True" in of_model.action
    assert found("eager_loop", beside) is None


def test_a_function_is_not() -> None:
    """Whatever its steps do outside ops."""
    assert found("eager_loop", loop(parts=parts(idle=0.9))) is None
