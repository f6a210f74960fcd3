"""Say what holds memory as a document. What is missing is null, with a reason beside it.

Any: JSON documents.
"""

from __future__ import annotations

from typing import Any

from tfprobe.analysis.memory.host_memory import Growth, HostMemory
from tfprobe.analysis.memory.memory_peak import Holder
from tfprobe.analysis.memory.memory_summary import Lasting, MemorySummary
from tfprobe.errors import Missing

NS_PER_US = 1000


def document(
    allocators: tuple[MemorySummary, ...] | Missing,
    variables: Lasting | Missing,
    hosts: tuple[HostMemory, ...] | Missing,
) -> dict[str, Any]:
    """Return allocators, what variables hold, and the processes' memory on their hosts."""
    parts = {"allocators": allocators, "variables": variables, "hosts": hosts}
    return {
        "allocators": []
        if isinstance(allocators, Missing)
        else [_allocator(allocator) for allocator in allocators],
        "variables": None
        if isinstance(variables, Missing)
        else {
            "parameters_bytes": variables.parameters_bytes,
            "optimizer_state_bytes": variables.optimizer_state_bytes,
        },
        "hosts": [] if isinstance(hosts, Missing) else [_host(host) for host in hosts],
        "missing": {name: part.reason for name, part in parts.items() if isinstance(part, Missing)},
    }


def _allocator(found: MemorySummary) -> dict[str, Any]:
    peak = found.peak
    return {
        "process": found.process,
        "device": found.device,
        "allocator": found.allocator,
        "sampled_steps": found.captures,
        "is_estimate": found.is_estimate,
        "is_absolute": found.is_absolute,
        "is_at_least": found.is_at_least,
        "sizes": found.sizes,
        "unknown_sizes": found.unknown_sizes,
        "unknown_ratio": found.unknown_ratio,
        "peak": {
            "step": peak.capture.step,
            "after_us": peak.after_ns / NS_PER_US,
            "bytes": peak.bytes,
            "by_role": {role.value: size for role, size in peak.by_role},
            "holders": [_holder(holder) for holder in peak.holders],
        },
        "timeline": {
            "after_us": [at / NS_PER_US for at in found.curve.after_ns.tolist()],
            "bytes": found.curve.held_bytes.tolist(),
        },
        "lifetime_peak_bytes": _known(found.lifetime_peak_bytes),
        "capacity_bytes": _known(found.capacity_bytes),
        "fragmentation_ratio": _known(found.fragmentation_ratio),
        "growth": growth_document(found.growth),
    }


def _holder(found: Holder) -> dict[str, Any]:
    return {
        "name": found.label,
        "op": found.op_type or None,
        "role": found.role.value,
        "bytes": found.bytes,
        "pieces": found.pieces,
        "shape": found.shape or None,
    }


def _host(found: HostMemory) -> dict[str, Any]:
    first_ns = int(found.at_ns[0])
    return {
        "process": found.process.index,
        "host": found.process.host,
        "pid": found.process.pid or None,
        "rank": found.process.rank,
        "peak_bytes": found.peak_bytes,
        "limit_bytes": _known(found.limit_bytes),
        "used_ratio": _known(found.used_ratio),
        "growth": growth_document(found.growth),
        "timeline": {
            "after_us": [(at - first_ns) / NS_PER_US for at in found.at_ns.tolist()],
            "steps": found.steps.tolist(),
            "resident_bytes": found.resident_bytes.tolist(),
        },
    }


def growth_document(found: Growth | Missing) -> dict[str, Any]:
    """Return how a size grows with steps, or why that is not known."""
    if isinstance(found, Missing):
        return {"verdict": None, "missing": found.reason}
    return {
        "verdict": found.verdict.value,
        "bytes_per_step": found.bytes_per_step,
        "low": found.low,
        "high": found.high,
        "points": found.points,
        "first_step": found.first_step,
        "last_step": found.last_step,
    }


def _known(value: Any) -> Any:
    return None if isinstance(value, Missing) else value
