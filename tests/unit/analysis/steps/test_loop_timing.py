"""How long the steps of a loop take, and how often they come."""

from __future__ import annotations

import pytest

from tests.support.profiles import MONO_NS, profile, timed_loop
from tfprobe.analysis.steps.loop_timing import loop_timings

MS = 10**6


def test_loops_that_alternate_have_one_cycle_however_their_times_scatter() -> None:
    """Beside other processes a few steps and gaps are long; what is usual of both adds up to less.

    The first step of the one compiles for a second, before the first of the other.
    """
    steps_ns = [1000 * MS, *[1 * MS, 1 * MS, 40 * MS] * 20]
    pauses_ns = [2 * MS, *[2 * MS, 60 * MS, 2 * MS] * 20]
    short = 1 * MS
    training = timed_loop(steps_ns, [0, *(pause + short for pause in pauses_ns[:-1])])
    reading = timed_loop(
        [short] * len(steps_ns),
        [0, *map(sum, zip(pauses_ns[:-1], steps_ns[1:], strict=True))],
        start_ns=MONO_NS + steps_ns[0],
        index=1,
        name="Mean:0",
    )

    timings = loop_timings(profile(loops=(training, reading)))

    first, second = timings[0, 0], timings[0, 1]
    assert first.mean_cycle_ns == pytest.approx(36 * MS, rel=0.1)
    assert second.mean_cycle_ns == pytest.approx(first.mean_cycle_ns, rel=0.05)
    assert first.usual_step_ns + first.usual_gap_ns == 4 * MS
