"""What a process did, by activity, steps among them; each moment of a thread belongs to one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.support.profiles import HOOKS, loop, process, profile
from tests.support.rundir import MONO_NS, UNIX_NS
from tests.support.tiers import activity
from tfprobe.analysis.core.intervals import nest, union
from tfprobe.analysis.system.application import (
    ActivityInSteps,
    ActivityUse,
    ProcessActivities,
    activities,
    activities_in_steps,
    evaluations,
)
from tfprobe.errors import Missing
from tfprobe.profile.profile import RecentSteps

MS = 1_000_000
NODE = process(unix_minus_monotonic_ns=UNIX_NS - MONO_NS)


def used(*found, loops=(), **changes) -> ProcessActivities:
    (only,) = activities(profile(loops=loops, processes=[NODE], activities=found, **changes))
    return only


def by_name(item: ProcessActivities) -> dict[str, ActivityUse]:
    return {f"{each.kind} {each.name}": each for each in item.activities}


def steps_at(*starts_ms: int, duration_ms: int = 10, **changes):
    """Return a loop that remembers steps at these moments, in ms from the start of the run."""
    starts = np.array(starts_ms, dtype=np.int64) * MS + MONO_NS
    marks = np.zeros(len(starts), dtype=np.bool_)
    ring = RecentSteps(0, starts, starts + duration_ms * MS, marks, marks)
    return loop([duration_ms * MS] * len(starts), recent=ring, **{"kind": "fit", **changes})


def test_what_is_inside_is_taken_out():
    """A fit of 100 ms that calls back for 30 of them has 70 for itself."""
    found = by_name(
        used(
            activity("train", "fit", 0, 100),
            activity("callbacks", "on_epoch_end", 60, 90),
            activity("save", "Model.save", 70, 80),
        )
    )

    exclusive = {name: each.exclusive_ns / MS for name, each in found.items()}
    assert exclusive == {
        "train fit": 70,
        "callbacks on_epoch_end": 20,
        "save Model.save": 10,
    }
    assert found["train fit"].total_ns == 100 * MS


def test_steps_are_activities():
    """The steps of a loop lie inside the fit that runs them, and are taken out of it."""
    item = used(activity("train", "fit", 0, 100), loops=[steps_at(10, 30, 50, name="digits")])

    found = by_name(item)
    assert found["fit digits"].exclusive_ns == 30 * MS
    assert found["fit digits"].is_step
    assert found["fit digits"].count == 3
    assert found["train fit"].exclusive_ns == 70 * MS


def test_a_share_is_of_the_wall_time_of_the_process():
    """Of a process that lived for a second; in the rest of it nothing of this went on."""
    item = used(activity("import", "tensorflow", 0, 250))

    assert item.wall_ns == HOOKS.wall_ns == 1000 * MS
    assert by_name(item)["import tensorflow"].share_ratio == 0.25
    assert item.elsewhere_ns == 750 * MS


def test_an_import_that_began_before_the_agent_is_in_the_wall_time():
    """The agent wakes up half a second into the import of TensorFlow."""
    item = used(activity("import", "tensorflow", -500, 500))

    assert item.wall_ns == 1500 * MS
    assert item.elsewhere_ns == 500 * MS


def test_an_import_that_ended_after_the_last_noted_time_is_in_the_wall_time():
    """A parameter server notes no time from the moment on at which it waits in C++."""
    item = used(activity("import", "tensorflow", -500, 2500))

    assert item.wall_ns == 3000 * MS
    assert by_name(item)["import tensorflow"].share_ratio == 1.0


def test_other_threads_do_not_interrupt():
    """What another thread does at the same time is not taken out."""
    found = by_name(
        used(activity("train", "fit", 0, 100), activity("data", "load", 20, 80, thread="loader"))
    )

    assert found["train fit"].exclusive_ns == 100 * MS
    assert found["data load"].exclusive_ns == 60 * MS


def test_intervals_that_were_not_kept_count_too():
    """Of 1,000 callbacks inside a fit two were kept: all of their time is taken out of it."""
    found = by_name(
        used(
            activity("train", "fit", 0, 100),
            activity("callbacks", "batch", 10, 11, count=1, total_ns=1 * MS),
            activity("callbacks", "batch", 20, 21, count=1000, total_ns=50 * MS),
        )
    )

    assert found["callbacks batch"].count == 1000
    assert found["callbacks batch"].exclusive_ns == 50 * MS
    assert found["train fit"].exclusive_ns == 50 * MS
    assert found["train fit"].is_estimate
    assert found["callbacks batch"].is_estimate


def test_what_has_not_ended_counts_up_to_now():
    """A job that was killed in its fit had been fitting: the agent tells when that began."""
    found = by_name(used(activity("train", "fit", 0, 100, count=0, total_ns=0)))

    assert (found["train fit"].count, found["train fit"].total_ns) == (1, 100 * MS)


def test_what_was_not_kept_and_lies_in_nothing_is_not_elsewhere():
    """Summaries written outside of any fit leave less of the time unexplained."""
    item = used(
        activity("summary", "flush", 10, 20, count=9, total_ns=400 * MS),
    )

    assert item.elsewhere_ns == 600 * MS


def test_nothing_is_exclusive_where_steps_have_no_place_in_time():
    """Without a common clock nobody knows what lay inside what; totals are still known."""
    unplaced = process()
    (item,) = activities(
        profile(
            loops=[steps_at(10)], processes=[unplaced], activities=[activity("train", "fit", 0, 9)]
        )
    )

    found = by_name(item)
    assert found["train fit"].total_ns == 9 * MS
    assert isinstance(found["train fit"].exclusive_ns, Missing)
    assert isinstance(item.elsewhere_ns, Missing)


def test_each_process_has_its_own():
    """A worker's activities are not the chief's."""
    workers = [process(), process(index=1, pid=4712)]
    found = activities(
        profile(
            processes=workers,
            activities=[activity("train", "fit", 0, 1), activity("save", "s", 0, 1, process=1)],
        )
    )

    assert [list(by_name(each)) for each in found] == [["train fit"], ["save s"]]


def test_a_process_that_noted_no_time_has_no_shares():
    """Shares need something to be shares of."""
    (item,) = activities(
        profile(
            processes=[process(hooks=Missing("lost"))], activities=[activity("train", "fit", 0, 1)]
        )
    )

    assert item.wall_ns == Missing("lost")
    assert item.activities[0].share_ratio == Missing("lost")


@pytest.mark.parametrize("seed", range(20))
def test_exclusive_times_of_a_thread_sum_to_its_union(seed: int):
    """However intervals lie, and even where they only overlap, no moment counts twice or never."""
    rng = random.Random(seed)
    start = np.array([rng.randrange(100) for _ in range(30)], dtype=np.int64)
    end = start + np.array([rng.randrange(40) for _ in range(30)], dtype=np.int64)

    nested = nest(start, end)

    owner = {}
    for at in sorted(range(30), key=lambda each: (start[each], -end[each], each)):
        owner.update(dict.fromkeys(range(start[at], end[at]), at))
    assert nested.own_ns.sum() == union(start, end).length_ns
    assert nested.own_ns.tolist() == [list(owner.values()).count(at) for at in range(30)]


def test_what_the_first_evaluation_compiles_is_known():
    """Its function is compiled for all of them; what another one compiles comes again."""
    fit = steps_at(*range(0, 400, 20), kind="fit", name="model")
    done = [
        activity("evaluate", "model.evaluate", 105, 145, total_ns=40 * MS),
        activity("trace", "test_step", 110, 120),
        activity("xla", "test_step", 115, 135),
        activity("evaluate", "model.evaluate", 205, 225, count=2, total_ns=60 * MS),
        activity("trace", "other", 210, 220),
    ]
    recorded = profile(loops=[fit], processes=[NODE], activities=done)

    found = activities_in_steps(recorded, activities(recorded)[0])

    (evaluated,) = [use for use in found if use.kind == "evaluate"]
    assert (evaluated.count, evaluated.total_ns, evaluated.once_ns) == (2, 60 * MS, 25 * MS)


def test_an_evaluation_after_the_training_is_none_that_it_waits_for():
    """Its own steps are the last ones of the process."""
    fit = steps_at(*range(0, 400, 20), kind="fit", name="model")
    last = steps_at(420, 440, kind="evaluate", name="model", index=1)
    done = [
        activity("evaluate", "model.evaluate", 105, 145, total_ns=40 * MS),
        activity("evaluate", "model.evaluate", 405, 465, count=2, total_ns=100 * MS),
    ]
    recorded = profile(loops=[fit, last], processes=[NODE], activities=done)

    found = activities_in_steps(recorded, activities(recorded)[0])

    (evaluated,) = [use for use in found if use.kind == "evaluate"]
    assert (evaluated.count, evaluated.total_ns) == (1, 40 * MS)


def test_calls_between_updates_are_an_evaluation():
    """From the first call to the last, with what is between them; the last one delays no update."""
    updates = steps_at(0, 100, 200, kind="optimizer_step", name="SGD")
    calls = steps_at(20, 40, 130, 220, 240, kind="forward", name="Net", index=1)

    found = evaluations(profile(loops=[updates, calls], processes=[NODE]), 0)

    whole_ns = 30 * MS + 10 * MS
    assert found == (ActivityInSteps("evaluate", "Net", 2, whole_ns, whole_ns),)


def test_inference_alone_is_no_evaluation():
    """Nor are calls in another thread than that of the updates."""
    updates = steps_at(0, 100, 200, kind="optimizer_step", name="SGD")
    calls = steps_at(20, 120, kind="forward", name="Net", index=1)
    elsewhere = steps_at(20, 120, kind="forward", name="Net", index=1, thread="server")

    assert evaluations(profile(loops=[calls], processes=[NODE]), 0) == ()
    assert evaluations(profile(loops=[updates, elsewhere], processes=[NODE]), 0) == ()
    assert len(evaluations(profile(loops=[updates, calls], processes=[NODE]), 0)) == 1
