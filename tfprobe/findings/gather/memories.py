"""Gather how full the memory of accelerators was, from the memory view."""

from __future__ import annotations

from tfprobe.analysis.memory.allocator_levels import fullest
from tfprobe.errors import Missing
from tfprobe.findings.signals import DeviceMemory
from tfprobe.profile.profile import Profile


def device_memories(profile: Profile) -> dict[int, tuple[DeviceMemory, ...]]:
    """Return by process the fullest that its devices were, where their allocators told."""
    found: dict[int, tuple[DeviceMemory, ...]] = {}
    for each in fullest(profile):
        peak, capacity = each.lifetime_peak_bytes, each.capacity_bytes
        if isinstance(peak, Missing) or isinstance(capacity, Missing) or not capacity:
            continue
        memory = DeviceMemory(each.device or each.allocator, peak, capacity)
        found[each.process] = (*found.get(each.process, ()), memory)
    return found
