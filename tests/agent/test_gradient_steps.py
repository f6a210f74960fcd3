"""Eager loops without an optimizer: each gradient of a tape ends a step."""

from __future__ import annotations

import pytest

from tests.support.agent import Laboratory

LOOPS = """
import tensorflow.python.eager.backprop as backprop
import tensorflow.python.eager.context as context
import tensorflow.python.training.optimizer as optimizer_module
optimizer = optimizer_module.Optimizer()
def by_hand():
    with backprop.GradientTape() as tape: pass
    tape.gradient(1, [])
def optimized():
    by_hand()
    optimizer.apply_gradients([])
def beside_a_session():
    by_hand()
    session.run("loss")
def two_optimizers():
    with backprop.GradientTape() as first, backprop.GradientTape() as second: pass
    first.gradient(1, []); second.gradient(1, [])
    optimizer.apply_gradients([]); optimizer.apply_gradients([])
def penalty():
    with backprop.GradientTape() as outer: by_hand()
    outer.gradient(1, [])
def twice():
    with backprop.GradientTape() as first, backprop.GradientTape() as second: pass
    first.gradient(1, []); second.gradient(1, [])
def in_a_graph():
    context._Context._thread_local_data.is_eager = False
    by_hand()
    context._Context._thread_local_data.is_eager = True
"""


@pytest.mark.parametrize(
    ("loop", "turns", "counts"),
    [
        ("by_hand", 7, {"GradientTape": 7}),
        ("by_hand", 4, {}),
        ("penalty", 7, {"GradientTape": 7}),
        ("twice", 7, {"GradientTape": 7}),
        ("optimized", 7, {"Optimizer": 7}),
        ("two_optimizers", 7, {"Optimizer": 14}),
        ("beside_a_session", 7, {"loss": 7}),
        ("in_a_graph", 7, {}),
    ],
)
def test_gradients_are_steps_if_nothing_else_is(
    laboratory: Laboratory, loop: str, turns: int, counts: dict[str, int]
) -> None:
    """A gradient that another tape records, or of a tape entered with one before, ends none."""
    laboratory.arm(trace_level="off")

    laboratory.finish(f"{LOOPS}\nfor turn in range({turns}): {loop}()")

    assert laboratory.counts() == counts


def test_an_optimizer_ends_the_steps_counted_by_gradients(laboratory: Laboratory) -> None:
    """A loop of gradients alone may come first, for example to inspect a model before training."""
    laboratory.arm(trace_level="off")

    laboratory.finish(
        f"{LOOPS}\nfor turn in range(6): by_hand()\nfor turn in range(6): optimized()"
    )

    assert laboratory.counts() == {"GradientTape": 7, "Optimizer": 6}


def test_steps_lie_between_their_gradients(laboratory: Laboratory) -> None:
    """Those that were counted late keep their own times."""
    laboratory.arm(trace_level="off")

    laboratory.finish(f"{LOOPS}\nfor turn in range(7): time.sleep(0.002); by_hand()")

    [loop] = laboratory.steps().loops
    assert len(loop.recent.start_ns) == 7
    assert ((loop.recent.end_ns - loop.recent.start_ns)[1:] > 2_000_000).all()
