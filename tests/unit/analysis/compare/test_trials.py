"""Gains are told only where they clear the noise, and results are compared bit by bit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tfprobe.analysis.compare.trials import (
    LEAST_UNITS,
    Losses,
    Marks,
    ProcessTimes,
    ResultsComparison,
    SameResults,
    Verdict,
    Weights,
    compare_losses,
    compare_results,
    gain,
    process_times,
)
from tfprobe.errors import Missing

MS = 1_000_000


def marks(unit_ms: float, *, units: int = 400, seed: int = 0, noise: float = 0.05) -> Marks:
    """Return marks at each unit; CPU time is half of the wall time."""
    random = np.random.default_rng(seed)
    lengths = unit_ms * MS * (1 + noise * random.standard_normal(units))
    ends = np.cumsum(np.maximum(lengths, 1)).astype(np.int64)
    return Marks(ends, ends // 2, np.arange(1, units + 1, dtype=np.int64))


def process(unit_ms: float, *, seed: int = 0, noise: float = 0.05) -> ProcessTimes:
    found = process_times(marks(unit_ms, seed=seed, noise=noise))
    assert isinstance(found, ProcessTimes)
    return found


def processes(unit_ms: float, *seeds: int) -> list[ProcessTimes]:
    """Return processes that differ by 1 % among each other, as real ones do."""
    return [process(unit_ms * (1 + 0.01 * (seed % 3 - 1)), seed=seed) for seed in seeds]


def test_a_gain_is_the_time_saved_of_each_unit() -> None:
    """The interval holds it, and is narrow if processes agree."""
    found = gain(processes(10, 1, 2, 3), processes(2, 4, 5, 6))

    assert found.verdict is Verdict.WON
    assert found.wall.low_ratio <= 0.8 <= found.wall.high_ratio
    assert found.wall.ratio == pytest.approx(0.8, abs=0.01)
    assert found.cpu.ratio == pytest.approx(0.8, abs=0.01)


def test_a_loss_is_told_as_one() -> None:
    """XLA on a CPU made a job 37 % slower."""
    found = gain(processes(10, 1, 2, 3), processes(13.7, 4, 5, 6))

    assert found.verdict is Verdict.LOST
    assert found.wall.high_ratio < 0


def test_nothing_is_won_among_pairs_of_one_program() -> None:
    """Processes of one program differ by some percent: of 32 pairs none is told apart."""
    verdicts = []
    for seed in range(32):
        random = np.random.default_rng(seed)
        levels = 10 * (1 + 0.04 * random.standard_normal((2, 2)))
        bases, arm = (
            [process(level, seed=100 * seed + at) for at, level in enumerate(side)]
            for side in levels
        )
        verdicts.append(gain(bases, arm).verdict)

    assert set(verdicts) == {Verdict.UNKNOWN}


def test_a_gain_within_the_difference_of_two_bases_cannot_be_told() -> None:
    """However narrow its interval is. The least gain that would have been seen is told."""
    bases = [process(10, seed=1), process(12, seed=2)]

    found = gain(bases, processes(9.5, 3, 4))

    assert found.verdict is Verdict.UNKNOWN
    assert "two bases" in found.why
    assert found.error_ratio == pytest.approx(1 / 6, abs=0.02)
    assert found.least_ratio > found.error_ratio


def test_more_comparisons_make_intervals_wider() -> None:
    """Of twenty fixes that do nothing, one would otherwise win."""
    sides = processes(10, 1, 2, 3), processes(9, 4, 5, 6)

    one, many = gain(*sides), gain(*sides, comparisons=20)

    assert many.wall.low_ratio < one.wall.low_ratio
    assert many.wall.high_ratio > one.wall.high_ratio


@pytest.mark.parametrize(("is_busy", "verdict"), [(True, Verdict.UNKNOWN), (False, Verdict.LOST)])
def test_where_wall_and_cpu_time_contradict_a_busy_machine_decides_nothing(
    is_busy, verdict
) -> None:
    """One thread instead of two saves CPU time and takes longer."""
    slow = [
        ProcessTimes(one.wall_ns * 1.5, one.cpu_ns * 0.5, one.units) for one in processes(10, 4, 5)
    ]

    found = gain(processes(10, 1, 2), slow, is_busy=is_busy)

    assert found.verdict is verdict


def _noisy(unit_ms: float, cpu_ms: float, factor: float, seed: int) -> ProcessTimes:
    """Return a process whose steps take `factor` times as long because of others, but no CPU."""
    one = process(unit_ms * factor, seed=seed)
    return ProcessTimes(one.wall_ns, cpu_ms * MS * one.units * (1 + 0.01 * seed), one.units)


def test_cpu_time_tells_where_throughput_cannot() -> None:
    """Bases that differ by 40 % hide a gain of a half; in CPU time they differ by a percent."""
    bases = [_noisy(10, 8, 1.0, 1), _noisy(10, 8, 1.4, 2)]
    arm = [_noisy(5, 3, 1.2, 3), _noisy(5, 3, 0.8, 4)]

    found = gain(bases, arm, is_busy=True)

    assert found.verdict is Verdict.UNKNOWN
    assert found.cpu_tells
    assert found.cpu.low_ratio <= 0.625 <= found.cpu.high_ratio
    assert not gain(bases, arm, is_busy=True, is_cpu_comparable=False).cpu_tells


def test_cpu_time_tells_nothing_that_throughput_tells_or_denies() -> None:
    """Throughput is the answer; a step that takes longer has not won what its CPU time saves."""
    bases = [_noisy(10, 8, 1.0, 1), _noisy(10, 8, 1.4, 2)]
    slower = [_noisy(12, 3, 1.2, 3), _noisy(12, 3, 0.9, 4)]

    denied = gain(bases, slower)
    told = gain(processes(10, 1, 2, 3), processes(2, 4, 5, 6))

    assert (denied.verdict, denied.cpu_tells) == (Verdict.UNKNOWN, False)
    assert (told.verdict, told.cpu_tells) == (Verdict.WON, False)


def test_one_base_is_not_enough() -> None:
    """Without a second one, nobody knows how far two of them are apart."""
    with pytest.raises(ValueError, match="two bases"):
        gain(processes(10, 1), processes(5, 2))


def test_too_few_units_are_missing_with_their_number() -> None:
    """And not a gain of 0."""
    found = process_times(marks(10, units=LEAST_UNITS))

    assert isinstance(found, Missing)
    assert f"only {LEAST_UNITS - 1} units" in found.reason


def test_blocks_hold_all_units_and_all_time() -> None:
    """No unit is divided between two."""
    of = marks(10)

    found = process_times(of)

    assert isinstance(found, ProcessTimes)
    assert found.units.sum() == of.units[-1] - of.units[0]
    assert found.wall_ns.sum() == of.mono_ns[-1] - of.mono_ns[0]


def test_units_of_the_warm_up_are_left_out() -> None:
    """The first ones, and one that compiles again soon after."""
    of = marks(10)
    late = of.mono_ns + np.where(of.units > 30, 5000 * MS, 0)

    warm = Marks(late, of.cpu_ns, of.units).without_warm_up(16)

    assert warm.units[0] == 31
    assert warm.units[-1] == 400


def test_what_is_slow_again_and_again_is_no_warm_up() -> None:
    """A job that saves at each tenth step is measured with its saves."""
    of = marks(10)
    late = of.mono_ns + (of.units // 10) * 100 * MS

    warm = Marks(late, of.cpu_ns, of.units).without_warm_up(16)

    assert warm.units[0] == 16


def weights(*values: float, unit: int = 16) -> Weights:
    array = np.array(values)
    return Weights(unit, tuple(float(value).hex() for value in values), array)


def same(bases: list[Weights | Missing], arm: list[Weights | Missing]) -> SameResults:
    found = compare_results(bases, arm)
    assert isinstance(found, ResultsComparison)
    return found.same


def test_equal_weights_are_identical() -> None:
    """To the last bit, in all processes."""
    assert same([weights(1, 2)] * 2, [weights(1, 2)] * 2) is SameResults.IDENTICAL


def test_weights_a_last_bit_apart_are_rounding() -> None:
    """Sums in another order."""
    arm = [weights(1, np.nextafter(2, 3))]

    assert same([weights(1, 2)] * 2, arm) is SameResults.ROUNDING


def test_other_weights_are_different() -> None:
    """And the distance is told."""
    found = compare_results([weights(3, 4)] * 2, [weights(3, 4.5)])

    assert isinstance(found, ResultsComparison)
    assert found.same is SameResults.DIFFERENT
    assert found.distance_ratio == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("bases", "arm", "why"),
    [
        ([weights(1), weights(2)], [weights(1)], "differ already"),
        ([weights(1)] * 2, [weights(1, unit=32)], "different units"),
        ([weights(1)] * 2, [Missing("the job has none")], "the job has none"),
        ([weights(1)] * 2, [weights(1, 2)], "another number of arrays"),
        ([weights(1)] * 2, [Weights(16, ("two",), np.ones(2))], "not of one shape"),
        ([weights(1)] * 2, [], "no weights"),
    ],
)
def test_what_cannot_be_compared_has_its_reason(bases, arm, why) -> None:
    """Nothing is called identical by default."""
    found = compare_results(bases, arm)

    assert isinstance(found, Missing)
    assert why in found.reason


def losses(*values: float, first: int = 1) -> Losses:
    return Losses({first + at: value for at, value in enumerate(values)})


@pytest.mark.parametrize(
    ("arm", "same", "distance"),
    [
        (losses(1.0, 0.5), SameResults.IDENTICAL, 0.0),
        (losses(1.0, 0.5 * (1 + 1e-6)), SameResults.ROUNDING, 1e-6),
        (losses(1.0, 0.6), SameResults.DIFFERENT, 0.2),
        (losses(1.0, math.nan), SameResults.DIFFERENT, math.inf),
        (losses(0.5, first=2), SameResults.IDENTICAL, 0.0),
    ],
)
def test_losses_are_compared_at_the_same_steps(arm, same, distance) -> None:
    """By the largest relative difference at a step that all have."""
    found = compare_losses([losses(1.0, 0.5)] * 2, [arm])

    assert not isinstance(found, Missing)
    assert found.same is same
    assert found.distance_ratio == pytest.approx(distance)


def test_losses_that_are_no_numbers_are_the_same() -> None:
    """The base computes NaN, too."""
    found = compare_losses([losses(math.nan, math.inf)], [losses(math.nan, math.inf)])

    assert found == ResultsComparison(SameResults.IDENTICAL, 0.0)


@pytest.mark.parametrize(
    ("bases", "arms", "why"),
    [
        ([losses(1.0), losses(2.0)], [losses(1.0)], "differ already"),
        ([losses(1.0)], [losses(1.0, first=5)], "different units"),
        ([losses(1.0)], [Missing("no step has given a scalar loss")], "no step"),
        ([], [], "no losses"),
    ],
)
def test_losses_that_cannot_be_compared_say_why(bases, arms, why) -> None:
    """As weights do."""
    found = compare_losses(bases, arms)

    assert isinstance(found, Missing)
    assert why in found.reason
