"""A serial pipeline is told where steps wait for it, with what it lacks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.subjects import MS, found, loop, parts
from tfprobe.analysis.input.step_input import StepInput
from tfprobe.findings.finding import Severity

TUNED = ("Prefetch", "ParallelMapV2", "Cache", "Range")


def _input(*nodes: str, **facts: Any) -> StepInput:
    return StepInput("Map", 1.0 * MS, "Iterator::Root::Map", nodes, **facts)


def test_a_wait_of_two_percent_is_told() -> None:
    """With what to add, in the order of what helps most."""
    waiting = loop(input=_input("Map", "Range"), parts=parts(input_wait=0.02))

    finding = found("dataset_serial", waiting)

    assert finding is not None
    assert finding.action.startswith("Add .prefetch(")
    assert "num_parallel_calls" in finding.action


def test_less_is_not() -> None:
    """A pipeline that is fast enough may be as it is."""
    waiting = loop(input=_input("Map", "Range"), parts=parts(input_wait=0.019))

    assert found("dataset_serial", waiting) is None


def test_a_pipeline_with_everything_is_not() -> None:
    """There is nothing left to add: input_bound says what to look at."""
    waiting = loop(input=_input(*TUNED), parts=parts(input_wait=0.5))

    assert found("dataset_serial", waiting) is None


@pytest.mark.parametrize("unseen", ["is_whole", "is_measured"])
def test_a_pipeline_that_was_not_seen_is_not_judged(unseen: str) -> None:
    """What only its outermost stages are known of may have all of it."""
    waiting = loop(input=_input("Map", **{unseen: False}), parts=parts(input_wait=0.5))

    assert found("dataset_serial", waiting) is None


def test_a_cache_is_not_for_what_never_ends() -> None:
    """Nor for a generator, which may give something else each time."""
    endless = _input("Prefetch", "ParallelMapV2", "Repeat", "Range", may_cache=False)

    assert found("dataset_serial", loop(input=endless, parts=parts(input_wait=0.5))) is None


@pytest.mark.parametrize(("advice", "severity"), [("Do.", Severity.INFO), ("", Severity.CRITICAL)])
def test_the_same_wait_is_loud_once(advice: str, severity: Severity) -> None:
    """Where input_bound says what to do, what else is lacking is a note."""
    waiting = loop(input=_input("Map", "Range", advice=advice), parts=parts(input_wait=0.5))

    finding = found("dataset_serial", waiting)

    assert finding is not None
    assert (finding.severity, finding.part) == (severity, "input")
