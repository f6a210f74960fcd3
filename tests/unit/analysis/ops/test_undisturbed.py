"""What ops need for themselves is what they take in the traced step that disturbs them least."""

from __future__ import annotations

from tests.support.profiles import Step, op, profile
from tfprobe.analysis.ops.step_ops import StepOps, step_ops

TINY_NS = 10_000.0


def undisturbed_us(*steps: list) -> float:
    recorded = profile([Step(rows, duration_us=1000) for rows in steps])
    found = step_ops(recorded.executions, recorded.captures, tiny_ns=TINY_NS)
    assert isinstance(found, StepOps)
    return found.undisturbed_ns / 1000


def test_an_op_counts_by_its_shortest_time() -> None:
    """Mul lost its CPU in one step and is tiny in the other."""
    first = [op("MatMul", 0, 50), op("MatMul", 60, 30), op("Mul", 100, 5)]
    other = [op("MatMul", 0, 40), op("Mul", 45, 900), op("MatMul", 950, 33)]

    assert undisturbed_us(first, other) == (40 - 10) + (30 - 10)


def test_an_op_that_is_long_in_each_step_counts_as_it_is() -> None:
    """It would lose its CPU in a function, too."""
    assert undisturbed_us([op("MatMul", 0, 100)], [op("MatMul", 0, 500)]) == 300
    assert undisturbed_us([op("MatMul", 0, 99)], [op("MatMul", 0, 500)]) == 89


def test_one_step_says_what_its_ops_take() -> None:
    """Nothing says which of them were disturbed."""
    assert undisturbed_us([op("MatMul", 0, 50), op("Mul", 60, 400), op("Mul", 500, 3)]) == 440


def test_an_op_of_one_step_alone_counts_there() -> None:
    """On average over the steps."""
    assert undisturbed_us([op("MatMul", 0, 50)], [op("MatMul", 0, 50), op("Mul", 60, 30)]) == 50


def test_it_is_no_more_than_the_time_in_which_ops_run() -> None:
    """Ops that run in parallel end together."""
    assert undisturbed_us([op("MatMul", 0, 100), op("Conv2D", 0, 100)]) == 100
