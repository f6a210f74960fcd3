"""Decode the plane of a GPU: one row for each kernel, copy and memset of its streams.

The form is that of the GPU tracer (openxla/xla, xla/backends/profiler/gpu/cupti_collector.cc): the
stat `tf_op` of a stream's event names its op, `correlation_id` the driver call that launched it,
and `memcpy_details` what a copy moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tfprobe.formats.xspace.plane import (
    PS_PER_NS,
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
from tfprobe.profile.tables import Columns, Interner, int64s

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
