"""Decode the plane of a GPU: one row for each kernel, copy and memset of its streams.

The form is that of the GPU tracer (openxla/xla, xla/backends/profiler/gpu/cupti_collector.cc): the
stat `tf_op` of a stream's event names its op, `correlation_id` the driver call that launched it,
and `memcpy_details` what a copy moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tfprobe.formats.xspace.cuda_graphs import NODE_MAP, OF_GRAPH, CudaGraphs, is_in_graph
from tfprobe.formats.xspace.events import EventPlane
from tfprobe.formats.xspace.op_names import jax_op
from tfprobe.formats.xspace.plane import (
    copy_bytes,
    is_stream,
    line_name,
    number,
    op_of,
    place_of,
    stat_values,
)
from tfprobe.formats.xspace.programs import Programs
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.tables import Columns, Interner

_COPY_DETAILS = ("memcpy_details", "memset_details")
# Driver allocations have events on streams too; no kernel ran for them.
_MEMORY_DETAILS = ("memalloc_details", "memfree_details", "memory_residency_details")


def add_kernels(
    columns: Columns[Executions],
    interner: Interner,
    plane: EventPlane,
    programs: Programs,
    graphs: CudaGraphs,
) -> None:
    """Add a row for each kernel and copy of a GPU's plane."""
    position = interner.position
    of_kernel = [ids for ids in map(plane.stat_ids, _OF_KERNEL) if ids]
    for line in plane.lines:
        name = line_name(line)
        if not is_stream(name) or not len(line):
            continue
        kinds, examples = line.alike(of_kernel, line.every())
        ids = line.ids[examples].tolist()
        kernels = [
            _kernel(plane, at, stats, interner, programs, graphs)
            for at, stats in zip(ids, line.stats(examples), strict=True)
        ]
        is_work = np.array([kernel is not None for kernel in kernels])
        facts = np.array([kernel or _NO_KERNEL for kernel in kernels], dtype=np.int64)
        events = np.flatnonzero(is_work[kinds])
        start_ns, duration_ns = line.times_ns(events)
        names, op_types, places, sizes, details = facts[kinds[events]].T
        columns.add(
            len(events),
            device=position(plane.name),
            lane=position(name),
            name=names,
            op_type=op_types,
            place=places,
            start_ns=start_ns,
            duration_ns=duration_ns,
            bytes=sizes,
            detail=details,
            correlation=line.integers(plane.stat_ids("correlation_id"), events),
        )


# The stats that decide what a kernel or a copy is.
_OF_KERNEL = (
    *_COPY_DETAILS,
    *_MEMORY_DETAILS,
    *OF_GRAPH,
    "hlo_module",
    "hlo_op",
    "name",
    "program_id",
    "tf_op",
)


class _Kernel(NamedTuple):
    """What is alike for all kernels or copies of one kind; texts are positions."""

    name: int
    op_type: int
    place: Place
    bytes: int
    detail: int


_NO_KERNEL = _Kernel(0, 0, Place.ACCELERATOR, 0, 0)


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


def _kernel(
    plane: EventPlane,
    at: int,
    own: Mapping[str, Any],
    interner: Interner,
    programs: Programs,
    graphs: CudaGraphs,
) -> _Kernel | None:
    """Return what an event is, by its id and stats, None if no work of the device. Any: values."""
    metadata = plane.message.event_metadata[at]
    stats = {**stat_values(plane.message, metadata.stats), **own}
    is_no_work = metadata.name.startswith(NODE_MAP)
    if is_no_work or any(key in stats for key in _MEMORY_DETAILS):
        return None
    facts = kernel_facts(metadata.name, stats)
    kernel = metadata.display_name or metadata.name
    is_copy = facts.place is not Place.ACCELERATOR
    name, op_type = _op(stats, programs, graphs, kernel)
    return _Kernel(
        name=interner.position(name),
        op_type=interner.position(kernel if is_copy else op_type),
        place=facts.place,
        bytes=facts.bytes,
        detail=interner.position(facts.detail if is_copy else kernel),
    )


# The scope of kernels in a CUDA graph of whose nodes nothing is known.
UNATTRIBUTED = "(unattributed)"


def _op(
    stats: Mapping[str, Any], programs: Programs, graphs: CudaGraphs, kernel: str
) -> tuple[str, str]:
    """Return name and type of the op that a kernel ran for, as far as the capture tells."""
    op = op_of(str(stats.get("tf_op") or stats.get("name") or ""))
    if op is not None:
        return op
    is_in_one = is_in_graph(stats)
    annotation = graphs.annotation(stats) if is_in_one else None
    for known in (stats, annotation or {}):
        instruction = _instruction(known, programs, is_in_one=is_in_one)
        if instruction is not None:
            return instruction
    if is_in_one:
        return f"{UNATTRIBUTED}/{kernel.replace('/', ':')}", kernel
    annotated = str(stats.get("tf_op") or "")
    # "XlaModule:" and "Thunk:" only say what kind of annotation it is.
    return (kernel if annotated.endswith(":") else annotated or kernel), kernel


def _instruction(
    stats: Mapping[str, Any], programs: Programs, *, is_in_one: bool
) -> tuple[str, str] | None:
    """Return the op of the innermost instruction in stats; None if there is none.

    Of a kernel in a CUDA graph, the instruction that launches the graph is none.
    """
    names = [name for name in str(stats.get("hlo_op") or "").split("::") if name]
    for name in reversed(names):
        known = programs.op({**stats, "hlo_op": name})
        if known is not None and not (is_in_one and known.is_container):
            return known.name, known.op_type
    if not names or (is_in_one and names[-1].startswith(_COMMAND_BUFFER)):
        return None
    of_jax = jax_op(str(stats.get("name") or ""))
    name = names[-1]
    return (name if of_jax is None else of_jax.scoped), name.split(".", 1)[0]


# How XLA names the instructions that launch a CUDA graph.
_COMMAND_BUFFER = "command_buffer"
