"""Slow steps and long gaps are named with what happened then; our own tracing is never blamed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.profiles import HOOKS, process, profile, timed_loop
from tests.support.rundir import MONO_NS, UNIX_NS
from tfprobe.analysis.steps import outliers
from tfprobe.analysis.steps.outliers import Outliers
from tfprobe.analysis.steps.slow_step_causes import COMPILATIONS, Cause, Causes, describe_cause
from tfprobe.analysis.steps.step_window import recent_window
from tfprobe.analysis.steps.unexpected_steps import unexpected_steps
from tfprobe.errors import Missing
from tfprobe.profile.activities import Activity, Call, Gap, ResourceSample
from tfprobe.profile.profile import Loop, StepQueue

MS = 1_000_000
SHIFT_NS = UNIX_NS - MONO_NS
UNTOLD = Missing("this kernel does not tell")


def found(loop: Loop, *more: Loop, gaps: bool = False, **facts: Any) -> Outliers:
    placed = profile(
        loops=[loop, *more], processes=[process(unix_minus_monotonic_ns=SHIFT_NS)], **facts
    )
    remembered = recent_window(loop, placed.loops)
    look = outliers.gap_outliers if gaps else outliers.step_outliers
    answer = look(remembered, Causes(placed, loop))
    assert isinstance(answer, Outliers)
    return answer


def activity(kind: str, start_ns: int, end_ns: int, name: str = "x") -> Activity:
    """Return one that is told in monotonic times."""
    return Activity(
        0, kind, name, "MainThread", start_ns + SHIFT_NS, end_ns + SHIFT_NS, 1, end_ns - start_ns
    )


def resource_sample(at_ns: int, **changes: Any) -> ResourceSample:
    names = ResourceSample.__dataclass_fields__
    facts: dict[str, Any] = dict.fromkeys(names, UNTOLD) | {
        "process": 0, "at_ns": at_ns + SHIFT_NS, "steps": 0, "devices": (), "gc_pauses": ()
    }  # fmt: skip
    return ResourceSample(**{**facts, **changes})


def steps_of_ten_ms(count: int = 100, **slow: int) -> list[int]:
    times = [10 * MS] * count
    for step, time_ns in slow.items():
        times[int(step.removeprefix("at"))] = time_ns
    return times


def test_a_slow_step_is_named_with_what_it_cost():
    """Step 40 took 300 ms instead of 10."""
    slow = found(timed_loop(steps_of_ten_ms(at40=300 * MS)))

    (outlier,) = slow.found
    assert (outlier.step, outlier.duration_ns, outlier.excess_ns) == (40, 300 * MS, 290 * MS)
    assert slow.excess_ns == 290 * MS
    assert slow.share_ratio == pytest.approx(290 / (990 + 300), rel=0.01)
    assert outlier.cause == Missing("not known")


def test_a_step_that_we_traced_is_no_outlier():
    """Steps that tfprobe traced, and those right after, are never the job's fault."""
    times = steps_of_ten_ms(at40=300 * MS, at41=200 * MS)

    assert found(timed_loop(times, sampled=[40])).found == ()


def test_a_gap_in_which_we_wrote_a_trace_is_no_outlier():
    """Before a traced step the trace is opened, after it exported: both gaps are ours."""
    gaps = np.full(100, MS)
    gaps[40], gaps[41], gaps[60] = 100 * MS, 500 * MS, 50 * MS

    long = found(timed_loop(steps_of_ten_ms(), gaps, sampled=[40]), gaps=True)

    assert [each.step for each in long.found] == [60]


def test_a_step_during_which_another_thread_was_traced_is_no_outlier():
    """The profiler is the process's: a step beside a traced one is slow because of us."""
    loop = timed_loop(steps_of_ten_ms(at40=300 * MS))
    at_ns = int(loop.recent.start_ns[40])
    other = timed_loop([50 * MS], start_ns=at_ns + MS, sampled=[0], index=1, thread="other")

    assert found(loop, other).found == ()


def test_a_slow_step_says_what_was_going_on():
    """Saving covers the slow part: that is why. Something short beside it is not."""
    loop = timed_loop(steps_of_ten_ms(at40=300 * MS))
    at_ns = int(loop.recent.start_ns[40])
    activities = (
        activity("callbacks", at_ns, at_ns + 290 * MS, "ModelCheckpoint"),
        activity("save", at_ns + MS, at_ns + 280 * MS, "model.keras"),
        activity("trace", at_ns, at_ns + 20 * MS, "f"),
    )

    (outlier,) = found(loop, activities=activities).found

    assert outlier.cause == Cause("save", "model.keras")


def test_compilations_explain_a_step_together():
    """Of a function, tracing, lowering and XLA take a third each: none is most of it."""
    loop = timed_loop(steps_of_ten_ms(at40=310 * MS))
    at_ns = int(loop.recent.start_ns[40])
    activities = tuple(
        activity(kind, at_ns + number * 100 * MS, at_ns + (number + 1) * 100 * MS, name)
        for number, (kind, name) in enumerate([("trace", "f"), ("lower", "f"), ("xla", "g")])
    )

    (outlier,) = found(loop, activities=activities).found

    assert outlier.cause == COMPILATIONS


def test_a_gap_full_of_evaluation_steps_is_evaluation():
    """Also where the recording has no activities, the steps of other loops tell."""
    gaps = np.full(100, MS)
    gaps[50] = 500 * MS
    loop = timed_loop(steps_of_ten_ms(), gaps)
    at_ns = int(loop.recent.end_ns[49])
    beside = timed_loop([9 * MS] * 40, start_ns=at_ns + 2 * MS, index=1, kind="evaluate", name="m")

    (outlier,) = found(loop, beside, gaps=True).found

    assert (outlier.step, outlier.cause) == (50, Cause("evaluate", "evaluate m"))


def test_the_first_step_is_known_to_be_slow():
    """Nobody has to wonder why step 0 took a second."""
    (outlier,) = found(timed_loop(steps_of_ten_ms(at0=1000 * MS))).found

    assert outlier.cause == Cause("first", "the first step")


def test_throttling_is_seen_in_the_pulses_around():
    """The cgroup held the process back while the step ran."""
    loop = timed_loop(steps_of_ten_ms(at40=3000 * MS))
    before_ns, after_ns = int(loop.recent.start_ns[40]) - MS, int(loop.recent.end_ns[40]) + MS
    resource_samples = (
        resource_sample(before_ns, throttled_ns=0),
        resource_sample(after_ns, throttled_ns=2500 * MS),
    )

    (outlier,) = found(loop, resource_samples=resource_samples).found

    assert outlier.cause == Cause("throttled", "")


def test_what_is_around_every_step_explains_none():
    """Steps of an evaluation are not slow because of the evaluation they are of."""
    loop = timed_loop(steps_of_ten_ms(at40=300 * MS))
    whole = activity("evaluate", int(loop.recent.start_ns[0]), int(loop.recent.end_ns[-1]))

    (outlier,) = found(loop, activities=(whole,)).found

    assert outlier.cause == Missing("not known")


def test_a_long_gap_at_the_end_of_an_epoch_is_called_that():
    """Most of what Keras does between epochs has no name; that an epoch ended has one."""
    gaps = np.full(100, MS)
    gaps[50] = 500 * MS
    loop = timed_loop(steps_of_ten_ms(), gaps)
    at_ns = int(loop.recent.end_ns[49]) + 300 * MS
    callback = activity("callbacks", at_ns, at_ns + 1000, "CallbackList.on_epoch_end")

    (outlier,) = found(loop, gaps=True, activities=(callback,)).found

    assert outlier.cause == Cause("epoch", "the end of an epoch")


def test_a_long_gap_between_two_calls_of_fit_is_called_that():
    """A search over settings builds its next model there: that an epoch ended, too, says less."""
    gaps = np.full(100, MS)
    gaps[50] = 500 * MS
    loop = timed_loop(steps_of_ten_ms(), gaps, thread="MainThread", kind="fit")
    at_ns = int(loop.recent.end_ns[49]) + 30 * MS
    activities = (
        activity("callbacks", at_ns - MS, at_ns, "CallbackList.on_epoch_end"),
        activity("train", int(loop.recent.start_ns[0]), at_ns, "model.fit"),
        activity("evaluate", int(loop.recent.start_ns[9]), at_ns - 5 * MS, "model.evaluate"),
    )

    (outlier,) = found(loop, gaps=True, activities=activities).found

    assert outlier.cause == Cause("calls", "between two calls of fit")


def waiting_samples(loop: Loop, **waited: Callable[[int], int]) -> tuple[ResourceSample, ...]:
    """Return ten samples over all steps; counters are functions of how many ns have passed."""
    start_ns, end_ns = int(loop.recent.start_ns[0]) - MS, int(loop.recent.end_ns[-1]) + MS
    times_ns = np.linspace(start_ns, end_ns, 10).astype(np.int64).tolist()
    return tuple(
        resource_sample(
            at_ns, cpus=2, **{name: of(at_ns - start_ns) for name, of in waited.items()}
        )
        for at_ns in times_ns
    )


def after(ns: int, loop: Loop, step: int) -> Callable[[int], int]:
    """Return a counter that goes from 0 to `ns` during one step."""
    at_ns = int(loop.recent.start_ns[step] - loop.recent.start_ns[0]) + 2 * MS
    return lambda passed_ns: ns if passed_ns >= at_ns else 0


@pytest.mark.parametrize(
    ("counter", "ns", "cause"),
    [
        ("run_delay_ns", 200 * MS, Cause("waited", "its own threads ran")),
        # Of one CPU; it has two.
        ("machine_steal_ns", 400 * MS, Cause("stolen", "")),
        ("run_delay_ns", 100 * MS, Missing("not known")),
        ("machine_steal_ns", 200 * MS, Missing("not known")),
        ("machine_io_wait_ns", 200 * MS, Missing("not known")),
    ],
)
def test_what_the_process_waited_for_explains_a_slow_step(
    counter: str, ns: int, cause: Cause | Missing
) -> None:
    """The wait must pay for half of the excess. Storage is waited for by who uses it."""
    loop = timed_loop(steps_of_ten_ms(at40=300 * MS))

    (outlier,) = found(
        loop, resource_samples=waiting_samples(loop, **{counter: after(ns, loop, 40)})
    ).found

    assert outlier.cause == cause


def test_others_are_named_where_they_kept_the_cpus_busy():
    """Both CPUs were busy all the time, and this process used none of it."""
    loop = timed_loop(steps_of_ten_ms(at40=300 * MS))
    resource_samples = waiting_samples(
        loop,
        run_delay_ns=after(250 * MS, loop, 40),
        machine_busy_ns=lambda passed_ns: 2 * passed_ns,
        user_ns=lambda passed_ns: passed_ns // 10,
        system_ns=lambda _: 0,
    )

    (outlier,) = found(loop, resource_samples=resource_samples).found

    assert outlier.cause == Cause("waited", "other processes ran")


def test_storage_is_named_where_the_process_read_from_it():
    """Pages that were swapped out, a file that is not in the cache."""
    loop = timed_loop(steps_of_ten_ms(at40=300 * MS))
    resource_samples = waiting_samples(
        loop,
        machine_io_wait_ns=after(250 * MS, loop, 40),
        major_faults=after(1000, loop, 40),
    )

    (outlier,) = found(loop, resource_samples=resource_samples).found

    assert outlier.cause == Cause("storage", "")


def test_what_is_waited_all_the_time_explains_no_slow_step():
    """A sleep that somebody wrote is not blamed on a machine that is busy anyway, whatever its
    load: the other steps wait as much.
    """
    loop = timed_loop(steps_of_ten_ms(at40=300 * MS))
    resource_samples = waiting_samples(
        loop, run_delay_ns=lambda passed_ns: passed_ns, load_1min=lambda _: 40
    )

    (outlier,) = found(loop, resource_samples=resource_samples).found

    assert outlier.cause == Missing("not known")


def test_slow_steps_share_what_was_waited():
    """Ten slow steps between two samples are not all explained by the wait of one."""
    slow = {f"at{step}": 300 * MS for step in (40, 47, 51, 52, 54, 55, 56, 57, 58, 59)}
    loop = timed_loop(steps_of_ten_ms(**slow))
    resource_samples = tuple(
        resource_sample(
            int(loop.recent.start_ns[step]) - MS, run_delay_ns=300 * MS if step > 40 else 0
        )
        for step in (0, 10, 20, 30, 40, 70, 80, 90)
    )

    causes = {each.cause for each in found(loop, resource_samples=resource_samples).found}

    assert causes == {Missing("not known")}


def test_what_keeps_time_with_the_steps_is_not_the_machines():
    """Every 20th step takes long, and others run at those times: they do not count our steps."""
    slow = {f"at{step}": 300 * MS for step in range(19, 200, 20)}
    loop = timed_loop(steps_of_ten_ms(200, **slow))
    starts_ns = loop.recent.start_ns[18::20]
    resource_samples = tuple(
        resource_sample(int(each) + shift, run_delay_ns=at * 300 * MS + (300 * MS if shift else 0))
        for at, each in enumerate(starts_ns)
        for shift in (0, 350 * MS)
    )

    slow_steps = found(loop, resource_samples=resource_samples)

    assert [each.every for each in slow_steps.periods] == [20]
    assert {each.cause for each in slow_steps.found} == {Missing("not known")}


def test_garbage_collections_explain_the_steps_that_they_stopped():
    """Their times are known, so they go before whatever was around them."""
    loop = timed_loop(steps_of_ten_ms(at40=300 * MS, at60=300 * MS))
    at_ns = int(loop.recent.start_ns[40])
    pause = (at_ns + MS + SHIFT_NS, at_ns + 280 * MS + SHIFT_NS)
    callback = activity("callbacks", at_ns, at_ns + 290 * MS, "Logger")
    resource_samples = (resource_sample(at_ns + 400 * MS, gc_pauses=(pause,)),)

    slow = found(loop, resource_samples=resource_samples, activities=(callback,)).found

    assert {each.step: each.cause for each in slow} == {
        40: Cause("gc", "garbage collection"),
        60: Missing("not known"),
    }


def test_what_repeats_is_told_with_its_rhythm():
    """Every 20th gap is long."""
    gaps = np.full(200, MS)
    gaps[19::20] = 40 * MS

    (period,) = found(timed_loop(steps_of_ten_ms(200), gaps), gaps=True).periods

    assert (period.every, period.first, period.times) == (20, 19, 10)


def queued(*, steps_per_wait: float, sampled: tuple[int, ...] = ()) -> Loop:
    """Return a loop of JAX that waits at steps 9, 19 ... and then sleeps for 2 ms."""
    gaps = [2_000_000 if step % 10 == 0 else 0 for step in range(100)]
    told = timed_loop([5_000_000] * 100, gaps, kind="jit", sampled=sampled)
    waited = np.arange(100) % 10 == 9
    queue = StepQueue(0, steps_per_wait, 10, 0, 0)
    return replace(told, queue=queue, recent=replace(told.recent, waited=waited))


def test_the_gap_after_a_wait_is_called_that():
    """Between other calls, the device still runs what is queued."""
    known = found(queued(steps_per_wait=10.0), gaps=True)

    text = "after a wait, the device is idle until the next call"
    assert [(period.every, period.first) for period in known.periods] == [(10, 10)]
    assert {describe_cause(outlier.cause) for outlier in known.found} == {text}


def test_it_is_nothing_unexpected():
    """It comes with each wait; the rules about Python between steps have it."""
    told = queued(steps_per_wait=10.0)

    found = unexpected_steps(profile(loops=[told], processes=[process()]), told)

    assert not isinstance(found, Missing)
    assert (found.steps, found.known_gap_ns) == ((), 0)


def test_where_each_step_is_waited_for_no_gap_is_special():
    """All gaps follow a wait there."""
    known = found(queued(steps_per_wait=1.0), gaps=True)

    assert {describe_cause(outlier.cause) for outlier in known.found} == {"not known"}


def test_a_rhythm_is_found_among_much_noise():
    """A fifth of the gaps are long on a busy machine; the seven longest are every 50th."""
    chance = np.random.default_rng(8)
    gaps = np.where(chance.random(400) < 0.2, MS + chance.integers(1, 9, 400) * MS, MS)
    gaps[50::50] = 30 * MS

    (period,) = found(timed_loop(steps_of_ten_ms(400), gaps), gaps=True).periods

    assert (period.every, period.first) == (50, 50)


def test_few_steps_have_no_outliers():
    """Of five steps nobody can tell what is usual."""
    loop = timed_loop([10 * MS] * 4 + [900 * MS])
    placed = profile(loops=[loop])

    answer = outliers.step_outliers(recent_window(loop, placed.loops), Causes(placed, loop))

    assert answer == Missing("it takes 8 steps to know what is usual")


def test_a_first_step_is_slow_on_a_throttled_machine_as_on_any_other():
    """Throttling explains step 40, but nobody needs it to explain step 0."""
    loop = timed_loop(steps_of_ten_ms(at0=300 * MS, at40=300 * MS))
    begin, end = int(loop.recent.start_ns[0]), int(loop.recent.end_ns[-1])
    resource_samples = (
        resource_sample(begin - MS, throttled_ns=0),
        resource_sample(end + MS, throttled_ns=500 * MS),
    )

    causes = {
        each.step: each.cause for each in found(loop, resource_samples=resource_samples).found
    }

    assert causes == {0: outliers.FIRST_STEP, 40: Cause("throttled", "")}


@pytest.mark.parametrize(("excess_us", "is_ours"), [(300, True), (900, False)])
def test_our_own_sums_every_1024_steps_are_not_the_jobs(excess_us: int, is_ours: bool):
    """Nor a rhythm of it. What is longer than a few of them is something else."""
    gaps_ns = [1000] * 8000
    gaps_ns[1024::1024] = [excess_us * 1000] * 7
    hooks = replace(HOOKS, fold_ns=7 * 100_000)
    slow = timed_loop([100_000] * 8000, gaps_ns)
    placed = profile(
        loops=[slow], processes=[process(unix_minus_monotonic_ns=SHIFT_NS, hooks=hooks)]
    )

    answer = outliers.gap_outliers(recent_window(slow, placed.loops), Causes(placed, slow))

    assert isinstance(answer, Outliers)
    assert [each.step % 1024 for each in answer.found] == [0] * 7
    assert {each.cause == outliers.FOLD for each in answer.found} == {is_ours}
    assert [each.every for each in answer.periods] == ([] if is_ours else [1024])


def _watched(step: int, gap_ns: int) -> Gap:
    """The gap after a step, nearly all of it in one call of the job."""
    calls = (
        Call(None, "fit", "/lib/site-packages/keras/trainer.py", 300, 397, False, 1, MS),
        Call(0, "load_shard", "/home/ada/data.py", 7, 41, False, 1, gap_ns - MS),
    )
    return Gap(0, 0, step, SHIFT_NS, gap_ns, 0, False, calls, "foreseen")


def test_a_long_gap_is_named_by_the_line_that_took_it():
    """Where such gaps come periodically, also those that nobody watched."""
    gaps_ns = [MS] * 400
    for step in range(50, 400, 50):
        gaps_ns[step] = 80 * MS
    slow = timed_loop(steps_of_ten_ms(400), gaps_ns)

    placed = profile(
        loops=[slow],
        processes=[process(unix_minus_monotonic_ns=SHIFT_NS)],
        gaps=(_watched(99, 80 * MS), _watched(149, 80 * MS)),
    )
    long = outliers.gap_outliers(recent_window(slow, placed.loops), Causes(placed, slow))

    assert isinstance(long, Outliers)
    assert len(long.found) == 7
    assert {each.cause for each in long.found} == {
        Cause("line", "load_shard at data.py:7", "/home/ada/data.py", 7)
    }


def test_the_line_after_a_wait_is_named_with_the_wait():
    """Of the gap that was watched, and of the others at its distance."""
    slow = queued(steps_per_wait=10.0)
    placed = profile(
        loops=[slow],
        processes=[process(unix_minus_monotonic_ns=SHIFT_NS)],
        gaps=(_watched(19, 3 * MS),),
    )

    long = outliers.gap_outliers(recent_window(slow, placed.loops), Causes(placed, slow))

    assert isinstance(long, Outliers)
    name = "after a wait, the device is idle until the next call, load_shard at data.py:7"
    assert {each.cause for each in long.found} == {
        Cause("after_wait", name, "/home/ada/data.py", 7)
    }


def test_a_line_at_the_end_of_an_epoch_is_still_the_end_of_an_epoch():
    """What rules know of ends of epochs holds for it, too."""
    gaps_ns = [MS] * 400
    for step in range(50, 400, 50):
        gaps_ns[step] = 80 * MS
    slow = timed_loop(steps_of_ten_ms(400), gaps_ns)
    starts = slow.recent.start_ns.tolist()
    ends = [
        Activity(
            0, "callbacks", "CallbackList.on_epoch_end", "MainThread",
            starts[step] + SHIFT_NS - 50 * MS, starts[step] + SHIFT_NS - 49 * MS, 1, MS,
        )
        for step in range(50, 400, 50)
    ]  # fmt: skip

    placed = profile(
        loops=[slow],
        processes=[process(unix_minus_monotonic_ns=SHIFT_NS)],
        activities=tuple(ends),
        gaps=(_watched(99, 80 * MS), _watched(149, 80 * MS)),
    )
    long = outliers.gap_outliers(recent_window(slow, placed.loops), Causes(placed, slow))

    assert isinstance(long, Outliers)
    (cause,) = {each.cause for each in long.found}
    assert isinstance(cause, Cause)
    assert (cause.kind, cause.line) == ("epoch", 7)
    assert cause.name == "the end of an epoch, load_shard at data.py:7"
