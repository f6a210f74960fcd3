"""Whose doing it is that steps take longer: the program's, the machine's, or nobody knows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.profiles import profile, timed_loop
from tfprobe.analysis.compare.change_cause import (
    CauseKind,
    ChangeCause,
    ChangeEvidence,
    ChangePiece,
    ChangeShape,
    Processor,
    cause,
    processor,
    shape,
)
from tfprobe.analysis.compare.comparison import Diff, diff
from tfprobe.analysis.compare.measurements import Change
from tfprobe.errors import Missing
from tfprobe.profile.activities import ResourceSample
from tfprobe.profile.profile import UNTOLD, Profile

MS = 1_000_000
QUIET = Processor(wall_ns=10 * MS, cpu_ns=8 * MS, waited_ns=0.0, others_cpus=0.0)


def piece(name: str, before_us: int, after_us: int, *, wide: float = 0.02) -> ChangePiece:
    """Return a piece whose change is known to so much on either side."""
    ratio = after_us / before_us - 1
    change = Change(before_us * 1000, after_us * 1000, ratio, ratio - wide, ratio + wide, 0.95)
    return ChangePiece(name, before_us * 1000, after_us * 1000, change)


def shaped(*pieces: ChangePiece) -> ChangeShape:
    found = shape("parts", pieces)
    assert isinstance(found, ChangeShape)
    return found


ALIKE = shaped(piece("a", 700, 910), piece("b", 300, 390))
CONCENTRATED = shaped(piece("a", 700, 1000), piece("b", 300, 300))


def kind_of(
    growth: float, shapes: tuple[ChangeShape, ...], after: Processor, **facts: Any
) -> CauseKind:
    return cause(ChangeEvidence(growth, QUIET, after, shapes, **facts)).kind


def test_a_change_of_one_part_is_the_programs():
    """The other part did not change, so the machine did not either."""
    slower = replace(QUIET, wall_ns=13 * MS, cpu_ns=11 * MS)

    assert kind_of(0.3, (CONCENTRATED,), slower) is CauseKind.PROGRAM


def test_a_part_in_which_nothing_ran_is_the_programs_too():
    """A sleep takes no CPU time, and the first thread never waited for a CPU."""
    slower = replace(QUIET, wall_ns=13 * MS)

    assert kind_of(0.3, (CONCENTRATED,), slower) is CauseKind.PROGRAM


def test_parts_that_are_longer_alike_in_the_same_cpu_time_are_the_machines():
    """The program did as much as before, in more time."""
    assert kind_of(0.3, (ALIKE,), replace(QUIET, wall_ns=13 * MS)) is CauseKind.MACHINE


def test_waiting_for_a_cpu_is_the_machines():
    """Also if a step took more CPU time, as it does on a shared machine."""
    slower = replace(QUIET, wall_ns=13 * MS, cpu_ns=10 * MS, waited_ns=2.0 * MS)

    assert kind_of(0.3, (ALIKE,), slower) is CauseKind.MACHINE


def test_parts_that_are_longer_alike_in_more_cpu_time_are_nobodys():
    """Twice the batch and half the clock look the same."""
    slower = replace(QUIET, wall_ns=13 * MS, cpu_ns=10.4 * MS)

    assert kind_of(0.3, (ALIKE,), slower) is CauseKind.UNKNOWN


def test_other_settings_are_no_slow_machine():
    """One thread in place of eight takes as much CPU time in more time: that is no excuse."""
    slower = replace(QUIET, wall_ns=13 * MS)

    assert kind_of(0.3, (ALIKE,), slower, same_setup=False) is CauseKind.UNKNOWN


def test_one_part_is_not_the_programs_where_it_waited_for_a_cpu():
    """Short pieces are seldom interrupted, so load looks concentrated."""
    slower = replace(QUIET, wall_ns=13 * MS, waited_ns=1.0 * MS)

    assert kind_of(0.3, (CONCENTRATED,), slower) is CauseKind.UNKNOWN


@pytest.mark.parametrize(("cpu_ms", "found"), [(8, CauseKind.UNKNOWN), (11, CauseKind.PROGRAM)])
def test_on_a_busy_machine_cpu_time_has_to_go_with_it(cpu_ms: int, found: CauseKind):
    """Threads of ops may have waited, which is not recorded."""
    slower = replace(QUIET, wall_ns=13 * MS, cpu_ns=float(cpu_ms * MS))

    assert kind_of(0.3, (CONCENTRATED,), slower, is_busy=True) is found


def test_more_bytes_a_step_are_the_programs():
    """Whatever the shape of the change, and whatever the machine did."""
    assert kind_of(0.3, (ALIKE,), QUIET, fed_ratio=1.0) is CauseKind.PROGRAM
    assert kind_of(-0.3, (ALIKE,), QUIET, fed_ratio=1.0) is CauseKind.UNKNOWN


def test_ops_that_ask_for_more_memory_are_the_programs():
    """No machine makes a step request eight times the bytes."""
    without = kind_of(0.3, (ALIKE,), QUIET)

    assert kind_of(6.7, (ALIKE,), QUIET, requested_ratio=7.0) is CauseKind.PROGRAM
    assert kind_of(0.3, (ALIKE,), QUIET, requested_ratio=0.01) is without
    assert kind_of(0.3, (ALIKE,), QUIET, requested_ratio=-0.5) is without


def test_faster_steps_have_a_cause_too():
    """A machine that others left is faster alike; a part that is gone is the program's."""
    faster = replace(QUIET, wall_ns=7 * MS)
    alike = shaped(piece("a", 700, 490), piece("b", 300, 210))
    fewer = shaped(piece("a", 700, 400), piece("b", 300, 300))

    assert kind_of(-0.3, (alike,), faster) is CauseKind.MACHINE
    assert kind_of(-0.3, (fewer,), faster) is CauseKind.PROGRAM


def test_a_shape_that_shows_another_change_is_no_evidence():
    """Traced steps that did not get slower say nothing of the others that did."""
    same = shaped(piece("a", 700, 701), piece("b", 300, 300))

    assert kind_of(0.3, (same,), replace(QUIET, wall_ns=13 * MS)) is CauseKind.UNKNOWN


def test_without_resource_samples_shapes_alone_tell():
    """A concentrated change is the program's; the cause of one that is alike is unknown."""
    unknown = Missing("too short")

    assert cause(ChangeEvidence(0.3, unknown, unknown, (CONCENTRATED,))).kind is CauseKind.PROGRAM
    assert cause(ChangeEvidence(0.3, unknown, unknown, (ALIKE,))).kind is CauseKind.UNKNOWN


def test_a_part_that_is_nearly_all_tells_nothing():
    """In a step with hardly more than one op, alike and concentrated are the same."""
    one = shaped(piece("a", 950, 1250), piece("b", 50, 50))

    assert (one.is_alike, one.is_concentrated) == (False, False)


def test_an_unsure_witness_is_none():
    """A part that may have grown as much proves nothing by having grown less this time."""
    found = shaped(piece("a", 700, 1000), piece("b", 300, 300, wide=0.5))

    assert not found.is_concentrated


def test_a_new_op_is_a_change_of_the_program():
    """It has no interval, as there is nothing to compare it with."""
    added = ChangePiece("new", 0, 300_000, Missing("new"))
    found = shape("ops", (piece("a", 600, 600), piece("b", 400, 400), added))

    assert isinstance(found, ChangeShape)
    assert found.is_concentrated


def resource_sample(at_s: int, **facts: Any) -> ResourceSample:
    fields = {**dict.fromkeys(ResourceSample.__dataclass_fields__, UNTOLD), "at_exit": False}
    fields |= {"process": 0, "at_ns": at_s * 1000 * MS, "steps": at_s * 100, "cpus": 2}
    return ResourceSample(**{**fields, "devices": (), **facts})


def recorded(step_ms: float, gap_ms: float, **rates_ns: int) -> Profile:
    """Return steps and gaps of such a length, with counters that grow so much a second."""
    resource_samples = tuple(
        resource_sample(at, load_1min=0.1, **{name: at * ns for name, ns in rates_ns.items()})
        for at in range(5)
    )
    jitter = [round(MS * (step_ms + at % 7 / 100)) for at in range(400)]
    return profile(
        loops=[timed_loop(jitter, round(gap_ms * MS))], resource_samples=resource_samples
    )


def test_the_processor_is_told_by_resource_samples():
    """From the second to the last, per step: the time before the second is start-up."""
    used = {"user_ns": 700 * MS, "system_ns": 100 * MS, "run_delay_ns": 50 * MS}
    run = recorded(7, 3, **used, machine_busy_ns=1000 * MS, machine_steal_ns=20 * MS)

    found = processor(run, run.loops[0])

    assert found == Processor(
        wall_ns=10.0 * MS, cpu_ns=8.0 * MS, waited_ns=0.6 * MS, others_cpus=pytest.approx(0.2)
    )


def test_what_the_system_does_not_tell_is_not_nothing():
    """A counter that is missing makes its answer missing."""
    run = recorded(7, 3)

    found = processor(run, run.loops[0])

    assert isinstance(found, Processor)
    assert isinstance(found.cpu_ns, Missing)
    assert isinstance(found.waited_ns, Missing)


def test_a_short_run_has_no_processor():
    """Two samples are the start and something after it."""
    run = recorded(7, 3)

    assert isinstance(
        processor(replace(run, resource_samples=run.resource_samples[:2]), run.loops[0]), Missing
    )


def compared(before: Profile, after: Profile) -> Diff:
    found = diff(before, after)
    assert isinstance(found, Diff)
    return found


def test_a_whole_recording_is_told():
    """From resource samples and steps to the answer: the machine, the program, or nothing."""
    usual = {"user_ns": 800 * MS, "system_ns": 0, "run_delay_ns": 0}
    before = recorded(7, 3, **usual)
    waiting = {"user_ns": 615 * MS, "system_ns": 0, "run_delay_ns": 230 * MS}

    machine = compared(before, recorded(9.1, 3.9, **waiting))
    program = compared(before, recorded(10, 3, **usual))
    same = compared(before, recorded(7, 3, **usual))

    assert (machine.cause_kind, program.cause_kind, same.cause_kind) == (
        CauseKind.MACHINE,
        CauseKind.PROGRAM,
        None,
    )
    assert isinstance(same.loops[0].cause, Missing)
    assert program.loops[0].cause == ChangeCause(
        CauseKind.PROGRAM, "the step changed most, while the time between steps hardly changed"
    )
