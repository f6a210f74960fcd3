"""A serial pipeline is told where steps wait for it, with what it lacks."""

from __future__ import annotations

from tests.support.signals import MS, found, parts, work
from tfprobe.advice.signals import Input

TUNED = ("Prefetch", "ParallelMapV2", "Cache", "Range")


def _input(*nodes: str) -> Input:
    return Input("Map", 1.0 * MS, "Iterator::Root::Map", nodes)


def test_a_wait_of_two_percent_is_told() -> None:
    """With what to add, in the order of what helps most."""
    waiting = work(input=_input("Map", "Range"), parts=parts(input_wait=0.02))

    finding = found("dataset_serial", waiting)

    assert finding is not None
    assert finding.action.startswith("Add .prefetch(")
    assert "num_parallel_calls" in finding.action


def test_less_is_not() -> None:
    """A pipeline that is fast enough may be as it is."""
    waiting = work(input=_input("Map", "Range"), parts=parts(input_wait=0.019))

    assert found("dataset_serial", waiting) is None


def test_a_pipeline_with_everything_is_not() -> None:
    """There is nothing left to add: input_bound says what to look at."""
    waiting = work(input=_input(*TUNED), parts=parts(input_wait=0.5))

    assert found("dataset_serial", waiting) is None
