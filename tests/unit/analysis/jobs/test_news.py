"""What is new in a profile, beside an earlier one of the same run."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from tests.support.profiles import loop, process, profile
from tfprobe.errors import Missing
from tfprobe.profile.profile import Capture, Loop, Profile, RecentSteps
from tfprobe.recording import news


def made(process_index: int, count: int, *, kept: int = 100, raised: tuple[int, ...] = ()) -> Loop:
    """Return a loop of so many steps of 10 ns, of which the latest are known."""
    first = max(count - kept, 0)
    steps = np.arange(first, count, dtype=np.int64)
    recent = RecentSteps(
        first, steps * 100, steps * 100 + 10, np.zeros(len(steps), bool), np.isin(steps, raised)
    )
    base = loop()
    return replace(
        base, process=process_index, executed=count, raised=len(raised), recent=recent, index=0
    )


def capture(process_index: int, step: int) -> Capture:
    missing = Missing("not of interest")
    return Capture(0, process_index, 0, step, f"{step}.pb", "full", 0, 1, missing)


def run(*loops: Loop, captures: tuple[Capture, ...] = (), **states: str) -> Profile:
    """Return a run whose processes are named, in this order, with their states."""
    processes = tuple(
        replace(process(), index=at, folder=name, state=state)
        for at, (name, state) in enumerate(states.items())
    )
    return replace(profile(), processes=processes, loops=loops, captures=captures)


def test_at_first_all_is_new():
    """Whoever begins to follow is told what there is."""
    found = news(run(made(0, 7), captures=(capture(0, 3),), a="running"))

    assert [(each.count, len(each.times.start_ns)) for each in found.steps] == [(7, 7)]
    assert [each.step for each in found.captures] == [3]
    assert [each.folder for each in found.appeared] == ["a"]


def test_new_steps_have_their_times():
    """Those since, without the ones that were told."""
    (found,) = news(run(made(0, 9), a="running"), run(made(0, 7), a="running")).steps

    assert (found.count, found.times.first_step) == (2, 7)
    assert found.durations_ns.tolist() == [10, 10]


def test_of_many_new_steps_the_latest_have_times():
    """The recording keeps so many of each loop; the count is of all."""
    before, after = run(made(0, 10), a="running"), run(made(0, 1000), a="running")

    (found,) = news(after, before).steps

    assert (found.count, len(found.times.start_ns)) == (990, 100)


def test_steps_that_raised_are_counted_apart():
    """And have no duration."""
    before, after = run(made(0, 4), a="running"), run(made(0, 9, raised=(5,)), a="running")

    (found,) = news(after, before).steps

    assert (found.count, found.raised, len(found.durations_ns)) == (4, 1, 4)


def test_a_work_without_new_steps_is_left_out():
    """Waiting is no news."""
    still = run(made(0, 4), a="running")

    found = news(still, still)

    assert (found.steps, found.captures, found.appeared, found.ended) == ((), (), (), ())


def test_a_process_that_comes_before_the_others_moves_nothing():
    """Places change, folders do not."""
    before = run(made(0, 4), captures=(capture(0, 3),), b="running")
    after = run(made(0, 2), made(1, 5), captures=(capture(1, 3),), a="running", b="running")

    found = news(after, before)

    assert [(each.loop.process, each.count) for each in found.steps] == [(0, 2), (1, 1)]
    assert (found.captures, [each.folder for each in found.appeared]) == ((), ["a"])


def test_a_process_ends_once():
    """Finished or killed; stopped is no end."""
    states = ("running", "stopped", "killed", "killed")
    runs = [run(a=state) for state in states]

    ended = [len(news(after, before).ended) for before, after in itertools.pairwise(runs)]

    assert ended == [0, 1, 0]


def test_another_process_in_the_same_place_begins_anew():
    """A file with fewer steps than before is another one."""
    (found,) = news(run(made(0, 3), a="running"), run(made(0, 9), a="running")).steps

    assert (found.count, len(found.times.start_ns)) == (3, 3)
