"""Stacks by time: of intervals, phases, steps and what is between them; nothing counts twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.profiles import HOOKS, process, profile, timed_loop
from tests.support.rundir import MONO_NS, UNIX_NS
from tests.support.stacks import FRAMES, MAIN, MS, sampled
from tfprobe.analysis.core.intervals import Intervals, one
from tfprobe.analysis.system.stack_samples import (
    StackCall,
    in_step,
    of_thread,
    process_trees,
    samples_within,
)
from tfprobe.errors import Missing
from tfprobe.profile.activities import SampledThread

S = 1_000_000_000
POOL = SampledThread(78, "pool_0")


def lasted(calls: tuple[StackCall, ...]) -> dict[str, object]:
    """Calls as nested names with their ms."""
    names = {frame: name for name, frame in FRAMES.items()}
    return {
        f"{names[call.frame]} {call.total_ns // MS} {call.self_ns // MS}": lasted(call.calls)
        for call in calls
    }


def test_stacks_are_merged_from_the_outermost_call_on() -> None:
    """Own times of calls sum to the whole."""
    stacks = sampled(
        [(0, "main fit"), (30, "main load"), (40, "main fit execute"), (90, "")], end_ms=100
    )

    tree = samples_within(stacks)

    assert lasted(tree.calls) == {
        "main 90 0": {"fit 80 30": {"execute 50 50": {}}, "load 10 10": {}}
    }
    assert (tree.total_ns, tree.no_python_ns, tree.samples) == (100 * MS, 10 * MS, 100)


def test_a_stack_counts_with_what_of_it_lies_in_the_interval() -> None:
    """And samples in proportion."""
    stacks = sampled([(0, "main fit"), (60, "main load")], end_ms=100, samples=50)

    tree = samples_within(stacks, one(UNIX_NS + 50 * MS, UNIX_NS + 80 * MS))

    assert lasted(tree.calls) == {"main 30 0": {"load 20 20": {}, "fit 10 10": {}}}
    assert tree.samples == 15


def test_a_stack_over_many_short_intervals_counts_where_it_was_read() -> None:
    """For how long of each gap it lasted nobody knows: a step is not smeared over gaps."""
    stacks = sampled([(5, "main execute"), (45, "main load"), (85, "main execute")], end_ms=90)
    starts = UNIX_NS + np.arange(0, 100, 10) * MS
    steps, gaps = Intervals(starts, starts + 8 * MS), Intervals(starts + 8 * MS, starts + 10 * MS)

    in_steps, in_gaps = samples_within(stacks, steps), samples_within(stacks, gaps)

    assert in_steps.total_ns == 83 * MS
    assert in_gaps.total_ns == 2 * MS


def test_intervals_that_share_all_time_share_all_stacks() -> None:
    """Nothing is lost and nothing counts twice, wherever the borders are."""
    random = np.random.default_rng(1)
    moments = np.sort(random.uniform(0, 1000, 200))
    names = ["main load", "main fit", "main fit execute", ""]
    reads = [(float(at), names[index % 4]) for index, at in enumerate(moments)]
    stacks = sampled(reads, end_ms=1000)
    borders = UNIX_NS + np.sort(random.integers(0, 1000 * MS, 300))
    borders = np.concatenate([[UNIX_NS], np.unique(borders), [UNIX_NS + 1000 * MS]])
    odd = Intervals(borders[:-1:2], borders[1::2][: len(borders[:-1:2])])
    even = Intervals(borders[1:-1:2], borders[2::2])

    parts = [samples_within(stacks, each).total_ns for each in (odd, even)]

    assert sum(parts) == samples_within(stacks).total_ns


def test_no_intervals_have_no_stacks() -> None:
    """A phase that did not happen."""
    tree = samples_within(sampled([(0, "main")], end_ms=10), one(5, 5))

    assert (tree.total_ns, tree.samples, tree.calls) == (0, 0, ())


def test_threads_are_told_apart() -> None:
    """By their rows."""
    stacks = sampled({MAIN: [(0, "main")], POOL: [(0, "work"), (50, "")]}, end_ms=100)

    trees_of = [samples_within(stacks, rows=of_thread(stacks, each)) for each in (MAIN, POOL)]

    assert [lasted(each.calls) for each in trees_of] == [{"main 100 100": {}}, {"work 50 50": {}}]


@pytest.mark.parametrize("wrapper", ["wrapper", "door"], ids=["today", "older agents"])
def test_a_step_is_known_by_its_wrapper(wrapper: str) -> None:
    """Whatever the clock says; deeper calls are in it."""
    stacks = sampled(
        [(0, f"main fit {wrapper} execute"), (10, "main fit"), (20, f"main {wrapper}"), (30, "")],
        end_ms=40,
    )

    assert in_step(stacks).tolist() == [True, False, True, False]


@pytest.fixture
def told():
    """What stacks tell of a process that trains from its 1st to its 2nd second, and ends."""
    loop = replace(
        timed_loop([50 * MS] * 10, 50 * MS, start_ns=MONO_NS + S), thread="MainThread", kind="fit"
    )
    this = process(unix_minus_monotonic_ns=UNIX_NS - MONO_NS, hooks=replace(HOOKS, wall_ns=2 * S))
    reads = [(0, "main import load"), (1500, "main load")]
    reads += [
        (2000 + 10 * at, ("main fit", "main fit wrapper execute")[at % 2]) for at in range(95)
    ]
    stacks = sampled(
        {POOL: [(0, "work")], MAIN: [*reads, (2950, "")]}, end_ms=3200, start_ns=UNIX_NS - S
    )
    (found,) = process_trees(replace(profile(loops=[loop], processes=[this]), stacks=(stacks,)))
    return found


def test_phases_are_those_of_the_main_loops_thread(told) -> None:
    """What was read before recording and after the last sign of life included."""
    found = {part.name: part.tree.total_ns // MS for part in told.phases}

    assert told.main == MAIN
    assert sum(found.values()) == 3200
    assert found["start-up"] == 2000
    assert found["end"] == 200 + 1000 - 950
    assert [each.thread for each in told.threads] == [MAIN, POOL]
    assert [each.is_main for each in told.threads] == [True, False]


def test_steps_and_what_is_between_them_are_told_apart(told) -> None:
    """By the wrapper, within the phases in which the loop steps."""
    inside, between = told.steps

    assert (inside.name, between.name) == ("in steps", "between steps")
    assert "execute" in str(lasted(inside.tree.calls))
    assert "execute" not in str(lasted(between.tree.calls))


def test_a_process_whose_life_is_not_known_has_threads() -> None:
    """And the reason."""
    stacks = sampled([(0, "main")], end_ms=10)

    (found,) = process_trees(replace(profile(loops=[], processes=[process()]), stacks=(stacks,)))

    assert isinstance(found.phases, Missing)
    assert [lasted(each.tree.calls) for each in found.threads] == [{"main 10 10": {}}]
