"""Hold a compiled program of XLA: its instructions with their shapes, and its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

# Bits of an element. One of a smaller type than a byte takes a byte outside arrays of its own.
ELEMENT_BITS: Mapping[str, int] = {
    **dict.fromkeys(("s1", "u1"), 1),
    **dict.fromkeys(("s2", "u2"), 2),
    **dict.fromkeys(("f4e2m1fn", "s4", "u4"), 4),
    **dict.fromkeys(("f8e3m4", "f8e4m3", "f8e4m3b11fnuz", "f8e4m3fn", "f8e4m3fnuz"), 8),
    **dict.fromkeys(("f8e5m2", "f8e5m2fnuz", "f8e8m0fnu", "pred", "s8", "u8"), 8),
    **dict.fromkeys(("bf16", "f16", "s16", "u16"), 16),
    **dict.fromkeys(("f32", "s32", "u32"), 32),
    **dict.fromkeys(("c64", "f64", "s64", "u64"), 64),
    "c128": 128,
    # They order instructions and hold nothing.
    "token": 0,
}
TUPLE = "tuple"
# The names that nodes of graphs have for these types.
DTYPES: Mapping[str, str] = {
    "bf16": "DT_BFLOAT16",
    "c128": "DT_COMPLEX128",
    "c64": "DT_COMPLEX64",
    "f16": "DT_HALF",
    "f32": "DT_FLOAT",
    "f64": "DT_DOUBLE",
    "pred": "DT_BOOL",
    "s16": "DT_INT16",
    "s32": "DT_INT32",
    "s64": "DT_INT64",
    "s8": "DT_INT8",
    "u16": "DT_UINT16",
    "u32": "DT_UINT32",
    "u64": "DT_UINT64",
    "u8": "DT_UINT8",
}


@dataclass(frozen=True, slots=True)
class HloShape:
    """The shape of a value: an array of a type such as "f32", or a tuple of shapes.

    `sizes` is () for a scalar. `is_dynamic` says that sizes are upper bounds.
    """

    dtype: str
    sizes: tuple[int, ...] = ()
    parts: tuple[HloShape, ...] = ()
    is_dynamic: bool = False

    @property
    def elements(self) -> int:
        """Return the number of elements of an array."""
        return prod(self.sizes)

    def arrays(self) -> tuple[HloShape, ...]:
        """Return the arrays in it: itself, or those of the tuple and of tuples within."""
        if self.dtype != TUPLE:
            return (self,)
        return tuple(array for part in self.parts for array in part.arrays())


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """How a window moves along one dimension; dilations are distances of its elements."""

    size: int
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    window_dilation: int = 1
    base_dilation: int = 1


@dataclass(frozen=True, slots=True)
class ConvolutionDimensions:
    """Which dimension of the input, the kernel and the output is what."""

    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DotDimensions:
    """The dimensions that a product sums over, and those of its batch, of both operands."""

    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]
    lhs_batch: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class HloInstruction:
    """One instruction of a computation.

    `operands` and `called` are ids of instructions and computations of the program. `op_name` is
    the name of the framework's op, of a parameter that of the argument. `path` is that name without
    transformations, as nodes have it, "" for an argument and for what XLA added. `target` names the
    library function of a custom call, and `config` is what the backend noted, mostly JSON.
    """

    id: int
    name: str
    opcode: str
    shape: HloShape
    op_name: str = ""
    path: str = ""
    operands: tuple[int, ...] = ()
    called: tuple[int, ...] = ()
    dimensions: tuple[int, ...] = ()
    dot: DotDimensions | None = None
    window: tuple[WindowDimension, ...] = ()
    convolution: ConvolutionDimensions | None = None
    feature_groups: int = 1
    batch_groups: int = 1
    fft_length: tuple[int, ...] = ()
    target: str = ""
    config: bytes = b""
    parameter: int = 0
    tuple_index: int = 0
    replica_groups: tuple[tuple[int, ...], ...] = ()

    def results(self) -> tuple[HloShape, ...]:
        """Return the arrays that it makes: of one that begins something, what that will make."""
        parts = self.shape.parts
        if self.opcode in _WITH_OPERANDS and len(parts) > 1:
            return parts[1].arrays()
        return self.shape.arrays()


# Their results hold their operands, and then what they make.
_WITH_OPERANDS = ("all-gather-start", "collective-permute-start")


@dataclass(frozen=True, slots=True)
class HloComputation:
    """A function of a program: its instructions, and the id of the one that is its result."""

    id: int
    name: str
    instructions: tuple[HloInstruction, ...]
    root: int


@dataclass(frozen=True, slots=True)
class HloModule:
    """A compiled program; `entry` is the id of the computation that it begins with."""

    name: str
    computations: Mapping[int, HloComputation]
    entry: int
    buffers: BufferAssignment | None = None

    def instructions_by_id(self) -> dict[int, HloInstruction]:
        """Return all instructions by their ids."""
        return {
            instruction.id: instruction
            for computation in self.computations.values()
            for instruction in computation.instructions
        }


@dataclass(frozen=True, slots=True)
class LogicalBuffer:
    """A value of an instruction in memory; `part` is its place in the tuple that it is part of."""

    id: int
    bytes: int
    instruction: str
    part: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Assigned:
    """A buffer within an allocation."""

    buffer: int
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BufferAllocation:
    """Memory that a program gets when it starts; buffers that are not live at once share it.

    `parameter` is the number of the argument that lies there, None if none does. `is_output` says
    that its content outlives the program; an allocation that is both was donated.
    """

    index: int
    bytes: int
    parameter: int | None
    part: tuple[int, ...]
    is_output: bool
    is_constant: bool
    is_thread_local: bool
    assigned: tuple[Assigned, ...]


@dataclass(frozen=True, slots=True)
class BufferEvent:
    """In a simulation of a program, an instruction that makes a buffer live, or ends its life.

    `shared` is the buffer whose memory it takes over; it is live as long as one of both is.
    """

    buffer: int
    instruction: str
    is_free: bool
    shared: int | None = None


@dataclass(frozen=True, slots=True)
class BufferAssignment:
    """The memory of a program: buffers, their allocations, and when buffers in them are live.

    `events` are those of temporary buffers, in order; empty if they are not known for the whole
    program.
    """

    buffers: Mapping[int, LogicalBuffer]
    allocations: tuple[BufferAllocation, ...]
    events: tuple[BufferEvent, ...]


@dataclass(frozen=True, slots=True)
class RanProgram:
    """A program that ran in traced steps; `number` tells it from others of its name.

    `names` has the names under which its instructions are nodes of the loop, and the instructions
    that are meant.
    """

    number: int
    module: HloModule
    names: Mapping[str, HloInstruction]
