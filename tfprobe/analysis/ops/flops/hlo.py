"""Count the float operations of instructions of compiled programs, from their shapes.

The convention is that of the ops of TensorFlow: a product and its sum are two operations, all else
is one, and moving data is none. What cannot be counted is missing with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log2, prod

from tfprobe.analysis.ops.flops import hlo_calls
from tfprobe.analysis.ops.flops.call import UnknownOperands
from tfprobe.analysis.ops.flops.hlo_products import convolution, dot
from tfprobe.errors import Missing
from tfprobe.profile.hlo import HloInstruction, HloModule, HloShape

# Thousands of larger numbers could not be added up in 64 bits.
_MOST = 2**50
# No program nests deeper, but a damaged one may call itself.
_DEEPEST = 100

_Counter = Callable[["ProgramFlops", HloInstruction], float]


class ProgramFlops:
    """Counts the float operations of one execution of each instruction of a program."""

    def __init__(self, module: HloModule) -> None:
        """Count nothing yet."""
        self._module = module
        self._instructions = module.instructions_by_id()
        self._of_computations: dict[int, float | UnknownOperands] = {}
        self._depth = 0

    def of(self, instruction: HloInstruction) -> int | Missing:
        """Return the float operations of one execution, with those of all that it calls."""
        try:
            found = int(self.count(instruction))
        except UnknownOperands as exc:
            return Missing(str(exc))
        return found if 0 <= found <= _MOST else Missing("its shapes are those of no machine")

    def total(self) -> int | Missing:
        """Return the float operations of one run of the program."""
        try:
            found = int(self.computation(self._module.entry))
        except UnknownOperands as exc:
            return Missing(str(exc))
        return found if 0 <= found <= _MOST else Missing("its shapes are those of no machine")

    def count(self, instruction: HloInstruction) -> float:
        """Return the float operations of one execution. Raises UnknownOperands with the reason."""
        if instruction.opcode in MOVEMENT:
            return 0
        counted = _COUNTED.get(instruction.opcode)
        if counted is None:
            raise UnknownOperands(f"there is no formula for the instruction {instruction.opcode}")
        return counted(self, instruction)

    def computation(self, number: int) -> float:
        """Return the float operations of one run of a computation.

        Raises UnknownOperands with the reason.
        """
        if number not in self._of_computations:
            self._of_computations[number] = self._counted(number)
        found = self._of_computations[number]
        if isinstance(found, UnknownOperands):
            raise found
        return found

    def _counted(self, number: int) -> float | UnknownOperands:
        computation = self._module.computations.get(number)
        if computation is None:
            return UnknownOperands("the program lacks a computation that it calls")
        if self._depth >= _DEEPEST:
            return UnknownOperands("its computations call each other without end")
        self._depth += 1
        # A computation that calls itself finds this, instead of no end.
        self._of_computations[number] = UnknownOperands("a computation of it calls itself")
        try:
            return sum(self.count(instruction) for instruction in computation.instructions)
        except UnknownOperands as exc:
            return exc
        finally:
            self._depth -= 1

    def operand(self, instruction: HloInstruction, index: int) -> HloShape:
        """Return the shape of an operand. Raises UnknownOperands if there is none."""
        if index >= len(instruction.operands):
            raise UnknownOperands(f"operand {index} is unknown")
        found = self._instructions.get(instruction.operands[index])
        if found is None:
            raise UnknownOperands(f"operand {index} is unknown")
        return known(found.shape)


def known(shape: HloShape) -> HloShape:
    """Return a shape whose sizes can be. Raises UnknownOperands."""
    for array in shape.arrays():
        if array.sizes and min(array.sizes) < 0:
            raise UnknownOperands("a size is negative: the program is damaged")
        if array.is_dynamic:
            raise UnknownOperands("its sizes are known only when it runs")
    return shape


def result(instruction: HloInstruction) -> HloShape:
    """Return the first array of a result. Raises UnknownOperands if there is none."""
    arrays = known(instruction.shape).arrays()
    if not arrays:
        raise UnknownOperands("the shape of its result is unknown")
    return arrays[0]


def _first_called(program: ProgramFlops, instruction: HloInstruction) -> float:
    if not instruction.called:
        raise UnknownOperands("the computation that it applies is unknown")
    return program.computation(instruction.called[0])


def _elementwise(each: int) -> _Counter:
    def count(program: ProgramFlops, instruction: HloInstruction) -> float:
        elements = result(instruction).elements
        sizes = [
            program.operand(instruction, index).elements
            for index in range(len(instruction.operands))
        ]
        # The condition of a choice and the bounds of a clamp may be scalars.
        if not sizes or max(sizes) != elements:
            raise UnknownOperands("the shapes of its operands do not fit its result")
        return each * elements

    return count


def _called(program: ProgramFlops, instruction: HloInstruction) -> float:
    if not instruction.called:
        raise UnknownOperands("the computation that it runs is unknown")
    return sum(program.computation(number) for number in instruction.called)


def _while(program: ProgramFlops, instruction: HloInstruction) -> float:
    """The condition runs once more than the body."""
    if len(instruction.called) != 2:
        raise UnknownOperands("the body and the condition of the loop are unknown")
    each = _called(program, instruction)
    if not each:
        return 0
    trips = hlo_calls.trip_count(instruction)
    if trips is None:
        raise UnknownOperands("how often the loop runs is not part of the program")
    return trips * each


def _conditional(program: ProgramFlops, instruction: HloInstruction) -> float:
    branches = {program.computation(number) for number in instruction.called}
    if len(branches) != 1:
        raise UnknownOperands("which of its branches ran is unknown")
    return branches.pop()


def _dot(program: ProgramFlops, instruction: HloInstruction) -> float:
    if instruction.dot is None:
        raise UnknownOperands("the dimensions that it multiplies are unknown")
    lhs, rhs = (program.operand(instruction, index) for index in range(2))
    return dot(lhs, rhs, result(instruction), instruction.dot)


def _convolution(program: ProgramFlops, instruction: HloInstruction) -> float:
    given, kernel = (program.operand(instruction, index) for index in range(2))
    return convolution(given, kernel, result(instruction), instruction)


def _reduce(program: ProgramFlops, instruction: HloInstruction) -> float:
    """Folding n values takes n - 1 applications."""
    given = program.operand(instruction, 0).elements
    left = given - result(instruction).elements
    if left < 0:
        raise UnknownOperands("the shapes of its operands do not fit its result")
    return left * _first_called(program, instruction)


def _reduce_window(program: ProgramFlops, instruction: HloInstruction) -> float:
    each = _first_called(program, instruction)
    return result(instruction).elements * (_window(instruction) - 1) * each


def _window(instruction: HloInstruction) -> int:
    sizes = [dimension.size for dimension in instruction.window]
    if not sizes or min(sizes) < 1:
        raise UnknownOperands("the size of its window is unknown")
    return prod(sizes)


def _select_and_scatter(program: ProgramFlops, instruction: HloInstruction) -> float:
    """Choose an element of each window, and add a value to it."""
    if len(instruction.called) != 2:
        raise UnknownOperands("the computations that it applies are unknown")
    select, scatter = (program.computation(number) for number in instruction.called)
    windows = program.operand(instruction, 1).elements
    return windows * ((_window(instruction) - 1) * select + scatter)


def _scatter(program: ProgramFlops, instruction: HloInstruction) -> float:
    """Operands: arrays, indices, and as many updates as arrays."""
    updates = program.operand(instruction, len(instruction.operands) - 1).elements
    return updates * _first_called(program, instruction)


def _map(program: ProgramFlops, instruction: HloInstruction) -> float:
    return result(instruction).elements * _first_called(program, instruction)


def _sort(program: ProgramFlops, instruction: HloInstruction) -> float:
    """n log2 n comparisons, as XLA counts them, whatever one takes."""
    given = program.operand(instruction, 0)
    along = instruction.dimensions[0] if instruction.dimensions else -1
    if not 0 <= along < len(given.sizes):
        raise UnknownOperands("the dimension that it sorts is unknown")
    deep = max(given.sizes[along] - 1, 0).bit_length()
    return given.elements * deep


def _fft(program: ProgramFlops, instruction: HloInstruction) -> float:
    """5 n log2 n, as FFTW counts a complex transform; half of it for a real one."""
    lengths = instruction.fft_length
    if not lengths or min(lengths) < 1:
        raise UnknownOperands("the lengths of the transform are unknown")
    given, made = program.operand(instruction, 0), result(instruction)
    is_real = "c" not in (given.dtype[0], made.dtype[0]) or given.dtype[0] != made.dtype[0]
    whole = made if given.dtype[0] == "c" else given
    if len(whole.sizes) < len(lengths):
        raise UnknownOperands("the shapes of its operands do not fit the transform")
    rows = prod(whole.sizes[: len(whole.sizes) - len(lengths)])
    points = prod(lengths)
    return (2.5 if is_real else 5) * rows * points * log2(points)


def _across(program: ProgramFlops, instruction: HloInstruction) -> float:
    """Each device adds its part to what it receives, once for each element."""
    arrays = known(instruction.shape).arrays()
    return sum(array.elements for array in arrays) * _first_called(program, instruction)


def _custom_call(program: ProgramFlops, instruction: HloInstruction) -> float:
    operands = [program.operand(instruction, index) for index in range(len(instruction.operands))]
    return hlo_calls.custom_call(instruction, operands, known(instruction.shape))


def _per_operand(each: int) -> _Counter:
    return lambda program, instruction: each * program.operand(instruction, 0).elements


# Operations for each element of the result, as in `formulas` for ops of TensorFlow.
_ELEMENTWISE: Mapping[str, int] = {
    **dict.fromkeys(("abs", "acos", "acosh", "add", "and", "asin", "asinh", "atan2", "atanh"), 1),
    **dict.fromkeys(("cbrt", "ceil", "compare", "complex", "cosh", "cosine"), 1),
    **dict.fromkeys(("count-leading-zeros", "divide", "erf", "exponential"), 1),
    **dict.fromkeys(("exponential-minus-one", "floor", "imag", "is-finite", "log"), 1),
    **dict.fromkeys(("log-plus-one", "maximum", "minimum", "multiply", "negate", "not", "or"), 1),
    **dict.fromkeys(("popcnt", "power", "remainder", "round-nearest-afz"), 1),
    **dict.fromkeys(("round-nearest-even", "select", "shift-left"), 1),
    **dict.fromkeys(("shift-right-arithmetic", "shift-right-logical", "sign", "sine"), 1),
    **dict.fromkeys(("sinh", "sqrt", "subtract", "tan", "tanh", "xor"), 1),
    "clamp": 2,
    "logistic": 4,
    "rsqrt": 2,
}
_COUNTED: Mapping[str, _Counter] = {
    **{opcode: _elementwise(each) for opcode, each in _ELEMENTWISE.items()},
    **dict.fromkeys(("all-reduce", "all-reduce-start", "reduce-scatter"), _across),
    **dict.fromkeys(("async-start", "call", "fusion"), _called),
    # Mean 1, variance 3, normalisation 3; the gradient 9, as of FusedBatchNorm.
    "batch-norm-grad": _per_operand(9),
    "batch-norm-inference": _per_operand(3),
    "batch-norm-training": _per_operand(7),
    "conditional": _conditional,
    "convolution": _convolution,
    "custom-call": _custom_call,
    "dot": _dot,
    "fft": _fft,
    "map": _map,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "scatter": _scatter,
    "select-and-scatter": _select_and_scatter,
    "sort": _sort,
    "while": _while,
}
# Instructions without float operations: they move data, name it, or make random bits.
MOVEMENT: frozenset[str] = frozenset(
    (
        *("add-dependency", "after-all", "all-gather", "all-gather-done", "all-gather-start"),
        *("all-reduce-done", "all-to-all", "async-done", "async-update", "bitcast"),
        *("bitcast-convert", "broadcast", "collective-broadcast", "collective-permute"),
        *("collective-permute-done", "collective-permute-start", "concatenate", "constant"),
        *("convert", "copy", "copy-done", "copy-start", "domain", "dynamic-reshape"),
        *("dynamic-slice", "dynamic-update-slice", "gather", "get-dimension-size"),
        *("get-tuple-element", "infeed", "iota", "opt-barrier", "outfeed", "pad"),
        *("parameter", "partition-id", "ragged-all-to-all", "real", "recv", "recv-done"),
        *("reduce-precision", "replica-id", "reshape", "reverse", "rng-bit-generator"),
        *("rng-get-and-update-state", "send", "send-done", "set-dimension-size", "slice"),
        *("stochastic-convert", "transpose", "tuple"),
    )
)
