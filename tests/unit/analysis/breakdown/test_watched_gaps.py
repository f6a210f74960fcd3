"""Watching lengthens gaps of many short calls; what it says of them is set right by the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.profiles import Step, op, profile, timed_loop
from tests.support.rundir import UNIX_NS
from tfprobe.analysis.breakdown.cycles import LoopParts, parts_by_loop
from tfprobe.analysis.breakdown.gap_breakdown import gaps_before_steps
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.profile.activities import Call, Gap

MS = 1_000_000
STEPS = 200
WATCHED = range(20, 180, 8)


def _watched(
    step: int, callbacks_ns: int, other_ns: int, *, calls: int, event_ns: int, told_ns: int
) -> Gap:
    """A gap of callbacks that make short calls, and of one long call, as the agent writes it.

    An event costs `event_ns`, and `told_ns` by the agent: half in what is called, half around it.
    """
    tiny_ns = callbacks_ns * 2 // 3
    own_ns = callbacks_ns - tiny_ns
    rows = (
        Call(None, "fit", "/home/ada/train.py", 5, 9, False, 1, 2 * event_ns),
        Call(0, "on_train_batch_end", "/home/ada/train.py", 20, 7, False, 1,
             own_ns + (calls + 1) * event_ns),
        Call(1, "tiny", "/home/ada/train.py", 30, 21, False, calls, tiny_ns + calls * event_ns),
        Call(0, "prepare", "/home/ada/train.py", 40, 8, False, 1, other_ns + event_ns),
    )  # fmt: skip
    length_ns = sum(row.self_ns for row in rows)
    cost_ns = 2 * (calls + 2) * told_ns
    return Gap(0, 0, step, UNIX_NS, length_ns, cost_ns, False, rows, "sampled", length_ns)


def _found(*gaps: Gap, usual_ns: int) -> LoopParts:
    loop = timed_loop([MS] * STEPS, usual_ns)
    lengthened = np.isin(np.arange(STEPS), [gap.step for gap in gaps])
    recent = replace(loop.recent, watched=lengthened)
    (found,) = parts_by_loop(
        profile([Step([op("MatMul", 0, 100)])], loops=[replace(loop, recent=recent)], gaps=gaps)
    )
    return found


@pytest.mark.parametrize("callbacks_ns", [50_000, 500_000, 950_000])
@pytest.mark.parametrize(("event_ns", "told_ns"), [(900, 900), (2500, 600), (600, 1500)])
def test_calls_that_watching_lengthens_keep_their_share(
    callbacks_ns: int, event_ns: int, told_ns: int
):
    """Within ten points, though watched gaps are many times as long and the agent's cost is off."""
    gaps = [
        _watched(
            step, callbacks_ns, MS - callbacks_ns, calls=4000, event_ns=event_ns, told_ns=told_ns
        )
        for step in WATCHED
    ]

    found = _found(*gaps, usual_ns=MS)

    assert len(found.watched) == len(WATCHED)
    assert found.between_ns == pytest.approx(MS, rel=0.01)
    share = found.parts_ns[Part.CALLBACKS] / MS
    assert share == pytest.approx(callbacks_ns / MS, abs=0.1)


def test_gaps_that_lost_their_cpu_are_left_out():
    """What was on the CPU when the thread lost it is not what takes long."""
    clean = [
        _watched(step, 300_000, 700_000, calls=2000, event_ns=900, told_ns=900) for step in WATCHED
    ]
    lost = replace(
        clean[0],
        step=190,
        duration_ns=clean[0].duration_ns + 40 * MS,
        calls=(*clean[0].calls[:3], replace(clean[0].calls[3], self_ns=40 * MS + 700_900)),
    )

    found = _found(lost, *clean, usual_ns=MS)

    assert len(found.watched) == len(clean)
    assert found.parts_ns[Part.CALLBACKS] / MS == pytest.approx(0.3, abs=0.1)


def test_a_gap_that_was_due_to_be_long_is_no_usual_one():
    """The end of an epoch is told by itself, and never smeared over the steps."""
    usual = [_watched(step, 300_000, 700_000, calls=1, event_ns=0, told_ns=0) for step in WATCHED]
    due = replace(_watched(190, 2 * MS, 1 * MS, calls=1, event_ns=0, told_ns=0), why="foreseen")

    found = _found(due, *usual, usual_ns=MS)

    assert len(found.watched) == len(usual)
    assert found.between_ns == pytest.approx(MS, rel=0.01)


def test_gaps_that_were_due_to_be_long_are_there_for_who_asks():
    """The account divides long gaps by them, as it divides usual ones by usual ones."""
    usual = _watched(20, MS, MS, calls=1, event_ns=0, told_ns=0)
    due = replace(usual, step=49, why="foreseen")
    known = profile([], loops=[timed_loop([MS] * STEPS, MS)], gaps=(usual, due))

    assert gaps_before_steps(known) == (usual,)
    assert gaps_before_steps(known, with_foreseen=True) == (usual, due)
