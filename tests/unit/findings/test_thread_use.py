"""Threads are judged by their CPU time if one thread, the first, runs the steps."""

from __future__ import annotations

import pytest

from tests.support.profiles import profile
from tests.support.rundir import UNIX_NS
from tests.support.tiers import SECOND_NS, resource_sample
from tfprobe.analysis.system.thread_times import PythonThread, StepThreads, step_threads
from tfprobe.errors import Missing
from tfprobe.profile.activities import ResourceSample, ThreadTimes
from tfprobe.profile.activities import ThreadUse as Use


def main(cpu_s: float, name: str = "MainThread") -> Use:
    return Use(name, True, 1, round(cpu_s * SECOND_NS), runs_steps=True)


def other(cpu_s: float, line: int, *, is_in_python: bool = True) -> Use:
    return Use(
        "worker", True, 1, round(cpu_s * SECOND_NS), False, "job.py", line, "work", is_in_python
    )


def sampled(at_s: int, *threads: Use, **changes) -> ResourceSample:
    """Return a pulse with the time of threads since the second before."""
    times = ThreadTimes(UNIX_NS + (at_s - 1) * SECOND_NS, threads)
    facts = {
        "steps": at_s,
        "machine_steal_ns": 0,
        "user_ns": at_s * SECOND_NS,
        "system_ns": 0,
        "run_delay_ns": 0,
        "thread_times": times,
    }
    return resource_sample(at_s, **{**facts, **changes})


def known(*resource_samples: ResourceSample) -> StepThreads:
    found = step_threads(profile(resource_samples=resource_samples), 0)
    assert isinstance(found, StepThreads)
    return found


def test_the_time_of_the_first_step_is_left_out() -> None:
    """It traces: that is not what the loop does."""
    found = known(
        sampled(0),
        sampled(1, main(0.9), other(0.1, 3)),
        sampled(2, main(0.1), other(0.8, 3), run_delay_ns=SECOND_NS // 4),
        sampled(3, main(0.1), other(1.0, 3, is_in_python=False), run_delay_ns=SECOND_NS // 2),
    )

    assert found == StepThreads(
        steps_cores=0.1,
        delay_ratio=0.25,
        is_alone=False,
        others=(PythonThread("worker", 0.9, "job.py:3", "work", 0.5),),
    )


def test_of_a_short_job_it_is_all_there_is() -> None:
    """One sample before its first step, and one behind it."""
    assert known(sampled(0), sampled(1, main(0.5))).steps_cores == 0.5


def test_what_follows_the_last_step_is_left_out() -> None:
    """The sample at exit tells of the time after the loop as well."""
    found = known(
        sampled(0), sampled(1, main(0.5)), sampled(2, main(0.5)), sampled(9, main(8), at_exit=True)
    )

    assert found.steps_cores == 0.5


@pytest.mark.parametrize(("busy_s", "is_alone"), [(2.4, True), (3, False), (None, False)])
def test_a_process_is_alone_where_others_have_next_to_nothing(
    busy_s: float | None, is_alone: bool
) -> None:
    """It used two seconds of CPU itself."""
    busy_ns = Missing("unknown") if busy_s is None else round(busy_s * SECOND_NS)

    found = known(
        sampled(1, machine_busy_ns=0), sampled(2), sampled(3, main(1), machine_busy_ns=busy_ns)
    )

    assert found.is_alone is is_alone


def test_threads_that_cannot_be_told_apart_are_not_judged() -> None:
    """In Python 3.6 one of the others may be a thread of Python."""
    unmapped = ThreadTimes(UNIX_NS, (main(0.1),), unmapped=1)

    found = step_threads(
        profile(resource_samples=[sampled(1), sampled(2, thread_times=unmapped)]), 0
    )

    assert isinstance(found, Missing)
    assert "3.7" in found.reason


def test_a_hypervisor_that_takes_cpus_is_another() -> None:
    """Of two seconds it took one."""
    found = known(
        sampled(1, machine_busy_ns=0),
        sampled(2),
        sampled(3, main(1), machine_busy_ns=2 * SECOND_NS, machine_steal_ns=SECOND_NS),
    )

    assert found.is_alone is False


@pytest.mark.parametrize(
    "threads",
    [(main(0.5), main(0.5, "Thread-1")), (main(0.5, "Thread-1"),), (other(0.5, 3),)],
    ids=["two threads", "another thread", "none"],
)
def test_steps_of_other_threads_are_not_judged(threads: tuple[Use, ...]) -> None:
    """How long those waited for a CPU is not noted."""
    found = step_threads(profile(resource_samples=[sampled(1), sampled(2, *threads)]), 0)

    assert isinstance(found, Missing)
