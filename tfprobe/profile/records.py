"""Hold what nodes did in each step, by the records of tfprof, StepStats and checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from tfprobe.errors import Missing
from tfprobe.profile.graph import Graph, Shape


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What one execution asked of its allocators, in bytes; `at_us` is when it ended.

    `in_use_bytes` is what the GPU's allocator held then, 0 where that is not known.
    """

    at_us: int
    requested_bytes: int
    peak_bytes: int
    residual_bytes: int
    output_bytes: int
    temporary_bytes: int
    persistent_bytes: int
    on_host: bool
    in_use_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """One execution: when it started and how long it took."""

    start_us: int
    duration_us: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """Bytes taken from (or, negative, given back to) the GPU's allocator."""

    at_us: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Record:
    """What one node did in one step, by device. Start and end are 0 if it never started."""

    run_count: int
    start_us: int
    end_us: int
    accelerator: Mapping[str, tuple[Span, ...]]
    cpu: Mapping[str, tuple[Span, ...]]
    memory: tuple[MemoryUse, ...]
    allocations: tuple[Allocation, ...]


@dataclass(frozen=True, slots=True)
class GraphProfile:
    """A graph and what its nodes did.

    `records[node][step]` is there only where the node ran in that step; `devices[node]` is the
    device the node was placed on, None unknown. `lacks_stream` says that a GPU was used and no
    times of its kernels came with it. `covered` is how many nodes the steps of a graph told about.
    `tensors` are those of a checkpoint, if there is one.
    """

    graph: Graph
    steps: tuple[int, ...]
    devices: tuple[str | None, ...]
    records: tuple[Mapping[int, Record], ...]
    covered: int
    lacks_stream: bool
    tensors: Tensors | None = None


NOT_RECORDED = Missing("not in the recording of this step")


@dataclass(frozen=True, slots=True)
class TensorOutput:
    """A tensor that an execution made; `description` is TensorFlow's own text about it.

    `dtype` is TensorFlow's name, such as "DT_FLOAT".
    """

    slot: int
    dtype: str
    shape: tuple[int, ...] | Missing
    allocator: str
    requested_bytes: int
    description: str


@dataclass(frozen=True, slots=True)
class NodeStats:
    """One execution. `label` is text that names the op and its inputs, or the kernel.

    `duration_us` is until all was done, which is longer than the op itself. `total_bytes` is what
    was requested of all allocators. `outputs` is empty as well where the recording tells of none.
    """

    name: str
    label: str
    start_us: int
    duration_us: int
    outputs: tuple[TensorOutput, ...] = ()
    total_bytes: int | Missing = NOT_RECORDED

    @property
    def end_us(self) -> int:
        return self.start_us + self.duration_us


@dataclass(frozen=True, slots=True)
class DeviceStats:
    """What a device did, or a stream of it, in the order in which it was told."""

    device: str
    nodes: tuple[NodeStats, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of numbers or of strings, row by row; a scalar has the shape ()."""

    shape: Shape
    values: tuple[float, ...] | tuple[int, ...] | tuple[str, ...]


class Tensors(Protocol):
    """Tensors by name, read when they are asked for."""

    @property
    def names(self) -> Collection[str]:
        """Return the names there are."""

    def read(self, name: str) -> Tensor:
        """Return the tensor of this name."""
