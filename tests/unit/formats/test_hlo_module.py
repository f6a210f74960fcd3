"""Programs of XLA are decoded with their shapes and their memory, or not at all."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.golden import golden
from tfprobe.analysis.memory.program_memory import ProgramMemory, program_memory
from tfprobe.analysis.ops.flops.count import count
from tfprobe.analysis.ops.flops.hlo import ProgramFlops
from tfprobe.analysis.ops.op_stats import AT, step_costs
from tfprobe.errors import Missing, UnreadableInput
from tfprobe.formats.schema import message_class
from tfprobe.formats.xspace import ran_programs, read
from tfprobe.formats.xspace.hlo_module import read_module
from tfprobe.profile.hlo import HloShape, RanProgram
from tfprobe.profile.reader.file import sampled_file, whole_file

STEP = 278_759_059


def test_a_program_is_decoded() -> None:
    proto = message_class("tfprobe.hlo.HloProto")()
    proto.hlo_module.entry_computation_id = 1
    entry = proto.hlo_module.computations.add(id=1, name="main", root_id=2)
    entry.instructions.add(id=1, name="x", opcode="parameter").shape.element_type = 16
    pair = entry.instructions.add(id=2, name="pair", opcode="tuple", operand_ids=[1, 1])
    pair.shape.element_type = 13
    for _ in range(2):
        pair.shape.tuple_shapes.add(element_type=16, dimensions=[3, 4])
    proto.buffer_assignment.logical_buffers.add(id=5, size=24).defined_at.instruction_id = 1
    allocation = proto.buffer_assignment.buffer_allocations.add(index=0, size=24)
    allocation.is_entry_computation_parameter = True
    allocation.assigned.add(logical_buffer_id=5, size=24)

    module = read_module(proto.SerializeToString())

    x, made = module.computations[1].instructions
    assert x.shape == HloShape("bf16")
    assert made.shape.arrays() == (HloShape("bf16", (3, 4)),) * 2
    assert made.operands == (1, 1)
    assert module.buffers is not None
    assert module.buffers.buffers[5].instruction == "x"
    assert [each.parameter for each in module.buffers.allocations] == [0]


def test_no_program() -> None:
    with pytest.raises(UnreadableInput):
        read_module(b"\xff\xff")


def test_tuples_without_end() -> None:
    """Only a damaged program nests them deeper than its code could."""
    proto = message_class("tfprobe.hlo.HloProto")()
    shape = proto.hlo_module.computations.add(id=1).instructions.add(id=1).shape
    for _ in range(90):
        shape = shape.tuple_shapes.add(element_type=13)

    assert read_module(proto.SerializeToString()).computations[1].instructions


def test_damaged_programs_are_read_or_refused() -> None:
    """Bytes that changed give a number, a reason or a refusal, and never a traceback."""
    content = golden("frameworks", "jax_cpu_window_one_step.xplane.pb").read_bytes()
    (program,) = ran_programs(content, read(content).programs)
    whole = _proto_of(content, program.module.name)
    chance = random.Random(5)
    for _ in range(40):
        damaged = bytearray(whole)
        for _ in range(chance.choice((1, 3, 20))):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        del damaged[chance.choice((len(damaged), chance.randrange(len(damaged)))) :]
        try:
            module = read_module(bytes(damaged))
        except UnreadableInput:
            continue
        counted = ProgramFlops(module)
        assert isinstance(counted.total(), int | Missing)
        for computation in module.computations.values():
            for instruction in computation.instructions:
                assert isinstance(counted.of(instruction), int | Missing)
        planned = program_memory(RanProgram(0, module, {}))
        if isinstance(planned, ProgramMemory):
            assert sum(piece.bytes for piece in planned.pieces) == planned.bytes


def _proto_of(content: bytes, name: str) -> bytes:
    space = message_class("tfprobe.xplane.XSpace").FromString(content)
    (metadata,) = (
        each
        for plane in space.planes
        if plane.name == "/host:metadata"
        for each in plane.event_metadata.values()
        if each.name.startswith(f"{name}(")
    )
    (proto,) = (stat.bytes_value for stat in metadata.stats if stat.bytes_value)
    return bytes(proto)


@pytest.mark.parametrize(
    ("name", "steps"), [("jax_cpu_flax_mlp_3steps", 3), ("jax_cpu_window_one_step", 1)]
)
def test_the_steps_of_a_recording(name: str, steps: int) -> None:
    """All that ran has known float operations, each time that it ran."""
    _, found = whole_file(golden("frameworks", f"{name}.xplane.pb"))

    counted = count(found)

    assert counted.unknown == {}
    assert int(counted.of_rows.sum()) == steps * STEP


def test_a_step_is_the_same_for_each_view() -> None:
    """`op` and `scope` average over the steps that the program marked, as the page does."""
    path = golden("frameworks", "jax_cpu_flax_mlp_3steps.xplane.pb")

    found = sampled_file(path, with_shapes=True)

    assert [capture.step for capture in found.captures] == [10, 11, 12]
    rows = step_costs(found, -1, count(found)).rows
    assert int(rows[:, AT["float_ops"]].sum()) == STEP


def test_a_recording_without_its_programs(tmp_path: Path) -> None:
    """Its instructions ran, but nothing says what they compute: the number is unknown, not 0."""
    space = message_class("tfprobe.xplane.XSpace").FromString(
        golden("frameworks", "jax_cpu_window_one_step.xplane.pb").read_bytes()
    )
    (plane,) = (plane for plane in space.planes if plane.name == "/host:metadata")
    plane.event_metadata.clear()
    path = tmp_path / "step.xplane.pb"
    path.write_bytes(space.SerializeToString())

    _, found = whole_file(path)

    counted = count(found)
    assert int(counted.of_rows.sum()) == 0
    assert len(counted.unknown) == 50
