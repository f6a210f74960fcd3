"""Read the HLO of an XLA program: what each instruction was compiled from. Knows of no trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfprobe.formats.messages import parse
from tfprobe.profile.graph import Frame

# Instructions whose computations run instruction by instruction: all others are one kernel.
CONTAINERS = frozenset({"call", "conditional", "while"})
# Instructions that only name values.
_NO_WORK = frozenset(
    {"after-all", "bitcast", "constant", "get-tuple-element", "parameter", "tuple"}
)
# No Python stack is deeper; an index that leads in circles is.
_MOST_FRAMES = 1000


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction that XLA runs as one.

    `op` is the op of the framework that it was compiled from, "" for one that XLA added, such as a
    copy; of a fusion that of its root. `op_type` is that op's, "" where the framework tells none.
    `shares_op` says that other instructions of the program were compiled from the same op.
    `frames` are lines of Python, outermost first; TensorFlow writes one of its own alone.
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


def read(content: bytes) -> HloProgram:
    """Return the program that an HloProto holds.

    Raises UnreadableInput when the bytes are no HloProto.
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
    """Give the instructions that run as such: none inside a fusion. Any: made at run time."""
    computations = {each.id: each for each in module.computations}
    waiting, known = [module.entry_computation_id], set()
    while waiting:
        computation = computations.get(at := waiting.pop())
        if computation is None or at in known:
            continue
        known.add(at)
        for each in computation.instructions:
            if each.opcode in CONTAINERS:
                waiting.extend(each.called_computation_ids)
            if each.opcode not in _NO_WORK:
                yield each


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
