"""Write XSpaces of a million instructions of one program of JAX, on a CPU or on a GPU.

The program is made up: 400 fusions of 50 layers, each with a line of Python. Events have the stats
that XLA writes, without names of ops: these are only in the program.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfprobe.formats.schema import message_class

FUSIONS, LAYERS, THREADS, STREAMS = 400, 50, 4, 2
MODULE, PROGRAM = "jit_train_step", 7
START_NS = 1_795_000_000_000_000_000
EVERY_NS, LASTS_NS = 2_000, 1_500
_KERNEL = "regs:32 static_shared:0 dynamic_shared:0 grid:64,1,1 block:256,1,1 occ_pct:50"


def write(path: Path, count: int, *, on_gpu: bool) -> None:
    """Write an XSpace of `count` executions."""
    space = message_class("tfprobe.xplane.XSpace")()
    programs = space.planes.add(name="/host:metadata")
    programs.stat_metadata[1].name = "Hlo Proto"
    named = programs.event_metadata[PROGRAM]
    named.id, named.name = PROGRAM, f"{MODULE}({PROGRAM})"
    named.stats.add(metadata_id=1, bytes_value=_program())
    if on_gpu:
        space.planes.add(name="/host:CPU")
        _kernels(_Plane(space.planes.add(name="/device:GPU:0")), count)
    else:
        _instructions(_Plane(space.planes.add(name="/host:CPU")), count)
    task = space.planes.add(name="Task Environment")
    task.stat_metadata[1].name = "profile_start_time"
    task.stats.add(metadata_id=1, uint64_value=START_NS)
    path.write_bytes(space.SerializeToString())


def _program() -> bytes:
    proto = message_class("tfprobe.hlo.HloProto")()
    module = proto.hlo_module
    module.name, module.entry_computation_id = MODULE, 1
    entry, index = module.computations.add(id=1, name="main"), module.stack_frame_index
    index.file_names.append("train.py")
    index.function_names.append("train_step")
    for at in range(FUSIONS):
        scope = "transpose(jvp(Net))" if at % 2 else "jvp(Net)"
        op = f"jit(train_step)/{scope}/layer{at % LAYERS}/op{at}"
        index.file_locations.add(file_name_id=1, function_name_id=1, line=at + 1)
        index.stack_frames.add(file_location_id=at + 1)
        inside = module.computations.add(id=at + 2, name=f"fused.{at}")
        for computation, name, opcode in (
            (entry, f"fusion.{at}", "fusion"),
            (inside, f"add.{at}", "add"),
        ):
            made = computation.instructions.add(name=name, opcode=opcode)
            made.metadata.op_name, made.metadata.stack_frame_id = op, at + 1
        entry.instructions[-1].called_computation_ids.append(at + 2)
    return bytes(proto.SerializeToString())


class _Plane:
    """A plane with its names; texts are references. Any: an XPlane, made at run time."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self._ids: dict[str, int] = {}

    def id(self, text: str) -> int:
        if text not in self._ids:
            at = self._ids[text] = len(self._ids) + 1
            self.message.stat_metadata[at].id = at
            self.message.stat_metadata[at].name = text
        return self._ids[text]

    def lines(self, names: list[str], prefix: str) -> list[Any]:
        for at in range(FUSIONS):
            self.message.event_metadata[at + 1].id = at + 1
            self.message.event_metadata[at + 1].name = f"{prefix}{at}"
        return [
            self.message.lines.add(id=at + 1, name=name, timestamp_ns=1000)
            for at, name in enumerate(names)
        ]

    def add(self, line: Any, at: int, fusion: int) -> Any:
        event = line.events.add(
            metadata_id=fusion + 1, offset_ps=at * EVERY_NS * 1000, duration_ps=LASTS_NS * 1000
        )
        event.stats.add(metadata_id=self.id("hlo_op"), ref_value=self.id(f"fusion.{fusion}"))
        event.stats.add(metadata_id=self.id("hlo_module"), ref_value=self.id(MODULE))
        event.stats.add(metadata_id=self.id("program_id"), uint64_value=PROGRAM)
        return event.stats


def _instructions(plane: _Plane, count: int) -> None:
    lines = plane.lines([f"tf_XLAEigen/{at}" for at in range(THREADS)], "fusion.")
    for at in range(count):
        stats = plane.add(lines[at % THREADS], at // THREADS, at % FUSIONS)
        stats.add(metadata_id=plane.id("run_id"), int64_value=at // FUSIONS)
        stats.add(metadata_id=plane.id("device_ordinal"), int64_value=0)
        stats.add(metadata_id=plane.id("_pt"), uint64_value=0)
        stats.add(metadata_id=plane.id("_p"), uint64_value=at + 1)


def _kernels(plane: _Plane, count: int) -> None:
    lines = plane.lines([f"Stream #{at + 7}(Compute)" for at in range(STREAMS)], "loop_fusion_")
    for at in range(count):
        stats = plane.add(lines[at % STREAMS], at // STREAMS, at % FUSIONS)
        stats.add(metadata_id=plane.id("correlation_id"), uint64_value=at + 1)
        stats.add(metadata_id=plane.id("kernel_details"), ref_value=plane.id(_KERNEL))
        stats.add(metadata_id=plane.id("tf_op"), ref_value=plane.id("XlaModule:"))
