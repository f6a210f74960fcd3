"""Count the bytes that instructions of compiled programs read and write, from their shapes.

An instruction reads its operands once and writes its result. Of an array that it only takes slices
of, it reads these; one that replaces a slice of an array reads and writes the slice alone, because
XLA does so in place. Values within a fusion stay in registers and count nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfprobe.analysis.ops.flops.call import UnknownOperands
from tfprobe.analysis.ops.flops.hlo_calls import (
    LIBRARIES,
    MARKS,
    estimated_bytes,
    trip_count,
)
from tfprobe.errors import Missing
from tfprobe.profile.hlo import ELEMENT_BITS, HloComputation, HloInstruction, HloModule, HloShape

_BITS_PER_BYTE = 8
_MOST = 2**50
# They name values, or end what another instruction began.
_NOTHING = frozenset(
    (
        *("add-dependency", "after-all", "all-gather-done", "all-reduce-done", "async-done"),
        *("async-update", "bitcast", "collective-permute-done", "constant", "copy-done", "domain"),
        *("get-tuple-element", "opt-barrier", "parameter", "partition-id", "recv-done"),
        *("replica-id", "send-done", "tuple"),
    )
)
_SLICES = frozenset(("dynamic-slice", "gather", "slice"))
_UPDATE = "dynamic-update-slice"
_SAME = frozenset(("bitcast", "copy", "reshape"))
_MOST_STEPS = 8
# No program nests deeper, but a damaged one may call itself.
_DEEPEST = 50


class ProgramBytes:
    """Counts the bytes that one execution of each instruction of a program accesses."""

    def __init__(self, module: HloModule) -> None:
        """Count nothing yet."""
        self._module = module
        self._instructions = module.instructions_by_id()
        self._of_computations: dict[int, int] = {}
        self._depth = 0

    def of(self, instruction: HloInstruction) -> int | Missing:
        """Return the bytes that one execution reads and writes, or why they are unknown."""
        try:
            found = self._count(instruction)
        except UnknownOperands as exc:
            return Missing(str(exc))
        return found if 0 <= found <= _MOST else Missing("its shapes are those of no machine")

    def _count(self, instruction: HloInstruction) -> int:
        opcode = instruction.opcode
        if opcode in _NOTHING:
            return 0
        if opcode == "fusion":
            return self._fusion(instruction)
        if opcode in ("call", "conditional", "while"):
            return self._container(instruction)
        if opcode == "custom-call":
            return self._custom_call(instruction)
        if opcode.endswith("-start"):
            # Its result holds the operands, too.
            return 2 * sum(map(_size, self._operands(instruction)))
        read = sum(
            self._read(instruction, at, shape)
            for at, shape in enumerate(self._operands(instruction))
        )
        return read + self._written(instruction)

    def _container(self, instruction: HloInstruction) -> int:
        """Return what the instructions that it runs access, where they have no rows themselves."""
        if self._depth >= _DEEPEST or not instruction.called:
            raise UnknownOperands("the computations that it runs are unknown")
        self._depth += 1
        try:
            parts = [self._computation(number) for number in instruction.called]
        finally:
            self._depth -= 1
        if instruction.opcode == "conditional":
            if len(set(parts)) != 1:
                raise UnknownOperands("which of its branches ran is unknown")
            return parts[0]
        if instruction.opcode == "call":
            return sum(parts)
        trips = trip_count(instruction)
        if trips is None:
            raise UnknownOperands("how often the loop runs is not part of the program")
        return trips * sum(parts)

    def _computation(self, number: int) -> int:
        if number not in self._of_computations:
            computation = self._module.computations.get(number)
            if computation is None:
                raise UnknownOperands("the program lacks a computation that it calls")
            amounts = [self._count(each) for each in computation.instructions]
            self._of_computations[number] = sum(amounts)
        return self._of_computations[number]

    def _operands(self, instruction: HloInstruction) -> list[HloShape]:
        found = [self._instructions.get(operand) for operand in instruction.operands]
        known = [each.shape for each in found if each is not None]
        if len(known) != len(found):
            raise UnknownOperands("the shape of an operand is unknown")
        return known

    def _read(self, instruction: HloInstruction, at: int, shape: HloShape) -> int:
        """Return how much of an operand an instruction reads."""
        if at == 0 and instruction.opcode in _SLICES:
            return min(_size(instruction.shape), _size(shape))
        if at == 0 and instruction.opcode == _UPDATE:
            return 0
        if at == 0 and instruction.opcode == "scatter":
            return min(self._updates(instruction), _size(shape))
        return _size(shape)

    def _written(self, instruction: HloInstruction) -> int:
        """Return how much of its result an instruction writes."""
        if instruction.opcode == _UPDATE:
            return _size(self._operand(instruction, 1))
        if instruction.opcode == "scatter":
            return min(self._updates(instruction), _size(instruction.shape))
        return _size(instruction.shape)

    def _updates(self, instruction: HloInstruction) -> int:
        return _size(self._operand(instruction, len(instruction.operands) - 1))

    def _operand(self, instruction: HloInstruction, at: int) -> HloShape:
        shapes = self._operands(instruction)
        if not 0 <= at < len(shapes):
            raise UnknownOperands("an operand is missing")
        return shapes[at]

    def _fusion(self, fusion: HloInstruction) -> int:
        inside = self._module.computations.get(fusion.called[0]) if fusion.called else None
        if inside is None:
            raise UnknownOperands("the computation that it runs is unknown")
        users = _users(inside)
        parameters = {
            each.parameter: each for each in inside.instructions if each.opcode == "parameter"
        }
        read = 0
        for at, shape in enumerate(self._operands(fusion)):
            parameter = parameters.get(at)
            if parameter is None:
                raise UnknownOperands("the program lacks a parameter of a fusion")
            whole = _size(shape)
            part = self._read_part(parameter, users, 0)
            read += whole if part is None else min(part, whole)
        return read + self._fusion_result(fusion, inside)

    def _read_part(
        self, given: HloInstruction, users: Mapping[int, Sequence[HloInstruction]], depth: int
    ) -> int | None:
        """Return how many bytes of a value are read in a fusion, None if it is all of them."""
        if depth > _MOST_STEPS:
            return None
        read = 0
        for user in users.get(given.id, ()):
            is_first = user.operands.index(given.id) == 0 and user.operands.count(given.id) == 1
            part: int | None = None
            if is_first and user.opcode in _SLICES:
                part = _size(user.shape)
            elif is_first and user.opcode == _UPDATE:
                part = 0
            elif user.opcode in _SAME:
                part = self._read_part(user, users, depth + 1)
            if part is None:
                return None
            read += part
        return read

    def _fusion_result(self, fusion: HloInstruction, inside: HloComputation) -> int:
        instructions = {each.id: each for each in inside.instructions}
        root = instructions.get(inside.root)
        if root is None:
            raise UnknownOperands("the result of a fusion is unknown")
        if root.opcode != "tuple":
            return min(self._result(root, instructions), _size(fusion.shape))
        parts = [instructions.get(operand) for operand in root.operands]
        known = [each for each in parts if each is not None]
        if len(known) != len(parts):
            raise UnknownOperands("a result of a fusion is unknown")
        return min(sum(self._result(each, instructions) for each in known), _size(fusion.shape))

    def _result(self, made: HloInstruction, instructions: Mapping[int, HloInstruction]) -> int:
        """Return how much of a result is written: of an array that is updated, the slice."""
        found: HloInstruction | None = made
        for _ in range(_MOST_STEPS):
            if found is None or found.opcode not in _SAME or not found.operands:
                break
            found = instructions.get(found.operands[0])
        if found is not None and found.opcode == _UPDATE:
            return _size(self._operand(found, 1))
        return _size(made.shape)

    def _custom_call(self, instruction: HloInstruction) -> int:
        if instruction.target in MARKS:
            return 0
        estimated = estimated_bytes(instruction)
        if estimated is not None:
            return estimated
        if not instruction.target.startswith(LIBRARIES):
            raise UnknownOperands(
                f"nobody knows what {instruction.target or 'this function'} reads"
            )
        # Behind the result, there may be work space.
        made = instruction.shape.arrays()[:1]
        shapes = (*self._operands(instruction), *made)
        return sum(map(_size, shapes))


def _size(shape: HloShape) -> int:
    """Return the bytes of a value. Raises UnknownOperands."""
    total = 0
    for array in shape.arrays():
        bits = ELEMENT_BITS.get(array.dtype)
        if bits is None or 0 < bits < _BITS_PER_BYTE:
            raise UnknownOperands(f"the size of an element of type {array.dtype} is unknown")
        if array.sizes and min(array.sizes) < 0:
            raise UnknownOperands("a size is negative: the program is damaged")
        if array.is_dynamic:
            raise UnknownOperands("its sizes are known only when it runs")
        total += array.elements * bits // _BITS_PER_BYTE
    return total


def _users(computation: HloComputation) -> dict[int, list[HloInstruction]]:
    found: dict[int, list[HloInstruction]] = {}
    for instruction in computation.instructions:
        for operand in dict.fromkeys(instruction.operands):
            found.setdefault(operand, []).append(instruction)
    return found
