"""Who is slower than the others by more than chance."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.scale.stragglers import named
from tests.support.planted import team
from tfprobe.analysis.distributed.slow_ranks import excesses, lateness, slow_by_medians

SMALL = {"ranks": 16, "steps": 80, "recorded": 12, "collectives": 2, "per_machine": 8}


def table(excess: dict[int, float], *, rows: int = 16, steps: int = 60, seed: int = 0):
    """Return times of 100 ms with 1 % of scatter, and the usual time of each step."""
    turn = np.random.default_rng(seed)
    times = 1e8 * (1 + 0.01 * turn.standard_normal((rows, steps)))
    for row, ratio in excess.items():
        times[row] *= 1 + ratio
    return times, np.full(steps, 1e8)


def names(times, cycle) -> list[int]:
    return [each.row for each in lateness(times, cycle) if each.is_named]


@pytest.mark.parametrize("kind", ["together", "input", "alone"])
@pytest.mark.parametrize("seed", range(3))
def test_the_slow_one_is_named_and_nobody_else(kind: str, seed: int) -> None:
    """Whether ranks wait for each other, for input, or step each by itself."""
    made = team(seed, is_slow=True, kind=kind, slower=0.15, **SMALL)

    assert [each.process for each in named(made)] == [made.slow]


@pytest.mark.parametrize("kind", ["together", "input", "alone"])
@pytest.mark.parametrize("seed", range(3))
def test_nobody_is_named_among_equals(kind: str, seed: int) -> None:
    """Chance always makes one the slowest."""
    assert named(team(seed, is_slow=False, kind=kind, **SMALL)) == ()


def test_several_slow_ones_are_all_named() -> None:
    """Those of one machine are slow together."""
    assert names(*table({3: 0.1, 4: 0.1, 5: 0.2})) == [3, 4, 5]


def test_one_that_scatters_is_not_slow() -> None:
    """Its mean is off by chance: its own steps say how far."""
    times, cycle = table({})
    times[7] = 1e8 * (1 + 0.3 * np.random.default_rng(5).standard_normal(times.shape[1]))
    times[7] += 3e6

    assert names(times, cycle) == []


def test_who_scatters_more_than_the_team_is_off_by_more() -> None:
    """Many are slightly unequal; one of the few that scatter is beyond them by chance alone."""
    turn = np.random.default_rng(11)
    own = 1 + 0.003 * turn.standard_normal((64, 1))
    times = 1e8 * (own + 0.004 * turn.standard_normal((64, 126)))
    scatter = 0.055 * turn.standard_normal(126)
    times[15] = 1e8 * (1.022 + scatter - scatter.mean())

    [found] = [each for each in lateness(times, np.full(126, 1e8)) if each.row == 15]

    assert not found.is_named
    assert found.excess_ratio > 0.02


def test_one_bad_quarter_is_not_a_slow_process() -> None:
    """A burst of another job on the machine is a question of steps, not of ranks."""
    times, cycle = table({})
    times[2, :15] *= 3

    assert names(times, cycle) == []


def test_of_two_a_tenth_is_told_and_less_is_not() -> None:
    """There is nobody else who would say what is usual."""
    assert names(*table({1: 0.2}, rows=2)) == [1]
    assert names(*table({1: 0.07}, rows=2)) == []


def test_a_process_two_fifths_slower_is_named_and_one_a_fifth_slower_beside_it_is_not() -> None:
    """Of five, the others' range says what is usual."""
    times = np.repeat([[10e6], [10e6], [10e6], [12e6], [14e6]], 60, axis=1)

    assert names(times, np.full(60, 10e6)) == [4]


@pytest.mark.parametrize(("late_ms", "slow"), [(10.5, [3]), (10.1, [])])
def test_a_process_that_is_a_little_late_in_every_step_is_named(late_ms, slow) -> None:
    """A twentieth in each step is no chance; a hundredth is not worth a word."""
    times = np.repeat([[10e6], [10e6], [10e6], [late_ms * 1e6]], 60, axis=1)

    assert names(times, np.full(60, 10e6)) == slow


def test_medians_of_steps_are_judged_by_the_same_criterion() -> None:
    """What `top` knows: the newest median comes last, whatever number of them there is."""
    usual = [10e6, 10.2e6, 9.9e6, 10.1e6, 10e6, 10.3e6]

    found = slow_by_medians({0: usual, 1: usual[1:], 2: usual, 3: [1.5 * each for each in usual]})

    assert [(each.process, each.measure) for each in found] == [(3, "step")]
    assert slow_by_medians({0: usual, 1: usual, 2: usual, 3: [*usual[1:], 90e6]}) == ()


def test_of_two_medians_of_steps_do_not_say_who_is_slow() -> None:
    """Steps are long in the one that is slow, or in the one that waits for it."""
    assert slow_by_medians({0: [10e6] * 9, 1: [20e6] * 9, 2: []}) == ()


def test_half_of_a_team_on_older_machines_is_no_straggler() -> None:
    """Two kinds of machines are what is usual there."""
    assert names(*table(dict.fromkeys(range(8), 0.2))) == []


def test_steps_that_one_process_alone_knows_are_compared_with_nobody() -> None:
    """With a budget each process chooses its own steps to record."""
    times, cycle = table({}, rows=3, steps=30)
    for row in range(3):
        times[row, np.arange(30) % 3 != row] = np.nan

    assert np.isnan(excesses(times, cycle)).all()
    assert lateness(times, cycle) == ()


def test_each_excess_is_of_one_step() -> None:
    """Never a step of one with another step of the other."""
    times = np.array([[100.0, 400.0], [110.0, 400.0], [100.0, 480.0]])

    found = excesses(times, np.array([100.0, 400.0]))

    assert found == pytest.approx(np.array([[0, 0], [0.1, 0], [0, 0.2]]))


def test_workers_that_a_busy_machine_slows_in_turns_are_equal() -> None:
    """Another job slows many steps in a row, which are one misfortune and not many."""
    accused = 0
    for seed in range(40):
        turn = np.random.default_rng(seed)
        busy = np.repeat(turn.random((2, 16)), 25, axis=1)
        times = 1e8 * (1 + busy + 0.05 * turn.standard_normal(busy.shape))
        accused += bool(names(times, np.full(400, 1.5e8)))

    # Of these forty runs, six would be accused if each step counted as independent of the last.
    assert accused <= 1


def test_of_two_the_constantly_slow_one_is_named_on_a_busy_machine() -> None:
    """What lasts over all of the run is no chance."""
    turn = np.random.default_rng(3)
    busy = np.repeat(turn.random((1, 16)), 25, axis=1)
    times = 1e8 * (1 + busy + 0.05 * turn.standard_normal((2, 400)))
    times[1] += 3e7

    assert names(times, np.full(400, 1.5e8)) == [1]
