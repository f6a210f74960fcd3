"""Decode the plane of a GPU: one row for each kernel, copy and memset of its streams.

The form is that of the GPU tracer (openxla/xla, xla/backends/profiler/gpu/cupti_collector.cc): the
stat `tf_op` of a stream's event names its op, `correlation_id` the driver call that launched it,
and `memcpy_details` what a copy moved.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.formats.schema import parse
from tfprobe.formats.xspace.plane import (
    HOST,
    PS_PER_NS,
    Plane,
    copy_bytes,
    is_stream,
    line_name,
    number,
    op_of,
    place_of,
    stat_values,
)
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.graph import Frame
from tfprobe.profile.tables import Columns, Int64s, Interner, int64s

_COPY_DETAILS = ("memcpy_details", "memset_details")
# Driver allocations have events on streams too; no kernel ran for them.
_MEMORY_DETAILS = ("memalloc_details", "memfree_details", "memory_residency_details")


def add_kernels(
    columns: Columns[Executions], interner: Interner, plane: Any, programs: Programs
) -> None:
    """Add a row for each kernel and copy of a GPU's plane. Any: an XPlane."""
    position = interner.position
    for line in plane.lines:
        name = line_name(line)
        if not is_stream(name):
            continue
        found = (_kernel(plane, line, event, programs) for event in line.events)
        kernels = [each for each in found if each is not None]
        columns.add(
            len(kernels),
            device=position(plane.name),
            lane=position(name),
            name=[position(kernel.name) for kernel in kernels],
            op_type=[position(kernel.op_type) for kernel in kernels],
            place=[kernel.place for kernel in kernels],
            start_ns=int64s(kernel.start_ns for kernel in kernels),
            duration_ns=int64s(kernel.duration_ns for kernel in kernels),
            bytes=int64s(kernel.bytes for kernel in kernels),
            detail=[position(kernel.detail) for kernel in kernels],
            correlation=int64s(kernel.correlation for kernel in kernels),
        )


class _Kernel(NamedTuple):
    """A kernel or a copy to be added to the columns."""

    name: str
    op_type: str
    place: Place
    start_ns: int
    duration_ns: int
    bytes: int
    detail: str
    correlation: int


class KernelFacts(NamedTuple):
    """The contents of a stream's event."""

    kernel: str
    place: Place
    bytes: int
    detail: str
    correlation: int


def kernel_facts(kernel: str, stats: Mapping[str, Any]) -> KernelFacts:
    """Return the contents of a stream's event. Any: stats are numbers and texts."""
    details = next((str(stats[key]) for key in _COPY_DETAILS if key in stats), "")
    place, correlation = place_of(kernel, details), number(stats.get("correlation_id"))
    return KernelFacts(kernel, place, copy_bytes(details), details or kernel, correlation)


def _kernel(plane: Any, line: Any, event: Any, programs: Programs) -> _Kernel | None:
    metadata = plane.event_metadata[event.metadata_id]
    stats = stat_values(plane, metadata.stats) | stat_values(plane, event.stats)
    if any(key in stats for key in _MEMORY_DETAILS):
        return None
    facts = kernel_facts(metadata.name, stats)
    kernel = metadata.display_name or metadata.name
    is_copy = facts.place is not Place.ACCELERATOR
    op = op_of(str(stats.get("tf_op") or stats.get("name") or ""))
    if op is None and "hlo_op" in stats:
        instruction = programs.op(stats)
        op = None if instruction is None else (instruction.name, instruction.op_type)
    return _Kernel(
        name=op[0] if op else str(stats.get("tf_op") or kernel),
        op_type=kernel if is_copy else op[1] if op else _kernel_type(stats, kernel),
        place=facts.place,
        start_ns=line.timestamp_ns + event.offset_ps // PS_PER_NS,
        duration_ns=event.duration_ps // PS_PER_NS,
        bytes=facts.bytes,
        detail=facts.detail if is_copy else kernel,
        correlation=facts.correlation,
    )


def _kernel_type(stats: dict[str, Any], kernel: str) -> str:
    """Return the HLO op of an XLA kernel, without its number, or the kernel's own name."""
    hlo = str(stats.get("hlo_op") or "")
    return hlo.split(".", 1)[0] if hlo else kernel


METADATA = "/host:metadata"
_HLO_STAT = "Hlo Proto"
# "jit_train_step(56)": a module and the number of its program.
_PROGRAM = re.compile(r"(?P<module>.*)\((?P<id>\d+)\)\Z", re.DOTALL)


class HloOp(NamedTuple):
    """The op name of an instruction; `is_container` if others ran inside it."""

    name: str
    op_type: str
    is_container: bool


class Programs:
    """The programs whose HLO a capture contains; each is decoded on demand."""

    def __init__(self, planes: Iterable[Any]) -> None:
        """Record where the programs are. Any: XPlanes."""
        self._contents: dict[tuple[str, int], bytes] = {}
        self._read: dict[tuple[str, int], HloProgram | None] = {}
        for plane in planes:
            if plane.name == METADATA:
                self._contents |= _contents(plane)

    def op(self, stats: Mapping[str, Any]) -> HloOp | None:
        """Return the op name of the instruction in an event's stats; None if unknown.

        It is named after the framework op it was compiled from; if several instructions of a
        program were compiled from one op, each becomes a child of that op. Any: stats are numbers
        and texts.
        """
        program = self._program(str(stats.get("hlo_module")), number(stats.get("program_id")))
        known = None if program is None else program.instructions.get(str(stats.get("hlo_op")))
        if known is None:
            return None
        if not known.op:
            name = known.name
        else:
            name = f"{known.op}/{known.name}" if known.shares_op else known.op
        return HloOp(name, known.op_type or known.opcode, known.opcode in CONTAINERS)

    def modules(self) -> tuple[tuple[str, int], ...]:
        """Return the names of modules and the numbers of programs that the capture contains."""
        return tuple(self._contents)

    def content(self, key: tuple[str, int]) -> bytes:
        """Return the HloProto of a program."""
        return self._contents[key]

    def _program(self, module: str, program: int) -> HloProgram | None:
        key = (module, program)
        if key not in self._read:
            content = self._contents.get(key)
            try:
                self._read[key] = None if content is None else read_hlo(content)
            except UnreadableInput:
                self._read[key] = None  # its instructions then keep their own names
        return self._read[key]


def add_hlo_ops(
    columns: Columns[Executions], interner: Interner, plane: Plane, programs: Programs
) -> bool:
    """Add the XLA instructions that ran on a plane's threads; return whether any did."""
    found = False
    for line in range(len(plane.lines)):
        places = _places(plane, line)
        of_event = [_op(plane, event, programs) for event in plane.events_at(line, places)]
        is_row = np.array(
            [op is not None and not op.is_container for op in of_event], dtype=np.bool_
        )
        ops = [op for op in of_event if op is not None and not op.is_container]
        start_ns, duration_ns = plane.times_ns(line, places[is_row])
        found = found or bool(ops)
        columns.add(
            len(ops),
            device=interner.position(HOST),
            lane=interner.position(plane.lines[line].name),
            name=[interner.position(op.name) for op in ops],
            op_type=[interner.position(op.op_type) for op in ops],
            place=Place.HOST,
            start_ns=start_ns,
            duration_ns=duration_ns,
        )
    return found


def _places(plane: Plane, line: int) -> Int64s:
    """Return the indices of a line's events that may be instructions, judged by the first ones."""
    ids = plane.stat_ids("hlo_op")
    everywhere = np.arange(len(plane.lines[line].events) if ids else 0)
    numbers = plane.numbers_at(line, everywhere)
    known, first = np.unique(numbers, return_index=True)
    events = plane.events_at(line, first)
    wanted = [any(stat.metadata_id in ids for stat in event.stats) for event in events]
    return np.flatnonzero(np.isin(numbers, known[np.array(wanted, dtype=np.bool_)]))


def _op(plane: Plane, event: Any, programs: Programs) -> HloOp | None:
    stats = stat_values(plane.message, event.stats)
    instruction = str(stats.get("hlo_op") or "")
    if not instruction:
        return None
    unknown = HloOp(instruction, instruction.partition(".")[0], is_container=False)
    return programs.op(stats) or unknown


def _contents(plane: Any) -> dict[tuple[str, int], bytes]:
    """Return the undecoded HLO of each program, by its module and number."""
    contents = {}
    for metadata in plane.event_metadata.values():
        program = _PROGRAM.match(metadata.name)
        content = stat_values(plane, metadata.stats).get(_HLO_STAT)
        if program is not None and isinstance(content, bytes):
            contents[(program["module"], int(program["id"]))] = content
    return contents


# Instructions whose computations run instruction by instruction: all others are one kernel.
CONTAINERS = frozenset({"call", "conditional", "while"})
# Instructions that only name values.
_NO_LOOP = frozenset(
    {"after-all", "bitcast", "constant", "get-tuple-element", "parameter", "tuple"}
)
# No Python stack is deeper, but a cyclic index is.
_MOST_FRAMES = 1000


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction that XLA runs as one unit.

    `op` is the framework op that it was compiled from, "" for one that XLA added, such as a copy;
    for a fusion, the op of its root. `op_type` is that op's type, "" if the framework does not
    record it. `shares_op` means that other instructions of the program were compiled from the same
    op. `frames` are lines of Python, outermost first; TensorFlow records only one line, its own.
    """

    name: str
    opcode: str
    op: str
    op_type: str
    shares_op: bool
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class HloProgram:
    """A compiled program: the instructions that run, by name."""

    name: str
    instructions: Mapping[str, Instruction]


def read_hlo(content: bytes) -> HloProgram:
    """Decode the program in an HloProto.

    Raises UnreadableInput if the bytes are not an HloProto.
    """
    module = parse(content, "tfprobe.hlo.HloProto").hlo_module
    ran = list(_running(module))
    uses = Counter(each.metadata.op_name for each in ran if each.opcode not in CONTAINERS)
    instructions = {
        each.name: Instruction(
            name=each.name,
            opcode=each.opcode,
            op=each.metadata.op_name,
            op_type=each.metadata.op_type,
            shares_op=uses[each.metadata.op_name] > 1,
            frames=_frames(module.stack_frame_index, each.metadata),
        )
        for each in ran
    }
    return HloProgram(module.name, instructions)


def _running(module: Any) -> Iterator[Any]:
    """Yield the instructions that run by themselves, not in a fusion. Any: made at run time."""
    computations = {each.id: each for each in module.computations}
    waiting, known = [module.entry_computation_id], set()
    while waiting:
        computation = computations.get(at := waiting.pop())
        if computation is None or at in known:
            continue
        known.add(at)
        for instruction in computation.instructions:
            if instruction.opcode in CONTAINERS:
                waiting.extend(instruction.called_computation_ids)
            if instruction.opcode not in _NO_LOOP:
                yield instruction


def _frames(index: Any, metadata: Any) -> tuple[Frame, ...]:
    """Return the stack of an instruction: from the index of newer programs, else its one line."""
    frames: list[Frame] = []
    at = metadata.stack_frame_id
    while 0 < at <= len(index.stack_frames) and len(frames) < _MOST_FRAMES:
        frame = index.stack_frames[at - 1]
        if 0 < frame.file_location_id <= len(index.file_locations):
            place = index.file_locations[frame.file_location_id - 1]
            file = _text(index.file_names, place.file_name_id)
            frames.append(
                Frame(file, place.line, _text(index.function_names, place.function_name_id))
            )
        at = frame.parent_frame_id
    if not frames and metadata.source_file:
        return (Frame(metadata.source_file, metadata.source_line, ""),)
    return tuple(reversed(frames))


def _text(texts: Any, number: int) -> str:
    return str(texts[number - 1]) if 0 < number <= len(texts) else ""
