"""Phases of a process: named as they were, without holes, together its wall time."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from tests.support.profiles import HOOKS, process, profile, timed_loop
from tests.support.rundir import MONO_NS, UNIX_NS
from tfprobe.analysis.steps.phases import PHASES, Life, Segment, drawn_segments, life
from tfprobe.errors import Missing
from tfprobe.profile.activities import Activity
from tfprobe.profile.profile import Loop

MS = 1_000_000
S = 1_000_000_000
SHIFT_NS = UNIX_NS - MONO_NS


def lived(loops: list[Loop], wall_ns: int = 60 * S, **facts: Any) -> Life:
    one = process(unix_minus_monotonic_ns=SHIFT_NS, hooks=replace(HOOKS, wall_ns=wall_ns))
    found = life(profile(loops=loops, processes=[one], **facts), one)
    assert isinstance(found, Life)
    return found


def activity(kind: str, start_ns: int, end_ns: int) -> Activity:
    """Return one that is told from the start of the process."""
    return Activity(
        0, kind, "x", "MainThread", UNIX_NS + start_ns, UNIX_NS + end_ns, 1, end_ns - start_ns
    )


def told(found: Life) -> list[tuple[str, float]]:
    return [(each.phase, (each.end_ns - each.start_ns) / S) for each in found.segments]


def test_a_life_is_told_in_order():
    """Imports, setting up, a traced first step, training, and the end."""
    fit = timed_loop([2 * S] + [100 * MS] * 100, 0, start_ns=MONO_NS + 10 * S, kind="fit")

    found = lived([fit], 30 * S, activities=(activity("import", S, 4 * S),))

    assert told(found) == [
        ("start-up", 4.0),
        ("set-up", 6.0),
        ("compile", 2.0),
        ("steady", 10.0),
        ("end", 8.0),
    ]


def test_without_activities_start_up_goes_on_to_the_first_step():
    """Where nobody noted when TensorFlow was imported, that is said."""
    found = lived([timed_loop([100 * MS] * 50, 0, start_ns=MONO_NS + 10 * S)])

    assert not found.knows_import
    assert told(found)[0] == ("start-up", 10.0)


def test_evaluation_between_epochs_is_evaluation():
    """The steps of evaluate, and what is between them, but no training between two of them."""
    epochs = [
        timed_loop([100 * MS] * 10, 0, start_ns=MONO_NS + 10 * S),
        timed_loop([100 * MS] * 10, 0, start_ns=MONO_NS + 13 * S),
    ]
    recents = [each.recent for each in epochs]
    starts = np.concatenate([each.start_ns for each in recents])
    ends = np.concatenate([each.end_ns for each in recents])
    both = replace(
        timed_loop([100 * MS] * 20),
        kind="fit",
        recent=replace(timed_loop([100 * MS] * 20).recent, start_ns=starts, end_ns=ends),
    )
    beside = timed_loop(
        [500 * MS, 500 * MS, 500 * MS],
        [0, 300 * MS, 1200 * MS],
        start_ns=MONO_NS + 11 * S + 200 * MS,
        index=1,
        kind="evaluate",
    )

    found = lived([both, beside], 20 * S)

    assert told(found)[1:] == [
        ("steady", 1.0),
        ("between", 0.2),
        ("evaluation", 1.3),
        ("between", 0.5),
        ("steady", 0.7),
        ("evaluation", 0.5),
        ("end", 5.8),
    ]


def test_saving_a_model_is_a_checkpoint_wherever_it_is():
    """A save in the middle of training is no training."""
    fit = timed_loop([100 * MS] * 50, 0, start_ns=MONO_NS + 10 * S)

    found = lived([fit], activities=(activity("save", 12 * S, 13 * S),))

    assert ("checkpoint", 1.0) in told(found)
    assert found.total_ns("steady") == 4 * S


def test_a_pause_between_fits_is_between():
    """Ten seconds without a step are a pause; the usual gaps of an input wait are none."""
    gaps = np.full(100, 300 * MS)
    gaps[50] = 10 * S

    found = lived([timed_loop([100 * MS] * 100, gaps, start_ns=MONO_NS + S)])

    assert found.total_ns("between") == 10 * S


def test_a_job_that_only_predicts_is_at_work():
    """Prediction is evaluation beside training alone."""
    found = lived([timed_loop([100 * MS] * 50, 0, start_ns=MONO_NS + S, kind="predict")])

    assert found.total_ns("steady") == 5 * S
    assert found.total_ns("evaluation") == 0


def test_forgotten_steps_are_steady_since_the_work_was_first_seen():
    """Of a long job the ring has the last steps; the time before them is not lost."""
    kept = timed_loop([100 * MS] * 100, 0, start_ns=MONO_NS + 40 * S)
    long = replace(
        kept,
        executed=100_000,
        recent=replace(kept.recent, first_step=99_900),
        first_seen_ns=UNIX_NS + 5 * S,
    )

    found = lived([long])

    assert told(found) == [("start-up", 5.0), ("steady", 45.0), ("end", 10.0)]


def test_steps_after_the_last_sign_of_life_are_in_it():
    """A killed process had not yet said that it was still alive: its steps did."""
    found = lived([timed_loop([100 * MS] * 100, 0, start_ns=MONO_NS + S)], 5 * S)

    assert found.wall_ns == 11 * S


def test_phases_sum_to_the_wall_time_whatever_the_recording_says():
    """Made-up lives: segments follow each other without holes, from start to end."""
    chance = random.Random(4)
    for _ in range(200):
        loops = [_made_up_loop(chance, index) for index in range(chance.randint(1, 4))]
        activities = tuple(_made_up_activity(chance) for _ in range(chance.randint(0, 30)))

        found = lived(loops, chance.randint(1, 60 * S), activities=activities)

        edges = [found.start_ns, *(each.end_ns for each in found.segments)]
        assert [each.start_ns for each in found.segments] == edges[:-1]
        assert edges[-1] == found.end_ns
        assert sum(found.total_ns(phase) for phase in PHASES) == found.wall_ns


def _made_up_loop(chance: random.Random, index: int) -> Loop:
    count = chance.choice([1, 2, 50, 300])
    steps = [chance.randint(0, 200 * MS) for _ in range(count)]
    gaps = [chance.choice([0, 1000, 2 * S]) for _ in range(count)]
    kind = chance.choice(["fit", "evaluate", "predict", "session_run"])
    start_ns = MONO_NS + chance.randint(-S, 50 * S)
    sampled = chance.sample(range(count), k=min(count, 3))
    return timed_loop(steps, gaps, sampled=sampled, start_ns=start_ns, index=index, kind=kind)


def _made_up_activity(chance: random.Random) -> Activity:
    start_ns = chance.randint(-S, 60 * S)
    kind = chance.choice(["import", "save", "trace", "train", "evaluate", "callbacks"])
    return activity(kind, start_ns, start_ns + chance.randint(0, 5 * S))


def test_a_process_without_a_clock_says_so():
    """Where steps cannot be placed on the wall clock there are no phases, and a reason."""
    one = process()

    assert life(profile(loops=[timed_loop([MS] * 5)], processes=[one]), one) == Missing(
        "the recording has no times of its steps"
    )


def _alternating(number: int) -> Life:
    """Return a start of 4 s, then as many compilations of 3 ms, each behind a step of 1 ms."""
    edges_ns = [4 * S + at * MS for turn in range(number) for at in (4 * turn, 4 * turn + 1)]
    edges_ns.append(4 * S + 4 * number * MS)
    bounds_ns = [UNIX_NS, *(UNIX_NS + edge_ns for edge_ns in edges_ns)]
    names = ["start-up", *(["steady", "compile"] * number)]
    segments = tuple(map(Segment, names, bounds_ns, bounds_ns[1:]))
    return Life(process(), UNIX_NS, bounds_ns[-1], segments, knows_import=True)


def test_few_segments_are_drawn_as_they_are():
    """Each is wider than a pixel, or nearly."""
    found = _alternating(10)

    assert drawn_segments(found, 400) is found.segments


def test_of_many_segments_each_column_shows_the_longest_phase():
    """Half of the time was the start, and is half of the bar, however many segments follow."""
    found = _alternating(1000)

    drawn = drawn_segments(found, 400)

    assert [(each.phase, each.end_ns - each.start_ns) for each in drawn] == [
        ("start-up", 4 * S),
        ("compile", 4 * S),
    ]
