"""What an XLA program ran is named after the ops of the framework that it was compiled from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.captures import TraceEvent, xspace
from tests.support.golden import golden
from tfprobe.errors import UnreadableInput
from tfprobe.formats.schema import message_class
from tfprobe.formats.xspace import ran_nodes, read
from tfprobe.formats.xspace.hlo_program import read_hlo
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.graph import Frame

HOST, MODULE = "/host:CPU", "a_inference_step_60__.2"


def program(*, name: str = MODULE) -> Any:  # Any: made at run time
    """A program with a product, two instructions of a mean, a copy, and a loop with one inside."""
    proto = message_class("tfprobe.hlo.HloProto")()
    module = proto.hlo_module
    module.name, module.entry_computation_id = name, 1
    entry, body, fused = (module.computations.add(id=number) for number in (1, 2, 3))
    told = [
        (entry, "p0", "parameter", "first/MatMul", ""),
        (entry, "MatMul.8", "dot", "first/MatMul", "MatMul"),
        (entry, "ynn_fusion", "fusion", "Mean", "Mean"),
        (entry, "wrapped_multiply", "fusion", "Mean", "Mean"),
        (entry, "copy.1", "copy", "", ""),
        (entry, "while.2", "while", "while", "While"),
        (body, "fusion.7", "fusion", "jit(f)/second/mul", ""),
        (fused, "tanh.3", "tanh", "hidden", "Tanh"),
    ]
    for computation, instruction, opcode, op, op_type in told:
        made = computation.instructions.add(name=instruction, opcode=opcode)
        made.metadata.op_name, made.metadata.op_type = op, op_type
    entry.instructions[5].called_computation_ids.append(2)
    entry.instructions[2].called_computation_ids.append(3)
    return proto


def capture(
    planes: Mapping[str, Mapping[str, list[TraceEvent]]], *protos: Any, content: bytes = b""
) -> bytes:
    """An XSpace of these lines with programs numbered from 0 in the plane of programs."""
    space = message_class("tfprobe.xplane.XSpace")()
    space.ParseFromString(xspace(planes))
    plane = space.planes.add(name="/host:metadata")
    plane.stat_metadata[1].name = "Hlo Proto"
    for at, proto in enumerate(protos):
        metadata = plane.event_metadata[at]
        metadata.id, metadata.name = at, f"{proto.hlo_module.name}({at})"
        metadata.stats.add(metadata_id=1, bytes_value=content or proto.SerializeToString())
    return bytes(space.SerializeToString())


def ran(instruction: str, at_us: int = 0, last_us: int = 1, **more: Any) -> TraceEvent:
    stats = {"hlo_op": instruction, "hlo_module": MODULE, "program_id": 0, **more}
    return TraceEvent(instruction, at_us, last_us, stats)


def names(*events: TraceEvent) -> list[tuple[str, str]]:
    rows = read(capture({HOST: {"pool/1": list(events)}}, program())).rows
    return [(row.name, row.op_type) for row in rows]


def test_an_instruction_is_the_op_it_was_compiled_from() -> None:
    """So the graph knows its scope, its shapes and the line that made it."""
    assert names(ran("MatMul.8", 3, 20)) == [("first/MatMul", "MatMul")]


def test_instructions_that_share_an_op_are_below_it() -> None:
    """The op did not run twice."""
    assert names(ran("ynn_fusion"), ran("wrapped_multiply")) == [
        ("Mean/ynn_fusion", "Mean"),
        ("Mean/wrapped_multiply", "Mean"),
    ]


def test_an_instruction_of_no_op_has_its_own_name() -> None:
    """XLA adds copies; and a capture may hold no HLO of a program, or the HLO of another."""
    assert names(ran("copy.1"), ran("dot.4", program_id=9), ran("dot.5", hlo_module="other")) == [
        ("copy.1", "copy"),
        ("dot.4", "dot"),
        ("dot.5", "dot"),
    ]


def test_a_loop_counts_by_what_it_runs() -> None:
    """The event of a loop spans those of its body; one that is never run as such has no name."""
    assert names(ran("while.2", 0, 90), ran("fusion.7", 5, 20), ran("tanh.3", 30, 1)) == [
        ("second/mul", "fusion"),
        ("tanh.3", "tanh"),
    ]


def test_an_asynchronous_instruction_lasts_until_its_end() -> None:
    """XLA marks where its work was over, on another thread; this is no instruction itself."""
    lines = {
        "pool/1": [ran("MatMul.8", 3, 20, _p=7, _pt=0), ran("copy.1", 30, 20, _p=8, _pt=0)],
        "pool/2": [
            TraceEvent("end: MatMul.8", 90, 1, {"_ct": 0, "_c": 7}),
            TraceEvent("end: copy.1", 40, 1, {"_ct": 0, "_c": 8}),
        ],
    }

    rows = read(capture({HOST: lines}, program())).rows

    assert [(row.name, row.duration_ns) for row in rows] == [
        ("first/MatMul", 87_000),
        ("copy.1", 20_000),
    ]


def test_an_op_that_only_runs_a_program_is_no_row() -> None:
    """Its time is that of the instructions, on other threads."""
    lines = {
        "python": [
            TraceEvent("__inference_step_60:__inference_step_60", 0, 90),
            TraceEvent("CpuExecutable::ExecuteAsyncOnStream", 5, 80),
        ],
        "tf_Compute/1": [
            TraceEvent(
                "ExecutorState::ProcessAsync::Start",
                100,
                50,
                {"name": "Call", "kernel_type": "StatefulPartitionedCall", "_p": 9},
            ),
            TraceEvent("CpuExecutable::ExecuteAsyncOnStream", 105, 40),
            TraceEvent("ExecutorState::ProcessAsync::Done", 150, 1, {"_c": 9}),
            TraceEvent("Add:AddV2", 160, 5),
        ],
        "pool/1": [ran("MatMul.8", 20, 30)],
    }

    rows = list(read(capture({HOST: lines}, program())).rows)

    assert sorted(row.name for row in rows) == ["Add", "first/MatMul"]


def test_a_program_without_events_of_instructions_stays_one_op() -> None:
    """TensorFlow up to 2.15 says nothing of what runs inside."""
    lines = {
        "python": [
            TraceEvent("__inference_step_60:__inference_step_60", 0, 90),
            TraceEvent("CpuExecutable::ExecuteAsyncOnStream", 5, 80),
        ]
    }

    (row,) = read(capture({HOST: lines}, program())).rows

    assert row.name == "__inference_step_60"


def test_a_kernel_of_an_xla_program_is_the_op_it_was_compiled_from() -> None:
    """On a GPU the annotation of a kernel names the instruction alone."""
    kernel = TraceEvent(
        "gemm_fusion_dot_8",
        0,
        5,
        {"tf_op": "Thunk:", "hlo_op": "MatMul.8", "hlo_module": MODULE, "program_id": 0},
    )

    (row,) = read(capture({"/device:GPU:0": {"Stream #1": [kernel]}}, program())).rows

    assert (row.name, row.op_type, row.place) == ("first/MatMul", "MatMul", Place.ACCELERATOR)


def test_broken_hlo_leaves_instructions_with_their_own_names() -> None:
    """The rest of the capture is as good as without."""
    content = capture({HOST: {"pool/1": [ran("MatMul.8")]}}, program(), content=b"\xff\xff")

    assert [row.name for row in read(content).rows] == ["MatMul.8"]
    with pytest.raises(UnreadableInput):
        read_hlo(b"\xff\xff")


def test_an_instruction_knows_its_python_stack() -> None:
    """Newer programs keep stacks in an index of the module, older ones one line in each."""
    proto = program()
    index = proto.hlo_module.stack_frame_index
    index.file_names.extend(["train.py", "flax.py"])
    index.function_names.extend(["step", "__call__"])
    index.file_locations.add(file_name_id=1, function_name_id=1, line=12)
    index.file_locations.add(file_name_id=2, function_name_id=2, line=99)
    index.stack_frames.add(file_location_id=1)
    index.stack_frames.add(file_location_id=2, parent_frame_id=1)
    product, mean = proto.hlo_module.computations[0].instructions[1:3]
    product.metadata.stack_frame_id = 2
    mean.metadata.source_file, mean.metadata.source_line = "old.py", 7

    found = read_hlo(proto.SerializeToString()).instructions

    assert found["MatMul.8"].frames == (
        Frame("train.py", 12, "step"),
        Frame("flax.py", 99, "__call__"),
    )
    assert found["ynn_fusion"].frames == (Frame("old.py", 7, ""),)
    assert found["copy.1"].frames == ()


def test_a_stack_that_leads_in_circles_ends() -> None:
    """Damage is no reason to wait forever."""
    proto = program()
    index = proto.hlo_module.stack_frame_index
    index.file_names.append("train.py")
    index.file_locations.add(file_name_id=1, line=12)
    index.stack_frames.add(file_location_id=1, parent_frame_id=1)
    proto.hlo_module.computations[0].instructions[1].metadata.stack_frame_id = 1

    frames = read_hlo(proto.SerializeToString()).instructions["MatMul.8"].frames

    assert set(frames) == {Frame("train.py", 12, "")}


def fusion_of_jax(*fused: tuple[str, str]) -> Any:
    """A program of JAX with one fusion of these opcodes and op names, the last its root."""
    proto = message_class("tfprobe.hlo.HloProto")()
    module = proto.hlo_module
    module.name, module.entry_computation_id = MODULE, 1
    entry, parts = (module.computations.add(id=number) for number in (1, 2))
    for at, (opcode, op) in enumerate(fused):
        made = parts.instructions.add(name=f"part.{at}", opcode=opcode)
        made.metadata.op_name = op
    fusion = entry.instructions.add(name="fusion.1", opcode="fusion", called_computation_ids=[2])
    fusion.metadata.op_name = fused[-1][1]
    return proto


def test_a_fusion_has_the_scope_of_its_root_and_knows_its_parts() -> None:
    """Its type says what takes most of its time."""
    proto = fusion_of_jax(
        ("parameter", "params['w']"),
        ("dot", "jit(step)/jvp(Net)/first/dot_general"),
        ("maximum", "jit(step)/jvp(Net)/jit(relu)/max"),
    )

    (found,) = read_hlo(proto.SerializeToString()).instructions.values()

    assert (found.op_name, found.op_type) == ("Net/relu/max", "dot fusion")
    assert found.fused == ("Net/first/dot_general", "Net/relu/max")


def test_nodes_of_programs_know_their_code() -> None:
    """Only programs of JAX have nodes: TensorFlow's graph knows its own ops better."""
    proto = fusion_of_jax(("add", "jit(step)/transpose(jvp(Net))/first/add"))
    fusion = proto.hlo_module.computations[0].instructions[0]
    fusion.metadata.source_file, fusion.metadata.source_line = "train.py", 7
    content = capture({HOST: {"pool/1": [ran("fusion.1")]}}, proto, program())

    trace = read(content)
    nodes, known = ran_nodes(content, [*trace.programs, (MODULE, 1), ("absent", 2)])

    assert trace.programs == ((MODULE, 0),)
    assert known == {(MODULE, 0), (MODULE, 1)}
    node = nodes.pop("gradients/Net/first/add")
    assert (node.op, node.is_backward, node.trace) == (
        "fusion",
        True,
        (Frame("train.py", 7, ""),),
    )
    assert "first/MatMul" not in nodes


@pytest.mark.parametrize(
    ("name", "steps"), [("jax_cpu_window_one_step", 1), ("jax_cpu_flax_mlp_3steps", 3)]
)
def test_a_step_of_jax_is_its_instructions(name: str, steps: int) -> None:
    """50 instructions run in each step, most in a scope that flax named."""
    path = golden("frameworks", f"{name}.xplane.pb")

    rows = list(read(path.read_bytes()).rows)

    assert len(rows) == 50 * steps
    assert sum(row.name == "Net/second/dot_general" for row in rows) == steps
