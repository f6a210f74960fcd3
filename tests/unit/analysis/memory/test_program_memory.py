"""The memory that XLA planned for a program, against the plan as it stands in the capture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.support.golden import golden
from tests.support.hlo import instruction, module
from tfprobe.analysis.core.source_lines import Origins
from tfprobe.analysis.memory.memory_peak import Role
from tfprobe.analysis.memory.memory_summary import Lasting, lasting, memories
from tfprobe.analysis.memory.program_memory import (
    NO_BUFFERS,
    KeptTwice,
    ProgramMemory,
    kept_twice,
    program_memory,
)
from tfprobe.errors import Missing
from tfprobe.profile.hlo import (
    Assigned,
    BufferAllocation,
    BufferAssignment,
    BufferEvent,
    LogicalBuffer,
    RanProgram,
)
from tfprobe.profile.reader.file import whole_file

PROGRAM = module(
    [
        instruction("x", "parameter", "f32[8]", op_name="params['w']", parameter=0),
        instruction("y", "parameter", "f32[4]", op_name="batch", parameter=1),
        instruction("a", "sine", "f32[6]", "x", op_name="jit(f)/first/sin"),
        instruction("b", "cosine", "f32[6]", "a", op_name="jit(f)/second/cos"),
        instruction("made", "tanh", "f32[8]", "b", op_name="jit(f)/tanh"),
        instruction("all", "tuple", "(f32[8])", "made"),
    ]
)


def allocation(
    index: int,
    size: int,
    *assigned: tuple[int, int, int],
    parameter: int | None = None,
    is_output: bool = False,
    is_constant: bool = False,
    is_thread_local: bool = False,
) -> BufferAllocation:
    return BufferAllocation(
        index,
        size,
        parameter,
        (),
        is_output,
        is_constant,
        is_thread_local,
        tuple(Assigned(*each) for each in assigned),
    )


BUFFERS = {
    at: LogicalBuffer(at, size, name)
    for at, (name, size) in enumerate(
        [("x", 32), ("y", 16), ("a", 24), ("b", 24), ("made", 32), ("one", 4)]
    )
}
ALLOCATIONS = (
    allocation(0, 32, (0, 0, 32), parameter=0),
    allocation(1, 16, (1, 0, 16), parameter=1),
    allocation(2, 32, (4, 0, 32), is_output=True),
    allocation(3, 64, (2, 0, 24), (3, 32, 24)),
    allocation(4, 4, (5, 0, 4), is_constant=True),
    allocation(5, 99, is_thread_local=True),
)


def events(*given: str) -> tuple[BufferEvent, ...]:
    """Events such as "+2", "-2" and "3=2" for a buffer that takes over the memory of another."""
    found = []
    for each in given:
        first, _, shared = each.strip("+-").partition("=")
        name = BUFFERS[int(first)].instruction
        owner = int(shared) if shared else None
        found.append(BufferEvent(int(first), name, each.startswith("-"), owner))
    return tuple(found)


def of(
    allocations: Sequence[BufferAllocation] = ALLOCATIONS,
    happened: Sequence[BufferEvent] = events("+2", "+3", "-2", "-3"),
) -> ProgramMemory | Missing:
    buffers = BufferAssignment(BUFFERS, tuple(allocations), tuple(happened))
    names = {
        each.op_name: each
        for each in PROGRAM.computations[1].instructions
        if each.op_name.startswith("jit")
    }
    return program_memory(RanProgram(1, replace(PROGRAM, buffers=buffers), names))


def known(found: ProgramMemory | Missing) -> ProgramMemory:
    assert not isinstance(found, Missing), found
    return found


def test_what_a_program_takes() -> None:
    """Arguments, results, temporary values and constants; memory of single threads is no part."""
    found = known(of())

    assert (found.argument_bytes, found.output_bytes, found.donated_bytes) == (48, 32, 0)
    assert (found.temporary_bytes, found.constant_bytes) == (64, 4)
    assert found.bytes == 48 + 32 + 64 + 4


def test_what_lies_in_it_at_the_peak() -> None:
    """The pieces sum to all of it; what is between temporary values belongs to none."""
    found = known(of())

    pieces = [(each.op or each.label, each.shape, each.bytes, each.role) for each in found.pieces]
    assert pieces == [
        ("first/params['w']", "f32[8]", 32, Role.PARAMETERS),
        ("batch", "f32[4]", 16, Role.INPUT),
        ("jit(f)/tanh", "f32[8]", 32, Role.OUTPUT),
        ("(constants)", "", 4, Role.CONSTANT),
        ("jit(f)/first/sin", "f32[6]", 24, Role.ACTIVATIONS),
        ("jit(f)/second/cos", "f32[6]", 24, Role.ACTIVATIONS),
        ("(space between temporary values)", "", 16, Role.TEMPORARY),
    ]
    assert sum(each.bytes for each in found.pieces) == found.bytes


def test_when_it_is_fullest() -> None:
    found = known(of())

    assert (found.peak_instruction, found.peak_op) == ("b", "jit(f)/second/cos")
    assert found.moments == (("a", 84 + 24), ("b", 84 + 48), ("a", 84 + 24), ("b", 84))


def test_values_that_share_their_memory() -> None:
    """They count once, as long as one of them is live."""
    found = known(of(happened=events("+2", "3=2", "-2", "-3")))

    assert [live for _, live in found.moments] == [84 + 24, 84 + 24, 84 + 24, 84]
    assert found.peak_instruction == "a"

    # The owner's life has ended when the next one takes over.
    found = known(of(happened=events("+2", "-2", "3=2", "-3")))
    assert [live for _, live in found.moments] == [84 + 24, 84 + 24]


def test_donated_arguments() -> None:
    """The result lies where the argument was, and takes no memory of its own."""
    donated = replace(ALLOCATIONS[0], is_output=True)

    found = known(of((donated, ALLOCATIONS[1]), ()))

    assert (found.argument_bytes, found.output_bytes, found.donated_bytes) == (48, 32, 32)
    assert found.bytes == 48
    assert found.peak_op == ""


def test_a_plan_without_a_simulation() -> None:
    """All is known but when it is fullest."""
    found = known(of(happened=()))

    assert found.temporary_bytes == 64
    assert found.pieces[-1].bytes == 64
    assert found.peak_instruction == ""


@pytest.mark.parametrize(
    "damaged",
    [
        allocation(3, 40, (2, 0, 24), (3, 32, 24)),
        allocation(3, -64),
        allocation(3, 2**51),
        allocation(3, 64, (99, 0, 24)),
        allocation(3, 64, (2, -8, 24)),
        allocation(3, 64, (2, 0, -24)),
        allocation(3, 40, (2, 0, 24), (3, 16, 24)),
    ],
)
def test_damaged_plans(damaged: BufferAllocation) -> None:
    """What contradicts itself has no numbers."""
    found = of((*ALLOCATIONS[:3], damaged))

    assert isinstance(found, Missing)


def test_a_capture_without_plans() -> None:
    assert program_memory(RanProgram(1, PROGRAM, {})) == NO_BUFFERS


@pytest.mark.parametrize("name", ["jax_cpu_flax_mlp_3steps", "jax_cpu_window_one_step"])
def test_a_real_step(name: str) -> None:
    """What `compiled.memory_analysis()` said of it, and Adam's state, twice the parameters."""
    profile, found = whole_file(golden("frameworks", f"{name}.xplane.pb"))

    (allocator,) = _known(memories(profile, (found,), Origins((found,))))

    program = allocator.program
    assert program is not None
    assert (program.argument_bytes, program.output_bytes) == (4_924_028, 4_792_608)
    assert (program.temporary_bytes, program.donated_bytes) == (68, 0)
    assert allocator.peak.bytes == program.bytes == 4_924_028 + 4_792_608 + 68 + 8
    assert sum(holder.bytes for holder in allocator.peak.holders) == program.bytes
    roles = dict(allocator.peak.by_role)
    assert roles[Role.PARAMETERS] == 1_597_480
    assert roles[Role.OPTIMIZER_STATE] == 2 * 1_597_480 + 4
    assert lasting((found,)) == Lasting(1_597_480, 2 * 1_597_480 + 4)


@pytest.mark.parametrize("name", ["jax_cpu_flax_mlp_3steps", "jax_cpu_window_one_step"])
def test_a_real_step_keeps_its_variables_twice(name: str) -> None:
    """It donates nothing: parameters and Adam's state are arguments and results."""
    _, found = whole_file(golden("frameworks", f"{name}.xplane.pb"))

    twice = kept_twice(found.programs)

    assert isinstance(twice, KeptTwice)
    assert twice.program == "jit_train_step"
    assert twice.bytes == 3 * 1_597_480 + 4
    assert twice.program_bytes == 4_924_028 + 4_792_608 + 68 + 8


def test_a_program_without_a_plan_says_why_nothing_is_known() -> None:
    """As in a trace of a TPU."""
    assert kept_twice([RanProgram(1, PROGRAM, {})]) == NO_BUFFERS


def _known(found):
    assert not isinstance(found, Missing), found
    return found
