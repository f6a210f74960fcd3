"""What comes back every Nth step is found, and nothing is found in chance."""

from __future__ import annotations

import numpy as np

from tfprobe.analysis.steps.outliers import Period, periods


def test_a_checkpoint_every_hundred_steps_is_found():
    """Every 100th step stands out, between others that do by chance."""
    stands_out = np.random.default_rng(5).random(3_000) < 0.02
    stands_out[99::100] = True

    found = periods(0, np.ones(3_000, dtype=bool), stands_out)

    assert found[0] == Period(every=100, first=99, times=30, turns=30)


def test_a_rhythm_within_a_rhythm_is_found():
    """Summaries every 10 steps and a checkpoint at another place every 64."""
    stands_out = np.zeros(1_000, dtype=bool)
    stands_out[9::10] = True
    stands_out[6::64] = True

    found = periods(0, np.ones(1_000, dtype=bool), stands_out)

    assert [(each.every, each.first) for each in found] == [(10, 9), (64, 6)]


def test_steps_are_numbered_from_the_start_of_the_work():
    """In a ring that has forgotten 5,000 steps a period starts where its steps are."""
    stands_out = np.zeros(500, dtype=bool)
    stands_out[20::50] = True

    (found,) = periods(5_000, np.ones(500, dtype=bool), stands_out)

    assert (found.every, found.first) == (50, 5_020)


def test_steps_that_were_not_looked_at_do_not_break_a_period():
    """Steps that tfprobe traced are no turns that were missed."""
    looked_at = np.ones(1_000, dtype=bool)
    looked_at[49::100] = False
    stands_out = np.zeros(1_000, dtype=bool)
    stands_out[49::50] = True

    (found,) = periods(0, looked_at, stands_out & looked_at)

    assert (found.every, found.times, found.turns) == (50, 10, 10)


def test_chance_has_no_period():
    """Of 60 runs with slow steps at random next to none is said to have a rhythm."""
    random = np.random.default_rng(11)
    found = 0
    for rate in (0.01, 0.05, 0.2):
        for _ in range(20):
            found += bool(periods(0, np.ones(2_000, dtype=bool), random.random(2_000) < rate))

    assert found <= 1
