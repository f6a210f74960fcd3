"""A thread that computes in Python while steps wait for its lock is told with its line."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.subjects import WHOLE_NS, found, loop, parts, process
from tests.support.subjects import line as python_line
from tfprobe.analysis.breakdown.python_lines import GapPython
from tfprobe.analysis.system.thread_times import PythonThread, StepThreads
from tfprobe.errors import Missing
from tfprobe.findings.finding import Finding, Severity

# A cycle in which no op runs for most of the time.
WAITING = parts(idle=0.5, fetch=0.4)


def thread(cores: float = 0.9, **changes: Any) -> PythonThread:
    facts: dict[str, Any] = {
        "name": "Thread-1 (statistics)",
        "source": "train.py:26",
        "function": "statistics",
        "in_python_ratio": 1.0,
    }
    return PythonThread(cores=cores, **{**facts, **changes})


def find(
    *others: PythonThread, steps: float = 0.1, delay: float = 0.0, **changes: Any
) -> Finding | None:
    use = StepThreads(steps, delay, changes.pop("is_alone", True), others)
    facts = {"parts": WAITING, "process": process(threads=use), **changes}
    return found("gil_held", loop(**facts))


def test_a_thread_that_computes_while_the_steps_wait_is_told() -> None:
    """The bound is the time in which the thread of the steps did not run, and some of its own."""
    finding = find(thread(), steps=0.12, parts=parts(idle=0.95))

    assert finding is not None
    assert finding.severity is Severity.CRITICAL
    assert finding.gain.high_ns == round((0.88 + 0.4 * 0.12) * WHOLE_NS)
    assert finding.evidence[0].source == "train.py:26"
    assert "Thread-1 (statistics) computed in Python for 90 % of the time" in (
        finding.evidence[0].text
    )
    assert "process" in finding.action


def test_half_a_cpu_is_enough_and_less_is_not() -> None:
    """Of several threads together."""
    assert find(thread(0.5)) is not None
    assert find(thread(0.3), thread(0.2)) is not None
    assert find(thread(0.49)) is None
    assert find() is None


def test_a_thread_of_steps_that_runs_waits_for_nothing() -> None:
    """Be it in Python or in ops of its own."""
    assert find(thread(), steps=0.96) is None
    assert find(thread(), steps=0.5, delay=0.46) is None


def test_steps_that_compute_wait_for_their_ops() -> None:
    """A thread beside steps that compute all the time holds nobody up."""
    assert find(thread(), parts=parts(idle=0.04)) is None
    assert find(thread(), parts=parts(input_wait=0.5)) is None


def test_the_bound_is_no_more_than_the_parts_without_an_op() -> None:
    """What steps wait for input is another finding's."""
    finding = find(thread(), parts=parts(idle=0.3, input_wait=0.5))

    assert finding is not None
    assert finding.gain.high_ns == round(0.3 * WHOLE_NS)


@pytest.mark.parametrize("kind", ["sleep", "lock", "wait", "subprocess"])
def test_what_a_line_waits_for_is_not_the_lock_of_the_interpreter(kind: str) -> None:
    """Of the 200 ms between steps a line sleeps, or takes a lock of the job's own."""
    lines = GapPython((python_line("call", "train.py:40", kind, 1.0, 1),), 3)

    assert find(thread(), parts=parts(fetch=0.2), python=lines) is None
    assert find(thread(), parts=parts(fetch=0.4), python=lines).gain.high_ns == WHOLE_NS // 5


def test_a_wait_for_a_cpu_is_in_the_bound_and_not_in_what_is_likely() -> None:
    """The thread that computes takes a CPU, too, and so do other processes."""
    finding = find(thread(), delay=0.5)

    assert finding is not None
    assert finding.gain.high_ns == round(0.9 * WHOLE_NS)
    assert finding.gain.low_ns == round(0.8 * 0.4 * WHOLE_NS)


def test_beside_other_processes_it_is_half_of_what_a_thread_could_have() -> None:
    """The thread of the steps had a third of the CPU time that it wanted."""
    loaded = {"steps": 0.1, "delay": 0.2, "is_alone": False}

    assert find(thread(0.17), **loaded) is not None
    assert find(thread(0.16), **loaded) is None
    assert find(thread(0.4), **{**loaded, "is_alone": True}) is None


def test_a_thread_within_calls_may_do_without_the_lock() -> None:
    """NumPy gives it up: that is a note, and no more."""
    finding = find(thread(in_python_ratio=0.4))

    assert finding is not None
    assert finding.severity is Severity.INFO
    assert "within calls" in finding.evidence[0].text


def test_a_thread_of_unknown_place_is_not_told() -> None:
    """There would be nothing to change."""
    assert find(thread(source="")) is None


def test_only_the_main_loop_is_looked_at() -> None:
    """The evaluation beside it waits just the same."""
    assert find(thread(), is_main=False) is None


def test_without_the_time_of_threads_it_is_not_checked() -> None:
    """A recording of an earlier version has none."""
    unknown = process(threads=Missing("an earlier version"))

    assert found("gil_held", loop(parts=WAITING, process=unknown)) is None
