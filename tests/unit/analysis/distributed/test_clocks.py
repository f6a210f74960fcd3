"""How far clocks are ahead of each other, and how wrong that may be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.known_clocks import MS, US, Known, S, errors_ns, known_clocks
from tests.support.profiles import process
from tests.support.rundir import UNIX_NS
from tfprobe.analysis.distributed.clocks import Clocks, clocks
from tfprobe.analysis.distributed.synchronization_events import SynchronizationEvents
from tfprobe.errors import Missing

PLAIN = {
    "machines": 2,
    "per_machine": 1,
    "steps": 10,
    "every_ns": 10 * S,
    "collectives": 10,
    "drift_ppm": 0.0,
    "late_ns": MS,
    "moving_ns": 100 * US,
    "lost": 0.0,
    "mistaken": 0.0,
    "is_chain": False,
    "only_sends": False,
}


def made(seed: int = 1, **changes: object) -> Known:
    return known_clocks(seed, **{**PLAIN, **changes})


def found(known: Known) -> Clocks:
    return clocks(known.processes, known.events)


def worst_ns(known: Known, shown: Clocks) -> float:
    """Return the largest error, which must be within its bound."""
    errors = errors_ns(known, shown)
    told = [each for each in errors if each is not None]
    assert len(told) == len(errors), [each.basis for each in shown.unknown]
    assert all(error <= bound for error, bound in told)
    return max(error for error, _ in told)


@pytest.mark.parametrize("seed", range(12))
def test_clocks_seconds_apart_are_told_within_their_error(seed: int) -> None:
    """Whatever the job: jitter, drift, links slower one way, lost and mistaken events."""
    known = known_clocks(seed, machines=3, per_machine=1, steps=6, collectives=6)

    assert worst_ns(known, found(known)) <= 100_000


def test_processes_of_one_boot_have_one_clock_whatever_their_hosts_are_called() -> None:
    """Containers of a machine have names of their own."""
    both = [
        process(index=at, host=f"pod-{at}", boot_id="b", unix_minus_monotonic_ns=UNIX_NS + at * 700)
        for at in (0, 1)
    ]

    shown = clocks(both, nothing())

    assert shown.machines == 1
    assert [each.offset_ns for each in shown.clocks] == [0, 700]
    assert all(each.error_ns <= 2_000 for each in shown.clocks)  # type: ignore[operator]


def test_hosts_of_one_name_and_two_boots_are_two_machines() -> None:
    """Clusters name all their nodes localhost."""
    known = made()
    alike = [replace(each, host="localhost") for each in known.processes]

    shown = clocks(alike, known.events)

    assert shown.machines == 2
    assert worst_ns(known, shown) <= 100_000


def test_a_clock_of_which_no_event_was_recorded_is_not_told() -> None:
    """A wrong number would be worse than none."""
    both = [process(index=at, boot_id=f"b{at}") for at in (0, 1)]

    shown = clocks(both, nothing())

    [_, other] = shown.clocks
    assert isinstance(other.offset_ns, Missing)
    assert "--every or --steps" in other.offset_ns.reason
    assert isinstance(other.on_reference(np.array([UNIX_NS])), Missing)


def test_machines_that_never_meet_are_set_through_others() -> None:
    """Machine 0 meets only 1, and 1 meets 2: errors add up on the way."""
    known = made(machines=4, is_chain=True)

    shown = found(known)

    assert worst_ns(known, shown) <= 100_000
    assert "through 2 other machines" in shown.clocks[3].basis


def test_drift_is_told_in_parts_per_million() -> None:
    """Over minutes 50 ppm are milliseconds."""
    known = made(drift_ppm=50.0, every_ns=60 * S)

    shown = found(known)

    assert worst_ns(known, shown) <= 100_000
    wanted = (known.drift[1] - known.drift[0]) * 1e6
    assert shown.clocks[1].drift_ppm == pytest.approx(wanted, abs=1)


def test_a_clock_that_was_set_meanwhile_is_not_told() -> None:
    """Before and after are two clocks, and one number would be wrong for half of the run."""
    known = made()
    later = (known.events.process == 1) & (known.events.step >= 5)
    jump = np.where(later, int(S), 0)
    events = replace(
        known.events,
        start_ns=known.events.start_ns + jump,
        end_ns=known.events.end_ns + jump,
    )

    shown = clocks(known.processes, events)

    [_, other] = shown.clocks
    assert isinstance(other.error_ns, Missing)
    assert "its clock was set while the job ran" in other.basis


def test_traces_that_are_placed_a_little_off_widen_the_error() -> None:
    """TensorFlow 2.12 places each trace within 0.1 ms: no clock is known better by such traces."""
    known = made()
    turn = np.random.default_rng(3)
    off = turn.integers(-80_000, 80_000, (2, 10))[known.events.process, known.events.step]
    events = replace(
        known.events,
        start_ns=known.events.start_ns + off,
        end_ns=known.events.end_ns + off,
    )

    shown = clocks(known.processes, events)

    assert worst_ns(known, shown) <= 150_000


def test_a_broadcast_sets_no_clock() -> None:
    """Its root may be done before the last one that receives it has begun."""
    known = made()
    texts = tuple(text.replace("Reduce", "BcastSend") for text in known.events.strings.values)
    strings = replace(known.events.strings, values=texts)

    shown = clocks(known.processes, replace(known.events, strings=strings))

    assert isinstance(shown.clocks[1].offset_ns, Missing)


def test_a_process_that_was_started_again_meets_nobody_at_the_steps_of_the_first() -> None:
    """Both of rank 1 have counted from 0; the second meets the second of rank 0, if any."""
    known = made()
    first = replace(known.processes[1], hooks=replace(known.processes[1].hooks, wall_ns=10))
    again = replace(first, index=2, started_unix_ns=first.started_unix_ns + 20, boot_id="boot-9")
    of_first = known.events.process == 1
    events = replace(
        known.events, process=np.where(of_first, 2, known.events.process).astype(np.int32)
    )

    shown = clocks([known.processes[0], first, again], events)

    assert isinstance(shown.clocks[2].offset_ns, Missing)


def test_one_process_has_the_only_clock() -> None:
    """A world of one needs no event."""
    shown = clocks([process(boot_id="b")], nothing())

    assert (shown.reference, shown.clocks[0].offset_ns, shown.clocks[0].error_ns) == (0, 0, 0)


def test_no_process_has_no_clock() -> None:
    """A run in which none has reported yet."""
    assert clocks([], nothing()).clocks == ()


def nothing() -> SynchronizationEvents:
    known = made(steps=1, collectives=1)
    return known.events.only(np.zeros(len(known.events), dtype=np.bool_))
