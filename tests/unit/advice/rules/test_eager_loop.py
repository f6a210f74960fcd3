"""An eager loop is told where a tenth of the cycle is outside ops."""

from __future__ import annotations

from tests.support.signals import found, loop, parts, process, work

EAGER = loop(kind="eager")


def test_a_tenth_outside_ops_is_told() -> None:
    """Between ops there is only Python, which a function does once."""
    finding = found("eager_loop", work(loop=EAGER, parts=parts(idle=0.1)))

    assert finding is not None
    assert "@tf.function" in finding.action


def test_less_is_not() -> None:
    """Large ops are no faster in a function."""
    assert found("eager_loop", work(loop=EAGER, parts=parts(idle=0.099))) is None


def test_functions_that_are_made_to_run_eagerly_are_told() -> None:
    """With the switch that makes them."""
    forced = process(settings={"eager": True})

    finding = found("eager_loop", work(process=forced, parts=parts(idle=0.2)))

    assert finding is not None
    assert "run_functions_eagerly" in finding.action


def test_a_function_is_not() -> None:
    """Whatever its steps do outside ops."""
    assert found("eager_loop", work(parts=parts(idle=0.9))) is None
