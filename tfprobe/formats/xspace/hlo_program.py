"""Decode an HloProto into the instructions that run: which op each was compiled from, and where.

What an instruction computes, from which shapes, is in `hlo_module`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfprobe.formats.schema import parse
from tfprobe.formats.xspace.op_names import jax_op, op_path
from tfprobe.profile.graph import Frame

# Instructions whose computations run instruction by instruction: all others are one kernel.
CONTAINERS = frozenset({"call", "conditional", "while"})
# Instructions that only name values.
_NO_LOOP = frozenset(
    {"after-all", "bitcast", "constant", "get-tuple-element", "parameter", "tuple"}
)
_FUSION = "fusion"
# What a fusion is called after, if one of these is in it: the first of them takes most of its time.
_MAIN_PARTS = (
    "convolution",
    "dot",
    "scaled-dot",
    "custom-call",
    "fft",
    "sort",
    "scatter",
    "reduce-window",
    "reduce",
    "gather",
)
# No Python stack is deeper, but a cyclic index is.
_MOST_FRAMES = 1000


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction that XLA runs as one unit.

    `op` is the framework op that it was compiled from, "" for one that XLA added, such as a copy;
    for a fusion, the op of its root, and `fused` has the ops of all its parts. `op_type` is that
    op's type, for a fusion of JAX "dot fusion" after its main part, "" if the framework does not
    record it. `op_name` is unique in the program: if other instructions were compiled from the same
    op, it is below that op. `is_backward` says that it computes gradients. `frames` are lines of
    Python, outermost first; TensorFlow records only one line, its own.
    """

    name: str
    opcode: str
    op: str
    op_type: str
    op_name: str
    is_backward: bool
    is_of_jax: bool
    frames: tuple[Frame, ...]
    fused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HloProgram:
    """A compiled program: the instructions that run, by name.

    `inside` has the names of the instructions that a container runs, also in containers within.
    """

    name: str
    instructions: Mapping[str, Instruction]
    inside: Mapping[str, frozenset[str]]


def read_hlo(content: bytes) -> HloProgram:
    """Decode the program in an HloProto.

    Raises UnreadableInput if the bytes are not an HloProto.
    """
    module = parse(content, "tfprobe.hlo.HloProto").hlo_module
    computations = {computation.id: computation for computation in module.computations}
    ran = list(_running(module, computations))
    uses = Counter(_op(instruction) for instruction in ran if instruction.opcode not in CONTAINERS)
    stacks = _Stacks(module.stack_frame_index)
    instructions = {
        given.name: _instruction(given, stacks, _parts(given, computations), uses) for given in ran
    }
    inside = {
        given.name: frozenset(each.name for each in _run_by(given, computations))
        for given in ran
        if given.opcode in CONTAINERS
    }
    return HloProgram(module.name, instructions, inside)


def _instruction(
    given: Any, stacks: _Stacks, parts: list[Any], uses: Mapping[str, int]
) -> Instruction:
    """Return an instruction. Any: HloInstructionProtos."""
    of_jax, op = jax_op(given.metadata.op_name), _op(given)
    if not op:
        op_name = str(given.name)
    else:
        op_name = f"{op}/{given.name}" if uses[op] > 1 else op
    op_type = "" if of_jax else str(given.metadata.op_type)
    if not op_type and given.opcode == _FUSION:
        op_type = _fusion_type({part.opcode for part in parts})
    fused = dict.fromkeys(_op(part) for part in parts if part.opcode not in _NO_LOOP)
    fused.pop("", None)
    return Instruction(
        name=given.name,
        opcode=given.opcode,
        op=op,
        op_type=op_type,
        op_name=op_name,
        is_backward=of_jax is not None and of_jax.is_backward,
        is_of_jax=of_jax is not None,
        frames=stacks.of(given.metadata),
        fused=tuple(fused),
    )


def _op(given: Any) -> str:
    """Return the framework op of an instruction, "" if XLA added it. Any: HloInstructionProto."""
    return op_path(str(given.metadata.op_name))


def _fusion_type(opcodes: set[str]) -> str:
    main = next((opcode for opcode in _MAIN_PARTS if opcode in opcodes), "")
    return f"{main} {_FUSION}".strip()


def _running(module: Any, computations: Mapping[int, Any]) -> Iterator[Any]:
    """Yield the instructions that run by themselves, not in a fusion. Any: made at run time."""
    yield from _run_from([module.entry_computation_id], computations)


def _run_by(container: Any, computations: Mapping[int, Any]) -> Iterator[Any]:
    """Yield the instructions that a container runs. Any: made at run time."""
    yield from _run_from(list(container.called_computation_ids), computations)


def _run_from(waiting: list[int], computations: Mapping[int, Any]) -> Iterator[Any]:
    known = set()
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


def _parts(fusion: Any, computations: Mapping[int, Any]) -> list[Any]:
    """Return the instructions in a fusion and in those within. Any: HloInstructionProtos."""
    if fusion.opcode != _FUSION:
        return []
    found: list[Any] = []
    waiting, known = list(fusion.called_computation_ids), set()
    while waiting:
        computation = computations.get(at := waiting.pop())
        if computation is None or at in known:
            continue
        known.add(at)
        for instruction in computation.instructions:
            found.append(instruction)
            waiting.extend(instruction.called_computation_ids)
    return found


class _Stacks:
    """The stacks of instructions: from the index of newer programs, else the one line of each."""

    def __init__(self, index: Any) -> None:
        """Take a StackFrameIndexProto. Any: made at run time."""
        self._index = index
        self._known: dict[int, tuple[Frame, ...]] = {}

    def of(self, metadata: Any) -> tuple[Frame, ...]:
        """Return the stack of an instruction, outermost first. Any: an OpMetadata."""
        number_of_frame = metadata.stack_frame_id
        if number_of_frame not in self._known:
            self._known[number_of_frame] = self._stack(number_of_frame)
        frames = self._known[number_of_frame]
        if not frames and metadata.source_file:
            return (Frame(metadata.source_file, metadata.source_line, ""),)
        return frames

    def _stack(self, at: int) -> tuple[Frame, ...]:
        index, frames = self._index, list[Frame]()
        while 0 < at <= len(index.stack_frames) and len(frames) < _MOST_FRAMES:
            frame = index.stack_frames[at - 1]
            if 0 < frame.file_location_id <= len(index.file_locations):
                place = index.file_locations[frame.file_location_id - 1]
                file = _text(index.file_names, place.file_name_id)
                function = _text(index.function_names, place.function_name_id)
                frames.append(Frame(file, place.line, function))
            at = frame.parent_frame_id
        return tuple(reversed(frames))


def _text(texts: Any, at: int) -> str:
    return str(texts[at - 1]) if 0 < at <= len(texts) else ""
