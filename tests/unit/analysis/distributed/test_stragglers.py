"""Who is slower than the others by more than chance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.scale.stragglers import named
from tests.support.planted import KEY, team
from tests.support.profiles import process as described
from tests.support.profiles import profile, timed_loop
from tfprobe.analysis.distributed.rank_parts import RankPart, rank_parts_of
from tfprobe.analysis.distributed.rank_waits import Turn
from tfprobe.analysis.distributed.slow_ranks import (
    excesses,
    lateness,
    slow_by_medians,
    slow_ranks,
    stragglers,
)

MS = 1_000_000

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


def test_where_ranks_are_anything_from_fast_to_slow_the_slowest_is_one_of_them() -> None:
    """The spread of the team is large, so the last is no outlier."""
    assert names(*table({row: row / 40 for row in range(16)})) == []


def test_a_long_first_step_makes_nobody_late() -> None:
    """A chief restores and traces in it. The others waited for that one step alone."""
    times, cycle = table({})
    times[3, 0] *= 100

    assert names(times, cycle) == []


def pace(step_ms: float, gap_ms: float, process: int) -> RankPart:
    """Return a rank with a hundred steps as long as this."""
    loops = [timed_loop([round(step_ms * MS)] * 100, round(gap_ms * MS), process=0, index=0)]
    (part,) = rank_parts_of(profile(processes=[described(rank=process)], loops=loops))
    return part


def slow_of(*paces: tuple[float, float]) -> list[tuple[int, str, bool]]:
    parts = [pace(*each, process) for process, each in enumerate(paces)]
    return [(each.process, each.measure, each.is_waited_for) for each in slow_ranks(parts)]


def test_who_is_late_to_its_steps_makes_the_others_wait_in_theirs() -> None:
    """All take equally long from step to step."""
    assert slow_of((2, 8), (9, 1)) == [(0, "between", True)]


def test_who_steps_at_its_own_pace_makes_nobody_wait() -> None:
    """It takes longer between its steps, and no step of others is longer for it."""
    found = slow_of((8, 4), (8, 1), (8, 1))

    assert [(process, is_waited_for) for process, _, is_waited_for in found] == [(0, False)]
    assert [each[2] for each in slow_of((8, 4), (6, 1))] == [False]


def test_of_three_ranks_both_others_wait_for_the_slow_one_between_their_steps() -> None:
    """One alone with longer steps is slow itself."""
    assert slow_of((10, 1), (5, 6), (5, 6)) == [(0, "step", True)]


def test_jobs_of_one_run_are_compared_each_by_itself() -> None:
    """A script that runs one job after the other has each rank twice."""
    first = [pace(5, 6, 0), pace(5, 6, 1), pace(10, 1, 2)]
    second = [pace(50, 60, rank) for rank in range(3)]
    second = [replace(each, process=replace(each.process, group=3)) for each in second]

    assert [each.process for each in slow_ranks([*first, *second])] == [2]
    assert slow_ranks([first[0], second[0]]) == ()


MANY = {**SMALL, "kind": "input", "slower": 0.15}


def judged(ranks: int, last: int, waiting_ns: int) -> bool:
    """Say whether the slow one of a team is named that came so often last to 100 collectives, and
    waited so long in them, where the others waited 2 ms.
    """
    made = team(1, is_slow=True, **{**MANY, "ranks": ranks})
    turns = {each: Turn(each, 100, 100 // ranks, 2 * MS, 0) for each in range(ranks)}
    turns[made.slow] = Turn(made.slow, 100, last, waiting_ns, 0)
    slow, _ = stragglers(dict(enumerate(made.parts)), KEY, turns)
    return [each.process for each in slow] == [made.slow]


def test_of_many_ranks_a_slow_one_is_last_to_three_times_its_share() -> None:
    """Among 16, nobody comes last to most collectives."""
    assert judged(16, last=19, waiting_ns=MS)
    assert not judged(16, last=18, waiting_ns=MS)


def test_of_few_ranks_a_slow_one_is_last_to_most_collectives() -> None:
    """Equal ranks take turns in being last."""
    assert judged(2, last=60, waiting_ns=MS)
    assert not judged(2, last=59, waiting_ns=MS)


@pytest.mark.parametrize("ranks", [2, 16])
def test_a_rank_that_waits_as_long_as_the_others_is_not_slow(ranks: int) -> None:
    """The others do not wait for it."""
    assert not judged(ranks, last=90, waiting_ns=2 * MS)


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
