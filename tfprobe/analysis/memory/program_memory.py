"""Describe the memory that the compiler planned for a program, whatever ran: XLA's buffers.

A program gets its memory when it starts: arguments, results, constants and one or more allocations
for temporary values, in which those that are not live at once share places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfprobe.analysis.core.collective_ops import names_collective
from tfprobe.analysis.memory.memory_peak import Piece, Role
from tfprobe.analysis.ops.arguments import (
    BACKWARD,
    FORWARD,
    Argument,
    arguments,
    model_arguments,
    node_name,
    results,
    trains,
)
from tfprobe.analysis.ops.parameters import Use
from tfprobe.errors import Missing
from tfprobe.profile.hlo import (
    ELEMENT_BITS,
    BufferAllocation,
    BufferAssignment,
    BufferEvent,
    HloInstruction,
    HloModule,
    HloShape,
    RanProgram,
)

NO_BUFFERS = Missing("the capture does not say which buffers its programs have")
_DAMAGED = Missing("the buffers of its program contradict each other")
# No machine has more.
_MOST_BYTES = 2**50
_ROLES: Mapping[Use | None, Role] = {
    None: Role.INPUT,
    Use.OPTIMIZER_STATE: Role.OPTIMIZER_STATE,
    Use.PARAMETERS: Role.PARAMETERS,
    Use.STATE: Role.INPUT,
}


@dataclass(frozen=True, slots=True)
class ProgramMemory:
    """The memory of a program, and what is in it at its fullest moment.

    `donated_bytes` are in arguments and in results: these share their memory. `peak_instruction` is
    the instruction during which most temporary bytes are live, `peak_op` its node, both "" if the
    program has none. `moments` has the instructions after which the live bytes changed, and how
    many bytes then are live in total.
    """

    program: str
    argument_bytes: int
    output_bytes: int
    donated_bytes: int
    temporary_bytes: int
    constant_bytes: int
    peak_instruction: str
    peak_op: str
    pieces: tuple[Piece, ...]
    moments: tuple[tuple[str, int], ...]

    @property
    def bytes(self) -> int:
        """Return all that the program takes."""
        kept = self.argument_bytes + self.output_bytes - self.donated_bytes
        return kept + self.temporary_bytes + self.constant_bytes


def program_memory(program: RanProgram) -> ProgramMemory | Missing:
    """Return the memory of a program, or why it is unknown."""
    buffers = program.module.buffers
    if buffers is None or not buffers.allocations:
        return NO_BUFFERS
    if not _are_possible(buffers):
        return _DAMAGED
    shared = [each for each in buffers.allocations if not each.is_thread_local]
    temporary = [each for each in shared if _is_temporary(each)]
    temporary_bytes = sum(each.bytes for each in temporary)
    life = _Life(buffers, temporary)
    if life.most_bytes > temporary_bytes:
        return _DAMAGED
    names = _Names(program)
    kept = [each for each in shared if not _is_temporary(each)]
    pieces = [names.piece(buffers, allocation) for allocation in kept]
    pieces += [names.of_buffer(buffers, buffer, size) for buffer, size in life.at_peak]
    rest = temporary_bytes - life.most_bytes
    if rest:
        label = "(space between temporary values)"
        pieces.append(Piece("", "", "", rest, Role.TEMPORARY, label))
    kept_bytes = sum(each.bytes for each in kept)
    return ProgramMemory(
        program=program.module.name,
        argument_bytes=sum(each.bytes for each in kept if each.parameter is not None),
        output_bytes=sum(each.bytes for each in kept if each.is_output),
        donated_bytes=sum(
            each.bytes for each in kept if each.is_output and each.parameter is not None
        ),
        temporary_bytes=temporary_bytes,
        constant_bytes=sum(each.bytes for each in kept if _is_constant(each)),
        peak_instruction=life.peak_instruction,
        peak_op=names.node(life.peak_instruction),
        pieces=tuple(pieces),
        moments=tuple((name, kept_bytes + live) for name, live in life.moments),
    )


def variables_bytes(programs: Sequence[RanProgram]) -> dict[Role, int] | Missing:
    """Return the bytes of the parameters and the optimizer state among arguments."""
    found = model_arguments(programs)
    if isinstance(found, Missing):
        return found
    sizes = dict.fromkeys((Role.PARAMETERS, Role.OPTIMIZER_STATE), 0)
    for each in found:
        bits = ELEMENT_BITS.get(each.shape.dtype)
        role = _ROLES[each.use]
        if role in sizes and bits is None:
            return Missing(f"the size of an element of type {each.shape.dtype} is unknown")
        if role in sizes and bits is not None:
            sizes[role] += each.shape.elements * max(bits // 8, 1)
    return sizes


@dataclass(frozen=True, slots=True)
class KeptTwice:
    """A program that returns the variables it is given: `bytes` of `program_bytes` are there twice.

    XLA writes results in place of arguments that the program donates.
    """

    program: str
    bytes: int
    program_bytes: int


def kept_twice(programs: Sequence[RanProgram]) -> KeptTwice | Missing:
    """Return the program that keeps most of its parameters and optimizer state twice."""
    found: list[KeptTwice] = []
    reason = NO_BUFFERS
    for program in programs:
        memory, sizes = program_memory(program), variables_bytes([program])
        if isinstance(memory, Missing) or isinstance(sizes, Missing):
            reason = memory if isinstance(memory, Missing) else reason
            continue
        twice = min(sum(sizes.values()), memory.output_bytes) - memory.donated_bytes
        found.append(KeptTwice(memory.program, max(twice, 0), memory.bytes))
    return max(found, key=lambda kept: kept.bytes, default=reason)


def _is_temporary(allocation: BufferAllocation) -> bool:
    is_kept = allocation.is_output or allocation.parameter is not None
    return not (is_kept or allocation.is_constant or allocation.is_thread_local)


def _is_constant(allocation: BufferAllocation) -> bool:
    is_kept = allocation.is_output or allocation.parameter is not None
    return allocation.is_constant and not is_kept


def _are_possible(buffers: BufferAssignment) -> bool:
    """Return whether each buffer lies within its allocation, and sizes are those of a machine."""
    sizes = [each.bytes for each in buffers.allocations]
    if min(sizes) < 0 or sum(sizes) > _MOST_BYTES:
        return False
    return all(
        assigned.buffer in buffers.buffers
        and assigned.bytes >= 0
        and 0 <= assigned.offset <= allocation.bytes - assigned.bytes
        for allocation in buffers.allocations
        for assigned in allocation.assigned
    )


class _Life:
    """Follows which temporary buffers are live; those that share their memory count once."""

    def __init__(self, buffers: BufferAssignment, temporary: Sequence[BufferAllocation]) -> None:
        self._sizes = {
            assigned.buffer: assigned.bytes for each in temporary for assigned in each.assigned
        }
        self._owner: dict[int, int] = {}
        self._uses: dict[int, int] = {}
        self._live: dict[int, int] = {}
        self.moments: list[tuple[str, int]] = []
        self.most_bytes, self.peak_instruction = 0, ""
        self.at_peak: list[tuple[int, int]] = []
        live_bytes = 0
        for event in buffers.events:
            live_bytes += self._take(event)
            if not self.moments or self.moments[-1][0] != event.instruction:
                self.moments.append((event.instruction, live_bytes))
            else:
                self.moments[-1] = event.instruction, max(live_bytes, self.moments[-1][1])
            if live_bytes > self.most_bytes:
                self.most_bytes, self.peak_instruction = live_bytes, event.instruction
                self.at_peak = list(self._live.items())

    def _take(self, event: BufferEvent) -> int:
        """Note an event; return how much more is live."""
        if event.buffer not in self._sizes:
            return 0
        if event.is_free:
            owner = self._owner.pop(event.buffer, event.buffer)
            self._uses[owner] = self._uses.get(owner, 0) - 1
            return -self._live.pop(owner, 0) if self._uses[owner] == 0 else 0
        owner = event.buffer
        if event.shared is not None and event.shared in self._sizes:
            owner = event.shared
        self._owner[event.buffer] = owner
        self._uses[owner] = self._uses.get(owner, 0) + 1
        if self._uses[owner] != 1:
            return 0
        self._live[owner] = self._sizes[owner]
        return self._sizes[owner]


class _Names:
    """Names what lies in memory: arguments by their names, values by the ops that made them."""

    def __init__(self, program: RanProgram) -> None:
        module = program.module
        self._nodes = {each.name: name for name, each in program.names.items()}
        self._instructions = {
            each.name: each
            for computation in module.computations.values()
            for each in computation.instructions
        }
        known = arguments(module)
        self._arguments: dict[int, Argument] = {}
        if not isinstance(known, Missing):
            self._arguments = {each.number: each for each in known}
        self._parameters = _parameters(module)
        self._trains = trains(module)
        self._results = {each.name for each in results(module)}

    def node(self, instruction: str) -> str:
        """Return the node of an instruction, or its op name, or its own name."""
        known = self._instructions.get(instruction)
        path = "" if known is None else known.path
        return self._nodes.get(instruction) or path or instruction

    def piece(self, buffers: BufferAssignment, allocation: BufferAllocation) -> Piece:
        """Return what an allocation is for that lasts as long as the program runs."""
        if allocation.parameter is not None:
            return self._argument(allocation)
        if allocation.is_output:
            # Temporary values may lie there before the result.
            result = max(
                allocation.assigned,
                key=lambda each: (
                    buffers.buffers[each.buffer].instruction in self._results,
                    each.bytes,
                ),
                default=None,
            )
            if result is not None:
                found = self.of_buffer(buffers, result.buffer, allocation.bytes)
                return Piece(found.op, found.op_type, found.shape, allocation.bytes, Role.OUTPUT)
            return Piece("", "", "", allocation.bytes, Role.OUTPUT, "(results)")
        return Piece("", "", "", allocation.bytes, Role.CONSTANT, "(constants)")

    def _argument(self, allocation: BufferAllocation) -> Piece:
        number = allocation.parameter
        assert number is not None
        instruction = self._parameters.get(number)
        known = self._arguments.get(number)
        role = Role.INPUT if known is None else _ROLES[known.use]
        name = f"argument {number}" if instruction is None else instruction.op_name
        shape = "" if instruction is None else _text(instruction.shape)
        label = name or (f"argument {number}" if instruction is None else instruction.name)
        op = "" if known is None else node_name(known)
        return Piece(op, "parameter", shape, allocation.bytes, role, label)

    def of_buffer(self, buffers: BufferAssignment, number: int, size: int) -> Piece:
        """Return the piece of a value."""
        buffer = buffers.buffers[number]
        made = self._instructions.get(buffer.instruction)
        opcode = "" if made is None else made.opcode
        op_name = "" if made is None else made.op_name
        shape = "" if made is None else _text(_part(made.shape, buffer.part))
        role = Role.COMMUNICATION if names_collective(opcode) else self._role(op_name)
        label = buffer.instruction or "(unknown instruction)"
        op = self.node(buffer.instruction) if buffer.instruction else ""
        return Piece(op, opcode, shape, size, role, label)

    def _role(self, op_name: str) -> Role:
        """Return what a value is for; a training step has values of no pass: of its update."""
        if BACKWARD in op_name:
            return Role.GRADIENTS
        is_forward = FORWARD in op_name or not self._trains
        return Role.ACTIVATIONS if is_forward else Role.UPDATE


def _parameters(module: HloModule) -> dict[int, HloInstruction]:
    entry = module.computations.get(module.entry)
    instructions = entry.instructions if entry is not None else ()
    return {each.parameter: each for each in instructions if each.opcode == "parameter"}


def _part(shape: HloShape, part: Sequence[int]) -> HloShape:
    for at in part:
        if not 0 <= at < len(shape.parts):
            return shape
        shape = shape.parts[at]
    return shape


def _text(shape: HloShape) -> str:
    arrays = shape.arrays()
    if len(arrays) != 1:
        return ""
    return f"{arrays[0].dtype}[{','.join(map(str, arrays[0].sizes))}]"
