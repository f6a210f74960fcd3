"""Programs of XLA that ran give their instructions shapes, and so collectives their sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.captures import TraceEvent
from tests.support.hlo import shape
from tests.unit.formats.test_hlo import HOST, capture
from tfprobe.analysis.core.source_lines import Origins
from tfprobe.analysis.distributed.transfer_report import report_transfers
from tfprobe.analysis.memory.memory_summary import memories
from tfprobe.analysis.memory.program_memory import NO_BUFFERS
from tfprobe.analysis.ops.flops.count import count
from tfprobe.errors import Missing
from tfprobe.formats.schema import message_class
from tfprobe.formats.xspace import ran_programs, read
from tfprobe.profile.hlo import HloInstruction, HloShape
from tfprobe.profile.reader.file import whole_file

MODULE = "jit_step"
F32 = 11


def program(size: int = 512) -> Any:  # Any: made at run time
    """A program that sums an array over devices, and adds it to itself."""
    proto = message_class("tfprobe.hlo.HloProto")()
    module = proto.hlo_module
    module.name, module.entry_computation_id = MODULE, 1
    entry, summing = (module.computations.add(id=number) for number in (1, 2))
    given = summing.instructions.add(id=10, name="a", opcode="parameter")
    given.shape.element_type = F32
    total = summing.instructions.add(id=11, name="b", opcode="add", operand_ids=[10, 10])
    total.shape.element_type = F32
    for number, name, opcode, op in (
        (1, "x", "parameter", "x"),
        (2, "all-reduce.1", "all-reduce", "jit(step)/layer/psum"),
        (3, "sum", "add", "jit(step)/layer/add"),
    ):
        made = entry.instructions.add(id=number, name=name, opcode=opcode)
        made.metadata.op_name = op
        made.shape.element_type = F32
        made.shape.dimensions.append(size)
    entry.instructions[1].operand_ids.append(1)
    entry.instructions[1].called_computation_ids.append(2)
    entry.instructions[2].operand_ids.extend([2, 1])
    return proto


def ran(instruction: str, at_us: int, number: int = 0) -> TraceEvent:
    stats = {"hlo_op": instruction, "hlo_module": MODULE, "program_id": number}
    return TraceEvent(instruction, at_us, 10, stats)


def written(folder: Path, content: bytes) -> Path:
    path = folder / "step.xplane.pb"
    path.write_bytes(content)
    return path


def test_collectives_have_sizes(tmp_path: Path) -> None:
    content = capture({HOST: {"pool/1": [ran("all-reduce.1", 0), ran("sum", 20)]}}, program())
    profile, found = whole_file(written(tmp_path, content))

    moves = report_transfers(profile, (found,), Origins((found,)), "op")

    assert not isinstance(moves.collectives, Missing)
    (collective,) = moves.collectives.kinds
    assert (collective.sized, collective.bytes) == (1, 2048)
    assert int(count(found).of_rows.sum()) == 2 * 512


def test_programs_that_differ(tmp_path: Path) -> None:
    """A step that was compiled again for another size: its instructions have no one size."""
    events = [ran("all-reduce.1", 0), ran("sum", 20), ran("all-reduce.1", 40, 1), ran("sum", 60, 1)]
    content = capture({HOST: {"pool/1": events}}, program(512), program(256))

    profile, found = whole_file(written(tmp_path, content))

    counted = count(found)
    assert len(found.programs) == 2
    assert {reason for _, reason in counted.unknown.values()} == {
        "several programs have an instruction of this name"
    }
    assert int(counted.of_rows.sum()) == 0
    moves = report_transfers(profile, (found,), Origins((found,)), "op")
    assert not isinstance(moves.collectives, Missing)
    assert [kind.sized for kind in moves.collectives.kinds] == [0]


def test_programs_without_a_plan_of_memory(tmp_path: Path) -> None:
    """Sizes alone do not say how long values live, so there is no estimate."""
    content = capture({HOST: {"pool/1": [ran("sum", 20)]}}, program())
    profile, found = whole_file(written(tmp_path, content))

    assert memories(profile, (found,), Origins((found,))) == NO_BUFFERS


def test_only_programs_that_are_wanted_are_read() -> None:
    content = capture({HOST: {"pool/1": [ran("sum", 20)]}}, program(), program(256))

    found = ran_programs(content, [(MODULE, 1), ("another", 0)])

    assert [each.number for each in found] == [1]
    assert set(found[0].names) == {"layer/psum", "layer/add"}


def test_what_something_that_begins_will_make() -> None:
    """Its result holds its operands, too."""
    begun = HloInstruction(1, "start", "all-gather-start", shape("(f32[4], f32[8])"))
    summed = HloInstruction(1, "start", "all-reduce-start", shape("f32[4]"))

    assert begun.results() == (HloShape("f32", (8,)),)
    assert summed.results() == (HloShape("f32", (4,)),)


def test_devices_of_one_process(tmp_path: Path) -> None:
    """Work of one device hides no collective of another."""

    def on(device: int, instruction: str, at_us: int) -> TraceEvent:
        event = ran(instruction, at_us)
        return replace(event, stats={**event.stats, "device_ordinal": device})

    first = [on(0, "sum", 0), on(0, "all-reduce.1", 20)]
    second = [on(1, "sum", 20), on(1, "all-reduce.1", 40)]
    content = capture({HOST: {"pool/1": first, "pool/2": second}}, program())
    profile, found = whole_file(written(tmp_path, content))

    assert set(found.devices) == {"/device:CPU:0|/device:CPU:1"}
    moves = report_transfers(profile, (found,), Origins((found,)), "op")
    assert not isinstance(moves.collectives, Missing)
    assert moves.collectives.busy.busy_ns == 20_000
    assert moves.collectives.busy.hidden_ns == 0

    # On one device, it does hide it.
    content = capture({HOST: {"pool/1": [ran("sum", 20)], "pool/2": [ran("all-reduce.1", 20)]}})
    profile, found = whole_file(written(tmp_path, content))
    assert set(found.devices) == {HOST}
    moves = report_transfers(profile, (found,), Origins((found,)), "op")
    assert not isinstance(moves.collectives, Missing)
    assert moves.collectives.busy.hidden_ns == 10_000


def test_the_end_of_what_ran_on_other_threads() -> None:
    """The thread that ends it runs what waited for it, before it writes the end."""
    begun = replace(ran("all-reduce.1", 0), stats={**ran("all-reduce.1", 0).stats, "_p": 7})
    ended = TraceEvent("end: all-reduce.1", 90, 1, {"_c": 7})
    alone = {"pool/1": [begun], "pool/2": [ended]}
    (row,) = read(capture({HOST: alone}, program())).rows
    assert row.duration_ns == 90_000

    waited = {"pool/1": [begun], "pool/2": [ran("sum", 40), ended]}
    rows = {row.name: row for row in read(capture({HOST: waited}, program())).rows}
    assert rows["layer/psum"].duration_ns == 40_000


def looping() -> Any:  # Any: made at run time
    """A program that calls a function with a loop of seven turns."""
    proto = program()
    entry = proto.hlo_module.computations[0]
    calls = entry.instructions.add(id=4, name="call", opcode="call", called_computation_ids=[3])
    function = proto.hlo_module.computations.add(id=3)
    turns = function.instructions.add(id=20, name="while", opcode="while")
    turns.called_computation_ids.extend([4, 5])
    turns.backend_config = b'{"known_trip_count":{"n":"7"}}'
    body = proto.hlo_module.computations.add(id=4)
    given = body.instructions.add(id=30, name="in", opcode="parameter")
    made = body.instructions.add(id=31, name="made", opcode="sine", operand_ids=[30])
    for each in (calls, given, made):
        each.shape.element_type = F32
        each.shape.dimensions.append(8)
    proto.hlo_module.computations.add(id=5)
    return proto


def test_what_runs_others_is_a_row_where_they_are_none(tmp_path: Path) -> None:
    """XLA compiles small loops into one function, whose instructions have no events."""
    alone = {"pool/1": [ran("call", 0), ran("sum", 20)]}
    _, found = whole_file(written(tmp_path, capture({HOST: alone}, looping())))
    assert [row.op_type for row in found.executions] == ["call", "add"]
    assert int(count(found).of_rows[0]) == 7 * 8

    both = {"pool/1": [ran("call", 0), ran("made", 2), ran("sum", 20)]}
    _, found = whole_file(written(tmp_path, capture({HOST: both}, looping())))
    assert [row.op_type for row in found.executions] == ["sine", "add"]
    assert int(count(found).of_rows[0]) == 8
