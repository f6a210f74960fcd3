"""Hold what nodes did in each step: one record per node and step in which it ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tfprobe.profile.graph import Graph
from tfprobe.profile.tensor import Tensors


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
