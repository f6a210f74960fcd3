"""Overhead is what the agent measured of itself over the time the process lived."""

from __future__ import annotations

import pytest

from tests.support.profiles import HOOKS, loop, process
from tfprobe.analysis.steps.recent_steps import Overhead, recording_overhead
from tfprobe.errors import Missing


def test_hooks_and_traces_are_charged():
    """Mean hook call times steps, folds, what is done once, and traced steps."""
    found = recording_overhead(process(), [loop([5] * 200)])

    assert isinstance(found, Overhead)
    assert (found.hook_ns, found.traced_ns) == (200 * 500 + 1_000 + 4_000, 1_000_000)
    assert found.fraction_ratio == (105_000 + 1_000_000) / 1_000_000_000


def test_works_of_other_processes_are_not_charged():
    """Each process carries its own cost."""
    found = recording_overhead(process(), [loop([5] * 200, process=1)])

    assert isinstance(found, Overhead)
    assert found.hook_ns == 5_000


def test_unmeasured_calls_are_said():
    """A short job ends before the agent has measured a call: the report says how many."""
    hooks = HOOKS.__class__(0, 0, 1_000, 4_000, 0, 10**9)

    found = recording_overhead(process(hooks=hooks), [loop([5] * 20)])

    assert isinstance(found, Overhead)
    assert (found.hook_ns, found.unmeasured_calls) == (5_000, 20)


def test_without_steps_bin_there_is_a_reason():
    """A process whose steps.bin is lost has no overhead, and says why."""
    assert recording_overhead(process(hooks=Missing("gone")), []) == Missing("gone")


@pytest.mark.parametrize(("state", "is_known"), [("finished", True), ("killed", False)])
def test_a_process_without_steps_has_a_cost_only_if_its_end_is_known(state, is_known):
    """A parameter server that is killed noted no end: 28 ms of 23 ms is no cost."""
    found = recording_overhead(process(state=state), [])

    assert isinstance(found, Overhead) is is_known
