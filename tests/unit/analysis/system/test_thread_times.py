"""CPU time by thread: sums over samples, where Python stood, and why it is not known."""

from __future__ import annotations

import pytest

from tests.support.rundir import UNIX_NS
from tests.support.tiers import SECOND_NS, resource_sample
from tfprobe.analysis.system.thread_times import (
    NOT_TAKEN,
    ONE_SAMPLE,
    ProcessThreads,
    Stand,
    ThreadGroup,
    thread_times,
)
from tfprobe.errors import Missing
from tfprobe.profile.activities import ResourceSample, ThreadTimes, ThreadUse


def sampled(at_s: int, since_s: int | None, *threads: ThreadUse, **changes) -> ResourceSample:
    """Return a pulse of a process that keeps one CPU busy, with the time of these threads."""
    since_ns = Missing("first") if since_s is None else UNIX_NS + since_s * SECOND_NS
    times = ThreadTimes(since_ns, threads, changes.pop("unmapped", 0))
    facts = {"user_ns": at_s * SECOND_NS, "system_ns": 0, "thread_times": times}
    return resource_sample(at_s, **{**facts, **changes})


def python(name: str, cpu_s: float, line: int = 0, **changes) -> ThreadUse:
    """Return a thread of Python, which stands in a line of the job."""
    place = {"file": "job.py", "line": line, "function": "work"} if line else {}
    return ThreadUse(name, True, 1, round(cpu_s * SECOND_NS), **{**place, **changes})


def native(name: str, count: int, cpu_s: float) -> ThreadUse:
    return ThreadUse(name, False, count, round(cpu_s * SECOND_NS))


def known(*resource_samples: ResourceSample) -> ProcessThreads:
    found = thread_times(resource_samples)
    assert isinstance(found, ProcessThreads)
    return found


def test_times_are_summed_over_the_samples_but_the_first():
    """What threads had used before it may have been an import."""
    found = known(
        sampled(0, None, python("MainThread", 90)),
        sampled(2, 0, python("MainThread", 0.5, runs_steps=True), native("tf_Compute", 2, 1)),
        sampled(4, 2, python("MainThread", 0.1, runs_steps=True), native("tf_Compute", 3, 0.2)),
    )

    assert (found.samples, found.watched_ns, found.cpu_ns) == (2, 4 * SECOND_NS, 4 * SECOND_NS)
    assert found.groups == (
        ThreadGroup("tf_Compute", False, 3, 1_200_000_000, 0.3, 0.3, False, ()),
        ThreadGroup("MainThread", True, 1, 600_000_000, 0.15, 0.15, True, ()),
    )
    assert found.ended_ns == 4 * SECOND_NS - 1_800_000_000


def test_places_are_told_by_how_often_a_thread_stood_there():
    """And how often it was stopped there between two instructions of Python."""
    found = known(
        sampled(0, None),
        sampled(1, 0, python("worker", 1, 7, is_in_python=True)),
        sampled(2, 1, python("worker", 1, 9)),
        sampled(3, 2, python("worker", 1, 9, is_in_python=True)),
    )

    (group,) = found.groups
    assert group.stands == (
        Stand("job.py", 9, "work", 2, 1),
        Stand("job.py", 7, "work", 1, 1),
    )


def test_python_in_threads_that_python_did_not_start_has_a_place_and_no_time():
    """Functions of a pipeline run in threads of TensorFlow."""
    guest = ThreadUse("", True, 1, Missing("not told"), file="job.py", line=3, function="load")

    found = known(sampled(0, None), sampled(1, 0, guest, native("python", 4, 0.5)))

    assert [group.name for group in found.groups] == ["python"]
    assert found.guests == (Stand("job.py", 3, "load", 1, 0),)


def test_threads_of_one_name_count_together():
    """Some programs name all alike; Python 3.6 does not tell which is whose."""
    found = known(
        sampled(0, None),
        sampled(1, 0, python("w", 0.2), python("w", 0.3), native("", 1, 0.1), unmapped=5),
    )

    assert [(each.name, each.threads) for each in found.groups] == [("w", 2), ("(not named)", 1)]
    assert found.unmapped == 5


def test_pulses_without_threads_lie_within_the_next_sample():
    """Samples are as far apart as their cost wants."""
    found = known(
        sampled(0, None), resource_sample(1, user_ns=5, system_ns=0), sampled(4, 0, python("a", 2))
    )

    assert (found.watched_ns, found.cpu_ns) == (4 * SECOND_NS, 4 * SECOND_NS)
    assert found.groups[0].cores == 0.5


def test_the_wait_of_the_first_thread_is_of_the_same_time():
    """What it waited before the first sample is not in it."""
    found = known(
        sampled(0, None, run_delay_ns=70),
        sampled(1, 0, run_delay_ns=100),
        sampled(2, 1, run_delay_ns=105),
    )

    assert found.run_delay_ns == 35


@pytest.mark.parametrize(
    ("resource_samples", "reason"),
    [
        ((), NOT_TAKEN),
        (
            (resource_sample(0, thread_times=Missing("an older version")),),
            Missing("an older version"),
        ),
        ((sampled(0, None, python("a", 1)),), ONE_SAMPLE),
    ],
    ids=["no pulse", "older", "one sample"],
)
def test_what_is_not_known_has_its_reason(
    resource_samples: tuple[ResourceSample, ...], reason: Missing
):
    """A recording of an earlier version knows nothing of threads."""
    assert thread_times(resource_samples) == reason


def test_the_share_of_an_unknown_whole_is_unknown():
    """An interpreter without `resource` does not tell the CPU time of its process."""
    untold = {"user_ns": Missing("not told")}

    found = known(sampled(0, None, **untold), sampled(1, 0, python("a", 1), **untold))

    assert isinstance(found.groups[0].ratio, Missing)
    assert isinstance(found.ended_ns, Missing)
