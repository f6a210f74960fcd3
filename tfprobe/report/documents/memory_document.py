"""Write what holds memory as a document. What is missing is null, with a reason under `missing`."""

from __future__ import annotations

from tfprobe.analysis.memory.host_memory import Growth, HostMemory
from tfprobe.analysis.memory.memory_peak import Holder
from tfprobe.analysis.memory.memory_summary import Lasting, MemorySummary
from tfprobe.analysis.memory.program_memory import ProgramMemory
from tfprobe.errors import Missing
from tfprobe.report.documents.document import Document, known, reasons


def memory_document(
    allocators: tuple[MemorySummary, ...] | Missing,
    variables: Lasting | Missing,
    hosts: tuple[HostMemory, ...] | Missing,
) -> Document:
    """Return allocators, what variables hold, and the processes' memory on their hosts."""
    parts = {"allocators": allocators, "variables": variables, "hosts": hosts}
    return {
        "allocators": []
        if isinstance(allocators, Missing)
        else [allocator_document(allocator) for allocator in allocators],
        "variables": None
        if isinstance(variables, Missing)
        else {
            "parameters_bytes": variables.parameters_bytes,
            "optimizer_state_bytes": variables.optimizer_state_bytes,
        },
        "hosts": [] if isinstance(hosts, Missing) else [_host(host) for host in hosts],
        "missing": reasons(parts),
    }


def allocator_document(summary: MemorySummary) -> Document:
    """Return one allocator: its peak, what held it, and its level over the step of the peak."""
    peak = summary.peak
    return {
        **_recorded(summary),
        "peak": {
            "step": peak.capture.step,
            "after_ns": peak.after_ns,
            "bytes": peak.bytes,
            "by_role": {role.value: size for role, size in peak.by_role},
            "holders": [_holder(holder) for holder in peak.holders],
        },
        "timeline": {
            "after_ns": summary.curve.after_ns.tolist(),
            "bytes": summary.curve.live_bytes.tolist(),
        },
        **_limits(summary),
        "program": _program(summary.program),
    }


def allocator_row(summary: MemorySummary) -> Document:
    """Return one allocator without what held its peak and its level over time."""
    return {**_recorded(summary), **_limits(summary)}


def _recorded(summary: MemorySummary) -> Document:
    return {
        "process": summary.process,
        "device": summary.device,
        "allocator": summary.allocator,
        "sampled_steps": summary.captures,
        "is_estimate": summary.is_estimate,
        "is_absolute": summary.is_absolute,
        "is_at_least": summary.is_at_least,
        "sizes": summary.sizes,
        "unknown_sizes": summary.unknown_sizes,
        "unknown_ratio": summary.unknown_ratio,
    }


def _limits(summary: MemorySummary) -> Document:
    return {
        "lifetime_peak_bytes": known(summary.lifetime_peak_bytes),
        "capacity_bytes": known(summary.capacity_bytes),
        "fragmentation_ratio": known(summary.fragmentation_ratio),
        "growth": growth_document(summary.growth),
    }


def _program(program: ProgramMemory | None) -> Document | None:
    """Return what the memory of a program consists of; null for an allocator."""
    if program is None:
        return None
    return {
        "name": program.program,
        "argument_bytes": program.argument_bytes,
        "output_bytes": program.output_bytes,
        "donated_bytes": program.donated_bytes,
        "temporary_bytes": program.temporary_bytes,
        "constant_bytes": program.constant_bytes,
        "peak_instruction": program.peak_instruction or None,
        "peak_op": program.peak_op or None,
    }


def _holder(holder: Holder) -> Document:
    return {
        "name": holder.label,
        "op": holder.op_type or None,
        "role": holder.role.value,
        "bytes": holder.bytes,
        "pieces": holder.pieces,
        "shape": holder.shape or None,
    }


def _host(host: HostMemory) -> Document:
    first_ns = int(host.at_ns[0])
    return {
        **host_row(host),
        "timeline": {
            "after_ns": (host.at_ns - first_ns).tolist(),
            "steps": host.steps.tolist(),
            "resident_bytes": host.resident_bytes.tolist(),
        },
    }


def host_row(host: HostMemory) -> Document:
    """Return the memory of a process without its level over time."""
    return {
        "process": host.process.index,
        "host": host.process.host,
        "pid": host.process.pid or None,
        "rank": host.process.rank,
        "peak_bytes": host.peak_bytes,
        "limit_bytes": known(host.limit_bytes),
        "used_ratio": known(host.used_ratio),
        "growth": growth_document(host.growth),
    }


def growth_document(growth: Growth | Missing) -> Document:
    """Return how a size grows with steps, or why that is not known."""
    if isinstance(growth, Missing):
        return {"verdict": None, "missing": growth.reason}
    return {
        "verdict": growth.verdict.value,
        "bytes_per_step": growth.bytes_per_step,
        "low": growth.low,
        "high": growth.high,
        "points": growth.points,
        "first_step": growth.first_step,
        "last_step": growth.last_step,
    }
