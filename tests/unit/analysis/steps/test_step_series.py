"""A million steps become a curve of few points on which none that is slow is lost."""

from __future__ import annotations

import itertools

import numpy as np

from tests.support.profiles import loop, process, profile, timed_loop
from tests.support.rundir import MONO_NS, UNIX_NS
from tfprobe.analysis.steps.phases import life
from tfprobe.analysis.steps.step_series import PhaseBand, bands, series, usual_most_ns
from tfprobe.analysis.steps.step_window import StepWindow, recent_window
from tfprobe.errors import Missing
from tfprobe.profile.activities import Activity
from tfprobe.profile.profile import RecentSteps

MS = 1_000_000
SHIFT_NS = UNIX_NS - MONO_NS


def remembered(times_ns: list[int], first_step: int = 0) -> StepWindow:
    recent = timed_loop(times_ns).recent
    moved = RecentSteps(first_step, recent.start_ns, recent.end_ns, recent.sampled, recent.raised)
    told = timed_loop(times_ns, recent=moved)
    return recent_window(told, [told])


def test_few_steps_are_all_there():
    """While there is room each step is a point."""
    found = series(remembered([3, 1, 2]))

    assert found.steps_each == 1
    assert found.first_steps.tolist() == [0, 1, 2]
    assert found.min_ns.tolist() == found.median_ns.tolist() == found.max_ns.tolist() == [3, 1, 2]
    assert found.gap_ns.tolist() == [0, 1000, 1000]


def test_a_slow_step_among_many_stays_the_most_of_its_bucket():
    """Steps 0 to 99 in ten points: step 42 still stands out."""
    times = [10] * 100
    times[42] = 99

    found = series(remembered(times), points=10)

    assert found.steps_each == 10
    assert found.max_ns.tolist() == [10, 10, 10, 10, 99, 10, 10, 10, 10, 10]
    assert found.median_ns.tolist() == [10] * 10


def test_the_last_bucket_may_be_short():
    """Seven steps in buckets of three."""
    found = series(remembered([1, 2, 3, 4, 5, 6, 7]), points=3)

    assert found.first_steps.tolist() == [0, 3, 6]
    assert found.median_ns.tolist() == [2, 5, 7]
    assert (found.first_step, found.end_step) == (0, 7)


def test_a_part_is_shown_nearer():
    """Steps 1,002 to 1,003 of a run that remembers 1,000 to 1,004."""
    found = series(remembered([1, 2, 3, 4, 5], first_step=1000), first=1002, end=1004)

    assert found.first_steps.tolist() == [1002, 1003]
    assert found.median_ns.tolist() == [3, 4]


def test_no_step_is_no_point():
    """Nothing remembered, or nothing in the part that is asked for."""
    nothing = loop(())

    assert len(series(recent_window(nothing, [nothing])).first_steps) == 0
    assert len(series(remembered([1, 2]), first=50).first_steps) == 0


def test_steps_have_the_phase_in_which_they_began():
    """The first ten of a hundred steps were slow: warm-up, and then steady."""
    told = timed_loop([100 * MS] * 10 + [10 * MS] * 90)
    made = profile(loops=[told], processes=[process(unix_minus_monotonic_ns=SHIFT_NS)])

    found = bands(recent_window(told, [told]), life(made, made.processes[0]), SHIFT_NS)

    assert [each.phase for each in found][-1] == "steady"
    assert found[0].first_step == 0
    assert found[-1].last_step == 99
    assert all(one.last_step + 1 == other.first_step for one, other in itertools.pairwise(found))


def test_a_function_that_is_traced_makes_a_band():
    """Step 50 was traced again: it is a band by itself."""
    told = timed_loop([10 * MS] * 100)
    start_ns = int(told.recent.start_ns[50]) + SHIFT_NS
    again = Activity(0, "trace", "f", "MainThread", start_ns, start_ns + 10 * MS, 2, 20 * MS)
    made = profile(
        loops=[told],
        processes=[process(unix_minus_monotonic_ns=SHIFT_NS)],
        activities=(again,),
    )

    found = bands(recent_window(told, [told]), life(made, made.processes[0]), SHIFT_NS)

    assert PhaseBand("compile", 50, 50) in found


def test_without_a_life_there_are_no_bands():
    """A file from elsewhere does not tell when a process began."""
    assert bands(remembered([1] * 20), Missing("unknown"), 0) == ()
    assert np.all(remembered([1]).counts)


def test_one_step_that_took_a_hundred_times_as_long_does_not_press_the_others_flat():
    """The axis ends at two and a half times what 95 in 100 steps take at most."""
    assert usual_most_ns(remembered([1000 * MS] + [10 * MS] * 99)) == 25 * MS
    assert usual_most_ns(remembered([20 * MS] + [10 * MS] * 99)) is None
