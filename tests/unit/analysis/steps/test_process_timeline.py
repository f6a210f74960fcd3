"""When processes lived, and what they did meanwhile."""

from __future__ import annotations

from tests.support.profiles import loop, process, profile, timed_loop
from tests.support.rundir import MONO_NS, UNIX_NS
from tests.support.tiers import activity
from tfprobe.analysis.steps.process_timeline import (
    EVALUATION,
    STEPS,
    ProcessTimeline,
    process_timelines,
)
from tfprobe.errors import Missing
from tfprobe.profile.profile import Process

MS = 1_000_000


def on_the_clock(**changes) -> Process:
    return process(unix_minus_monotonic_ns=UNIX_NS - MONO_NS, **changes)


def only(**changes) -> ProcessTimeline:
    (life,) = process_timelines(profile(**{"processes": [on_the_clock()], **changes}))
    return life


def test_a_life_goes_from_the_first_moment_to_the_last() -> None:
    """The import began before the agent, and the process noted its exit after a second."""
    life = only(activities=(activity("import", "tensorflow", -500, 100),))

    assert (life.start_ns - UNIX_NS, life.end_ns - UNIX_NS) == (-500 * MS, 1000 * MS)


def test_steps_are_bars_beside_activities() -> None:
    """What lies inside another comes behind it, so that it is drawn over it."""
    life = only(
        loops=[timed_loop([10 * MS] * 5, 1000)],
        activities=(activity("train", "net", 0, 60), activity("save", "net", 20, 30)),
    )

    assert [(bar.kind, bar.name) for bar in life.bars] == [
        ("train", "net"),
        (STEPS, "session_run loss"),
        ("save", "net"),
    ]
    assert life.bars[1].count == 5


def test_evaluation_is_told_from_training() -> None:
    """Steps of evaluate and predict are another kind."""
    life = only(loops=[loop(), loop(kind="evaluate", index=1)])

    assert [bar.kind for bar in life.bars] == [EVALUATION, STEPS]


def test_what_is_no_pixel_apart_is_one_bar() -> None:
    """A thousand saves in a second are one; a save a second later is another."""
    saves = [activity("save", "net", at, at + 1) for at in range(0, 1000, 2)]

    life = only(activities=(*saves, activity("save", "other", 2000, 2001)))

    assert [(bar.start_ns - UNIX_NS, bar.count) for bar in life.bars] == [(0, 500), (2000 * MS, 1)]
    assert {bar.name for bar in life.bars} == {""}


def test_forgotten_steps_reach_back_to_when_the_work_was_first_seen() -> None:
    """The ring holds the last steps alone."""
    forgetful = loop([MS] * 100, remembered=10, first_seen_ns=UNIX_NS - MONO_NS)

    life = only(loops=[forgetful])

    (bar,) = life.bars
    assert bar.is_estimate
    assert bar.start_ns == UNIX_NS - MONO_NS


def test_steps_that_nobody_can_place_on_the_clock_are_no_bars() -> None:
    """The process is there all the same."""
    life = only(loops=[loop()], processes=[process()])

    assert life.bars == ()


def test_what_is_not_known_to_have_begun_is_no_life() -> None:
    """A file from elsewhere tells nothing of its process."""
    unknown = process(started_unix_ns=0, hooks=Missing("a file"))

    assert process_timelines(profile(processes=[unknown])) == ()
