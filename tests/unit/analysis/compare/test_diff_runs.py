"""Several runs a side: the scatter between runs says what is a change, and what nobody can tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.support.profiles import Step, op, profile, timed_loop
from tfprobe.analysis.compare.gate import judge_runs
from tfprobe.analysis.compare.several_runs import Observation, RunsChange, compare_runs, quantile
from tfprobe.analysis.compare.sides import Sides, SidesAnswer, levels, sides
from tfprobe.errors import Missing
from tfprobe.profile.activities import ResourceSample
from tfprobe.profile.profile import UNTOLD, Loop, Profile, Run
from tfprobe.report.documents.comparison_document import several_runs_document

MS = 1_000_000


@pytest.mark.parametrize(
    ("confidence", "degrees", "t"),
    [(0.95, 1, 12.706), (0.95, 4, 2.776), (0.99, 3, 5.841), (0.9, 10, 1.812), (0.95, 1e6, 1.960)],
)
def test_quantiles_are_those_of_the_tables(confidence: float, degrees: float, t: float):
    """As in any textbook of statistics."""
    assert quantile(confidence, degrees) == pytest.approx(t, abs=5e-4)


def change(before: Sequence[float], after: Sequence[float], *, error: float = 0.0) -> RunsChange:
    one, other = ([Observation(level, error) for level in side] for side in (before, after))
    found = compare_runs(one, other, comparisons=1)
    assert isinstance(found, RunsChange)
    return found


def test_the_interval_is_that_of_the_books():
    """Logarithms of -0.1, 0 and 0.1 a side: variance 0.01, four degrees of freedom, t of 2.776."""
    side = np.exp([-0.1, 0.0, 0.1])
    found = change(side.tolist(), (1.2 * side).tolist())

    assert found.degrees == pytest.approx(4)
    assert found.ratio == pytest.approx(0.2)
    width = 2.776 * 0.1 * math.sqrt(2 / 3)
    assert math.log1p(found.high_ratio) == pytest.approx(math.log(1.2) + width, abs=1e-3)
    assert math.log1p(found.low_ratio) == pytest.approx(math.log(1.2) - width, abs=1e-3)


def test_a_side_that_scatters_alone_counts_alone():
    """Welch's degrees of freedom are then those of that side, 2 of three runs."""
    found = change([10, 10.0001, 9.9999], [11, 13, 9])

    assert found.degrees == pytest.approx(2, abs=1e-3)


def test_a_single_run_has_the_scatter_of_the_others():
    """The interval is one of prediction: a new run of three before, variance times 1 + 1/3."""
    found = change(np.exp([-0.1, 0.0, 0.1]).tolist(), [1.2])

    width = 4.303 * 0.1 * math.sqrt(4 / 3)
    assert found.degrees == 2
    assert math.log1p(found.high_ratio) == pytest.approx(math.log(1.2) + width, abs=1e-3)


def test_a_change_beyond_the_scatter_of_runs_is_one():
    """Three runs per side that differ by a percent show a change of 10 %."""
    found = change([10, 10.1, 9.9], [11, 11.1, 10.9])

    assert found.is_significant
    assert found.low_ratio < 0.1 < found.high_ratio


def test_what_is_within_the_scatter_is_none():
    """Runs that differ by a third do not show a change of 10 %, but say which they would."""
    found = change([10, 13, 8], [11, 14, 9])

    assert not found.is_significant
    assert found.least_ratio > 0.5


@pytest.mark.slow
def test_of_equal_runs_few_are_told_to_differ():
    """At most one in twenty comparisons is wrong, whatever the number of runs per side."""
    for counts in ((2, 2), (3, 3), (5, 1), (2, 1), (8, 8)):
        alarms = 0
        for seed in range(100):
            random = np.random.default_rng([seed, *counts])
            one, other = (np.exp(0.1 * random.standard_normal(count)) for count in counts)
            alarms += change(one.tolist(), other.tolist()).is_significant
        assert alarms <= 12, counts  # 5 are expected, and 7 more are three deviations


def test_runs_that_agree_by_luck_are_no_surer_than_each_is():
    """Two equal levels have no variance, but each run knows its own."""
    assert change([10, 10], [10.5, 10.5]).is_significant
    assert not change([10, 10], [10.5, 10.5], error=0.05).is_significant


def test_one_run_a_side_has_no_scatter():
    """That is what comparing two recordings is for."""
    found = compare_runs([Observation(1)], [Observation(2)], comparisons=1)

    assert found == Missing("one run per side does not show how much runs vary")


def recorded(
    level_ms: float, *, at: int = 0, load: float | None = None, cpu_ms: float | None = None
) -> Profile:
    """Return a run whose steps take about so long, the `at`-th to be started."""
    jitter = [round(MS * level_ms * (1 + step % 5 / 1000)) for step in range(200)]
    facts = {
        **dict.fromkeys(ResourceSample.__dataclass_fields__, UNTOLD),
        "at_exit": False,
        "devices": (),
    }
    facts |= {"process": 0, "cpus": 2} | ({} if load is None else {"load_1min": load})
    if cpu_ms is not None:
        facts["system_ns"] = 0
    resource_samples = tuple(
        ResourceSample(**facts | {"at_ns": second * 1000 * MS, "steps": second * 100}
              | ({} if cpu_ms is None else {"user_ns": round(second * 100 * cpu_ms * MS)}))
        for second in range(4)
    )  # fmt: skip
    steps = [Step([op("MatMul", 0, round(900 * level_ms)), op("Relu", 0, 90)])] * 6
    started = f"2026-11-20T20:{at:02}:00+00:00"
    run = Run(f"r{at}", f"/runs/r{at}", ("python", "a.py"), started, "finished")
    return profile(
        steps, loops=[timed_loop(jitter, MS)], resource_samples=resource_samples, run=run
    )


def compared(before: Sequence[Profile], after: Sequence[Profile]) -> Sides:
    reference = before[0]
    ones, others = ([levels(reference, run) for run in side] for side in (before, after))
    found = sides(reference, after[0], ones, others)
    assert isinstance(found, Sides)
    return found


def by_turns(before_ms: Sequence[float], after_ms: Sequence[float], **facts: float) -> Sides:
    return compared(
        [recorded(level, at=2 * at, **facts) for at, level in enumerate(before_ms)],
        [recorded(level, at=2 * at + 1, **facts) for at, level in enumerate(after_ms)],
    )


@pytest.mark.parametrize(
    ("after_ms", "answer"),
    [
        ((11.0, 11.1, 10.9), SidesAnswer.SLOWER),
        ((9.0, 9.1, 8.9), SidesAnswer.FASTER),
        ((10.02, 10.0, 9.98), SidesAnswer.NO_CHANGE),
        ((8.0, 14.0, 11.0), SidesAnswer.UNKNOWN),
    ],
)
def test_there_are_four_answers(after_ms: Sequence[float], answer: SidesAnswer):
    """Slower, faster, no change that would have been detected, and unknown."""
    assert by_turns((10.0, 10.1, 9.9), after_ms).answer is answer


def test_what_changed_inside_a_step_is_listed():
    """Op types are compared by runs, too."""
    (loop,) = by_turns((10.0, 10.1, 9.9), (12.0, 12.1, 11.9)).loops

    changes = dict(loop.ops.changes)
    assert changes["MatMul"].is_significant
    assert not changes["Relu"].is_significant


def test_the_judged_share_the_risk():
    """Two measures have half of it each, so that one in twenty comparisons is wrong, not two."""
    (loop,) = by_turns((10.0, 10.1, 9.9), (11.0, 11.1, 10.9)).loops

    assert [name for name, _ in loop.verdicts] == ["step", "cycle"]
    assert {change.confidence for _, change in loop.verdicts} == {0.975}


def test_on_a_busy_machine_cpu_time_is_judged_too():
    """Steps vary by half and show nothing; their CPU time does."""
    before = [recorded(ms, at=2 * at, load=9.0, cpu_ms=8) for at, ms in enumerate((10, 15, 20))]
    after = [recorded(ms, at=2 * at + 1, load=9.0, cpu_ms=9) for at, ms in enumerate((10, 20, 15))]
    found = compared(before, after)

    assert found.answer is SidesAnswer.SLOWER
    assert [name for name, _ in found.loops[0].decisive] == ["cpu"]
    assert "9.0 on 2 CPUs" in found.load


def test_more_cpu_time_in_less_time_is_faster():
    """As of a program that now uses both CPUs."""
    before = [recorded(10, at=2 * at, load=9.0, cpu_ms=8) for at in range(3)]
    after = [recorded(6, at=2 * at + 1, load=9.0, cpu_ms=9) for at in range(3)]

    assert compared(before, after).answer is SidesAnswer.FASTER


def test_sides_that_were_not_recorded_by_turns_are_told():
    """A drift of the machine affects only one side."""
    early, late = (
        [recorded(10, at=at) for at in range(3)],
        [recorded(10, at=5 + at) for at in (0, 1)],
    )

    assert not compared(early, late).is_in_turns
    assert by_turns((10, 10), (10, 10)).is_in_turns


def test_a_work_that_a_run_lacks_is_not_compared():
    """And where none is left, that is the answer."""
    other: Loop = timed_loop([MS] * 200, kind="fit", name="m")
    run = recorded(10, at=1)
    lacking = replace(run, loops=(other,))
    reference = recorded(10)

    found = sides(
        reference,
        lacking,
        [levels(reference, reference)] * 2,
        [levels(reference, lacking), levels(reference, run)],
    )

    assert found == Missing("they have no kind of step in common")


def test_a_run_with_too_few_steps_is_no_observation():
    """The answer says where, and nothing is judged."""
    short = recorded(10, at=1)
    short = replace(short, loops=(timed_loop([10 * MS] * 5, MS),))
    found = compared([recorded(10), recorded(10, at=2)], [short])

    (loop,) = found.loops
    assert dict(loop.measures)["step"] == Missing("not all runs have enough of it")
    assert found.answer is SidesAnswer.UNKNOWN
    assert judge_runs(found, on="steps", allowed_ratio=0.05).fails


@pytest.mark.parametrize(
    ("after_ms", "allowed", "word"),
    [
        ((11.0, 11.1, 10.9), 0.05, "FAIL"),
        ((11.0, 11.1, 10.9), 0.2, "pass"),
        ((9.0, 9.1, 8.9), 0.05, "pass"),
        ((10.02, 10.0, 9.98), 0.05, "pass"),
        ((8.0, 14.0, 11.0), 0.05, "cannot be told"),
    ],
)
def test_the_gate_judges_runs(after_ms: Sequence[float], allowed: float, word: str):
    """It fails if something is significantly slower; runs that vary too much are reported."""
    found = by_turns((10.0, 10.1, 9.9), after_ms)

    assert judge_runs(found, on="steps", allowed_ratio=allowed).word == word


def test_the_gate_judges_ops_of_runs():
    """A type of op that takes a fifth longer on all runs."""
    found = by_turns((10.0, 10.1, 9.9), (12.0, 12.1, 11.9))

    verdict = judge_runs(found, on="op", allowed_ratio=0.1)

    assert verdict.fails
    assert verdict.why.startswith("the time of MatMul in session_run loss grew by 20.0 %")


def test_the_document_has_every_run():
    """With its level, and the least change that would have been detected."""
    found = several_runs_document(by_turns((10.0, 10.1, 9.9), (11.0, 11.1, 10.9)), [])

    (loop,) = found["works"]
    step = loop["measures"]["step"]
    assert (found["schema"], found["verdict"]) == ("tfprobe.diff-runs/1", "slower")
    assert len(step["runs_a_ns"]) == len(found["a"]) == 3
    assert 0 < step["least_ratio"] < 0.05
    assert loop["measures"]["cpu"] == {"missing": "not all runs have enough of it"}
