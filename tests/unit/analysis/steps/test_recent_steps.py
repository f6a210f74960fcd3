"""How fast steps come and how long they take is told by the latest of them, at one moment."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.support.profiles import timed_loop
from tests.support.rundir import MONO_NS
from tfprobe.analysis.steps.recent_steps import busiest, last_end_ns, step_times, steps_per_s
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop, RecentSteps

MS, S = 10**6, 10**9


def _ends(loop: Loop) -> int:
    return int(loop.recent.end_ns[-1])


def _regular(count: int, step_ns: int, gap_ns: int = 0, **more) -> Loop:
    return timed_loop([step_ns] * count, gap_ns, **more)


def _changed(loop: Loop, **columns) -> Loop:
    recent = dataclasses.replace(loop.recent, **columns)
    return dataclasses.replace(loop, recent=recent)


@pytest.mark.parametrize("phase", [0.0, 0.3, 0.99])
@pytest.mark.parametrize("period_ns", [MS, 40 * MS, 3 * S, 4 * S, 9 * S, 60 * S, 3600 * S])
def test_regular_steps_have_their_rate_at_every_moment(period_ns, phase):
    """Whether a step ended just now or the next is about to, and however long they take."""
    loop = _regular(1024, period_ns // 2, period_ns // 2)
    now_ns = _ends(loop) + int(phase * period_ns)

    assert steps_per_s(loop, now_ns) == pytest.approx(S / period_ns, rel=0.02)


def test_no_step_for_longer_than_usual_is_no_rate():
    """A job that hangs makes 0 steps a second, 10 s after its last one."""
    loop = _regular(1000, 10 * MS)

    rates = [steps_per_s(loop, _ends(loop) + wait * S) for wait in (0, 2, 5, 9, 11, 3600)]

    assert rates == pytest.approx([100, 80, 50, 10, 0, 0], rel=0.02)


def test_slow_steps_are_late_after_twice_their_time():
    """Steps of a minute: the next one may take a little longer."""
    loop = _regular(10, 60 * S)

    rates = [steps_per_s(loop, _ends(loop) + wait * S) for wait in (59, 61, 119, 121)]

    assert rates == pytest.approx([2 / 120, 2 / 181, 2 / 239, 0], rel=0.001)


def test_a_pause_leaves_the_rate_after_ten_seconds():
    """A second after a checkpoint that took 20 s, a tenth of the steps came in the last 10 s."""
    loop = timed_loop([10 * MS] * 1000, [0] * 900 + [20 * S] + [0] * 99)

    assert steps_per_s(loop, _ends(loop)) == pytest.approx(10, rel=0.1)


def test_a_job_that_has_just_begun_has_the_rate_of_its_first_steps():
    """It is not divided by seconds in which there was no job."""
    assert steps_per_s(_regular(50, 20 * MS), MONO_NS + S) == pytest.approx(50)
    assert steps_per_s(_regular(1, 20 * S), MONO_NS + 20 * S) == pytest.approx(1 / 20)


def test_steps_that_raised_are_not_counted():
    """Half of them were not completed."""
    loop = _regular(1000, 10 * MS)
    loop = _changed(loop, raised=np.arange(1000) % 2 == 0)

    assert steps_per_s(loop, _ends(loop)) == pytest.approx(50, rel=0.02)


def test_without_a_completed_step_there_is_no_rate():
    """None began, or all raised."""
    none = _regular(1, MS)
    none = dataclasses.replace(none, recent=_first(none.recent, 0))
    raised = _changed(_regular(3, MS), raised=np.ones(3, dtype=np.bool_))

    assert isinstance(steps_per_s(none, MONO_NS), Missing)
    assert isinstance(steps_per_s(raised, MONO_NS), Missing)
    assert isinstance(step_times([none]), Missing)
    assert isinstance(step_times([raised]), Missing)


def test_a_clock_that_went_wrong_makes_no_wrong_rate():
    """Steps that end before they begin, or before the one before them, or all at once."""
    loop = _regular(100, 10 * MS)
    ends = loop.recent.end_ns.copy()
    ends[40:50] = 0
    still = np.full(100, MONO_NS)

    assert steps_per_s(_changed(loop, end_ns=ends), _ends(loop)) == pytest.approx(100, rel=0.05)
    assert isinstance(steps_per_s(_changed(loop, start_ns=still, end_ns=still), MONO_NS), Missing)


def test_garbage_makes_neither_errors_nor_times_below_zero():
    """Whatever words a broken disk left where steps should be."""
    dice = np.random.default_rng(3)
    for _ in range(200):
        words = dice.integers(-(2**63), 2**63 - 1, size=(2, 30))
        words = np.where(dice.random((2, 30)) < 0.5, words, words >> dice.integers(0, 62))
        ends = words[1] & (1 << 60) - 1
        marks = dice.random(30) < 0.3
        loop = _changed(_regular(30, MS), start_ns=words[0], end_ns=ends, raised=marks)

        rate, times = steps_per_s(loop, int(ends[-1])), step_times([loop, loop])

        assert isinstance(rate, Missing) or rate >= 0
        assert isinstance(times, Missing) or min(times.p50_ns, *times.trend_ns) >= 0
        assert busiest([loop]) == (loop,)


def test_quantiles_are_exact():
    """Of 1 to 100 ms."""
    times = step_times([timed_loop([n * MS for n in range(1, 101)])])

    assert not isinstance(times, Missing)
    assert (times.p50_ns, times.p95_ns) == pytest.approx((50.5 * MS, 95.05 * MS))


def test_steps_that_raised_were_traced_or_went_backwards_are_no_times():
    """What tfprobe added to a step is not the job's."""
    loop = timed_loop([MS] * 97 + [500 * MS, 900 * MS, 700 * MS], sampled=[97])
    raised = np.arange(100) == 98
    starts = loop.recent.start_ns.copy()
    starts[99] = loop.recent.end_ns[99] + 1

    times = step_times([_changed(loop, raised=raised, start_ns=starts)])

    assert not isinstance(times, Missing)
    assert (times.p50_ns, times.p95_ns, max(times.trend_ns)) == (MS, MS, MS)


def test_where_all_steps_are_traced_they_are_the_times():
    """They are all there is."""
    times = step_times([timed_loop([MS] * 4, sampled=range(4))])

    assert not isinstance(times, Missing)
    assert times.p50_ns == MS


@pytest.mark.parametrize("count", [1, 23, 24, 25, 1000])
def test_the_trend_has_at_most_24_points_newest_last(count):
    """Each the median of as many steps."""
    times = step_times([timed_loop([(n + 1) * MS for n in range(count)])])

    assert not isinstance(times, Missing)
    assert len(times.trend_ns) == min(count, 24)
    assert list(times.trend_ns) == sorted(times.trend_ns)
    assert times.trend_ns[-1] == pytest.approx(count * MS, rel=0.03)


def test_the_busiest_work_is_that_of_the_time_not_of_the_count():
    """A function that is called inside each step makes as many, and shorter ones."""
    fit = _regular(100, 90 * MS, 10 * MS, kind="fit", name="model")
    function = _regular(200, MS, 49 * MS, kind="function", name="augment", index=1)

    assert busiest([function, fit]) == (fit,)


def test_the_busiest_work_is_one_of_now():
    """After an hour of training a process evaluates: that is what it does."""
    fit = _regular(1000, S, kind="fit")
    evaluate = _regular(1000, 20 * MS, kind="evaluate", start_ns=_ends(fit))

    assert busiest([fit, evaluate]) == (evaluate,)


def test_a_short_step_after_each_long_one_is_not_the_busiest():
    """Whatever the last step was."""
    fit = _regular(20, 60 * S, kind="fit")
    log = timed_loop([MS] * 20, 60 * S, kind="function", start_ns=MONO_NS + 60 * S, index=1)

    assert busiest([fit, log]) == (fit,)


def test_the_busiest_work_is_taken_in_all_threads():
    """Four towers that run the same step each in their thread are one kind of step."""
    towers = [_regular(10, MS, thread=f"t{n}", index=n) for n in range(4)]
    other = _regular(10, MS // 2, name="other", index=5)

    assert busiest([*towers, other]) == tuple(towers)


def test_the_last_end_is_that_of_any_work():
    """A process lives while any of its threads makes steps."""
    early, late = _regular(5, MS), _regular(9, MS, index=1)

    assert last_end_ns([late, early]) == _ends(late)
    assert last_end_ns([]) is None
    assert busiest([]) == ()


def _first(recent: RecentSteps, count: int) -> RecentSteps:
    return RecentSteps(
        recent.first_step,
        recent.start_ns[:count],
        recent.end_ns[:count],
        recent.sampled[:count],
        recent.raised[:count],
    )
