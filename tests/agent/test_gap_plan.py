"""Gaps are watched apart from traced steps: a sample of all, and long ones that recur."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from tests.support.agent import Laboratory, load
from tests.support.interpreters import python_path

MS = 1_000_000
gaps = load("core.gaps")
schedule = load("core.schedule")
NEVER = load("core.steps_layout").NEVER


@pytest.fixture(params=["this", "3.6", "3.8", "3.12", "3.13"])
def python(request: pytest.FixtureRequest) -> str:
    """Profile functions were rebuilt in Python 3.11 and again in 3.12."""
    return python_path(request.param)


EPOCHS = """
def end_of_epoch(): time.sleep(0.08)
for step in range(9 * 50):
    session.run("loss")
    time.sleep(0.001)
    if step % 50 == 49: end_of_epoch()
"""


def test_the_ends_of_epochs_are_foreseen(laboratory: Laboratory, python: str) -> None:
    """With the calls made in them; the steps themselves are not traced."""
    laboratory.arm(budget=0.2, steps=[[10**6, 10**6]])

    laboratory.finish(EPOCHS, python=python)

    watched = [gap for gap in laboratory.gaps() if gap.why == "foreseen"]
    ends = {gap.step: gap for gap in watched if gap.step % 50 == 49}
    assert len(ends) >= 4
    for gap in ends.values():
        (sleep,) = [call for call in gap.calls if call.self_ns >= 70 * MS]
        assert sleep.function == "time.sleep"
        assert gap.calls[sleep.parent or 0].function == "end_of_epoch"
    assert sum(loop.sampled for loop in laboratory.steps().loops) == 0


def test_gaps_are_watched_apart_from_traced_steps(laboratory: Laboratory, python: str) -> None:
    """As many as the budget allows, each flagged in the steps file, with its thread's CPU time."""
    laboratory.arm(budget=0.2, steps=[[10**6, 10**6]])

    laboratory.finish(
        """
def callback(): time.sleep(0.02)
for _ in range(80):
    session.run("loss")
    callback()
""",
        python=python,
    )

    watched = [gap for gap in laboratory.gaps() if gap.why == "sampled"]
    (loop,) = laboratory.steps().loops
    assert len(watched) >= 5
    assert {gap.step for gap in watched} == set(loop.recent.watched.nonzero()[0].tolist())
    for gap in watched:
        assert gap.duration_ns >= 20 * MS
        assert gap.cpu_ns is not None
        assert gap.cpu_ns <= gap.duration_ns - 10 * MS


@pytest.mark.parametrize(("trace_level", "budget"), [("off", 0.5), ("full", 0.0)])
def test_nothing_is_watched_without_permission(
    laboratory: Laboratory, trace_level: str, budget: float
) -> None:
    """`--trace-level off` and a budget of zero."""
    laboratory.arm(budget=budget, steps=[[10**6, 10**6]], trace_level=trace_level)

    laboratory.finish(EPOCHS)

    assert laboratory.gaps() == ()


def test_a_long_gap_belongs_to_the_step_before_it(laboratory: Laboratory) -> None:
    """A validation between two epochs is another loop, whose first step ends the gap."""
    laboratory.arm(budget=0.2, steps=[[10**6, 10**6]])

    laboratory.finish("""
for epoch in range(8):
    for _ in range(30):
        session.run("train")
        time.sleep(0.001)
    time.sleep(0.05)
    for _ in range(10):
        session.run("test")
        time.sleep(0.001)
    time.sleep(0.03)
""")

    loops = {loop.index: loop.name for loop in laboratory.steps().loops}
    foreseen = Counter(
        (loops[gap.loop], gap.step % (30 if loops[gap.loop] == "train" else 10))
        for gap in laboratory.gaps()
        if gap.why == "foreseen" and gap.duration_ns >= 25 * MS
    )
    assert foreseen["train", 29] >= 3
    assert foreseen["test", 9] >= 3


@pytest.mark.parametrize(
    ("long_gaps", "steps", "expected"),
    [
        ([292], 292, 583),
        ([292, 584], 584, 875),
        ([292, 584, 876, 1000], 1000, 1167),
        ([292, 584, 876], 1000, 1167),
        ([292, 584, 876], 1200, NEVER),
        ([100, 137], 137, 173),
        ([100, 137, 150], 151, NEVER),
        ([1, 2, 3], 3, NEVER),
        ([], 5, NEVER),
    ],
)
def test_gaps_that_recur_at_one_distance_are_foreseen(
    long_gaps: list[int], steps: int, expected: int
) -> None:
    """Three at one distance, the start of the loop among them; two at first."""
    assert gaps.next_of(long_gaps, steps) == expected


class Loop:
    """A loop that only takes time."""

    kind = "fit"
    index, n, foreseen, watch_cost_ns, next_watch, long_gaps = 0, 100, 0, 0, NEVER, ()


def test_watches_keep_to_their_part_of_the_budget() -> None:
    """A quarter of it, less if traces have used it up; and they are spread over a long job."""
    config = SimpleNamespace(budget=0.01, trace_level="full", steps=None, every=None)
    plan = gaps.GapPlan(schedule.Schedule(config, 0))
    current, loop = SimpleNamespace(loops={"loss": 1}), Loop()
    taken = Counter[int]()

    for now_ns in range(0, 3600 * 1000 * MS, 10 * MS):
        if plan.why(current, loop, now_ns, False):
            plan.taken(loop, "sampled", 300_000)
            plan.schedule.spent_ns += 300_000
            taken[now_ns // (60_000 * MS)] += 1
            assert plan.spent_ns <= 0.25 * 0.01 * now_ns + 300_000

    assert taken[0] >= 100
    assert taken[59] <= 2
