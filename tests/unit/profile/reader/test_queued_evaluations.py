"""An evaluation begins when the steps that the program queued before it are over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.support.profiles import timed_loop
from tests.support.rundir import MONO_NS, UNIX_NS
from tests.support.tiers import activity
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop, StepQueue
from tfprobe.profile.reader.process_notes import behind_queued_steps

SHIFT_NS = UNIX_NS - MONO_NS


def trained(*, kind: str = "fit", thread: str = "MainThread") -> Loop:
    """A loop of 20 steps of 5 ms, back to back, that the program waits for at every tenth."""
    loop = timed_loop([5_000_000] * 20, 0, kind=kind, thread=thread)
    waited = np.arange(20) % 10 == 9
    queue = StepQueue(0, 10.0, 2, 0, 0)
    return replace(loop, queue=queue, recent=replace(loop.recent, waited=waited))


def begins_ms(loop: Loop, *starts_ms: int) -> list[int]:
    """Return when evaluations begin that were called then, and end at 200 ms."""
    calls = tuple(
        activity("evaluate", "model.evaluate", start_ms, 200, total_ns=(at + 1) * 100_000_000)
        for at, start_ms in enumerate(starts_ms)
    )
    found = behind_queued_steps(calls, [loop], [SHIFT_NS])
    return [(each.start_ns - UNIX_NS) // 1_000_000 for each in found]


def test_it_begins_with_the_end_of_the_steps_that_were_queued():
    """Keras asks for the losses of an epoch after it has evaluated the model."""
    assert begins_ms(trained(), 12) == [50]
    assert begins_ms(trained(), 63) == [100]


def test_it_begins_with_its_call_where_no_step_was_left():
    """The program had waited for the latest step, or had not begun."""
    assert begins_ms(trained(), 150) == [150]


def test_it_does_not_begin_after_its_end():
    """Steps that were queued then may have run for longer than the evaluation did."""
    short = activity("evaluate", "model.evaluate", 12, 20)

    (found,) = behind_queued_steps((short,), [trained()], [SHIFT_NS])

    assert (found.end_ns - found.start_ns, found.total_ns) == (0, 0)


def test_totals_are_without_the_steps():
    """They are of all evaluations of the model so far."""
    calls = (
        activity("evaluate", "model.evaluate", 40, 55, total_ns=15_000_000),
        activity("evaluate", "model.evaluate", 95, 120, total_ns=40_000_000),
    )

    found = behind_queued_steps(calls, [trained()], [SHIFT_NS])

    assert [each.total_ns for each in found] == [5_000_000, 25_000_000]


def test_other_activities_and_threads_stay():
    """What is saved may run beside the steps; another thread waits for none of them."""
    calls = (activity("save", "model.save", 12, 30), activity("evaluate", "m.evaluate", 13, 30))
    other = trained(thread="another")

    assert behind_queued_steps(calls, [other], [SHIFT_NS]) == calls
    assert behind_queued_steps(calls[:1], [trained()], [SHIFT_NS]) == calls[:1]


def test_nothing_changes_without_queued_steps():
    """In TensorFlow a call lasts as long as its step; without a clock times cannot be compared."""
    calls = (activity("evaluate", "model.evaluate", 12, 30),)
    whole = replace(trained(), queue=None)

    assert behind_queued_steps(calls, [whole], [SHIFT_NS]) is calls
    assert behind_queued_steps(calls, [trained()], [Missing("no clock")]) == calls
