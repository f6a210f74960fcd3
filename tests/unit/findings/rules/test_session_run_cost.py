"""Session.run's own cost is told where it takes three tenths of the loop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.subjects import MS, WHOLE_NS, cause, found, loop, ops, process, timing
from tests.support.subjects import line as python_line
from tfprobe.analysis.breakdown.python_lines import GapPython
from tfprobe.analysis.steps.cycle_shares import CycleShares
from tfprobe.analysis.system.application import ActivityInSteps
from tfprobe.analysis.system.thread_times import StepThreads

LINE = python_line("<module>", "train.py:20", "python", 1.0, 1)


def small(before_ms: float, kind: str = "session_run", **changes):
    own = timing(kind=kind, usual_step_ns=1.0 * MS)
    shares = CycleShares(
        {"host_compute": 0.5, "idle": 0.5},
        cycle_ns=10.0 * MS,
        total_ns=float(WHOLE_NS),
        causes=(cause("idle", "before the first op", "", before_ms),),
    )
    python = GapPython((LINE,), 3, "train.py:19")
    return loop(timing=own, parts=shares, python=python, **changes)


def test_three_tenths_are_told_with_the_line_of_the_run() -> None:
    """The bound is what lies before the first op."""
    finding = found("session_run_cost", small(3))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.3
    assert finding.evidence[1].source == "train.py:19"
    assert "make_callable" in finding.action


def test_a_run_that_waits_for_a_cpu_is_small_all_the_same() -> None:
    """Beside other processes it lasts long."""
    usual = timing(kind="session_run", usual_step_ns=50.0 * MS)
    crowded = process(threads=StepThreads(0.1, 0.9, is_alone=False, others=()))

    assert found("session_run_cost", replace(small(3), timing=usual)) is None
    assert found("session_run_cost", replace(small(3, process=crowded), timing=usual)) is not None


@pytest.mark.parametrize(("cores", "is_told"), [(0.09, False), (0.3, True)])
def test_what_the_thread_does_not_run_for_is_no_cost_of_its_own(cores: float, is_told) -> None:
    """Where others take the CPUs, a run waits long for the first op, and a callable as long.

    A thread that had a CPU for 9 % of the time and was ready for 28 % would run for 12.5 % alone.
    """
    crowded = process(threads=StepThreads(cores, 0.28, is_alone=False, others=()))

    finding = found("session_run_cost", small(4, process=crowded))

    assert (finding is not None) is is_told
    assert finding is None or finding.gain.high_ratio == pytest.approx(0.4)


def test_less_is_not() -> None:
    """Every run costs something."""
    assert found("session_run_cost", small(2.9)) is None


def test_a_callable_is_not() -> None:
    """It is what the advice says."""
    assert found("session_run_cost", small(5, kind="callable")) is None


@pytest.mark.parametrize("kind", ["train", "evaluate", "predict"])
def test_runs_of_an_estimator_are_not(kind: str) -> None:
    """Nobody can make a callable of them."""
    owner = process(activities=(ActivityInSteps(kind, "Estimator.train", 1, 0),))

    assert found("session_run_cost", small(5, process=owner)) is None


def test_what_a_usual_run_takes_beyond_its_ops_counts() -> None:
    """Runs of 8 ms whose ops take 4; what is fed and fetched is not counted."""
    fed = CycleShares({"host_compute": 0.8, "feed": 0.1, "fetch": 0.1}, 10.0 * MS, float(WHOLE_NS))
    around = replace(small(0), ops=ops(span_ns=4.0 * MS))

    finding = found("session_run_cost", around)

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.4
    assert found("session_run_cost", replace(around, parts=fed)) is None
