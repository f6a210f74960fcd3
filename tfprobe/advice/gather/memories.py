"""Gather how full the memory of accelerators was, from the memory view."""

from __future__ import annotations

from tfprobe.advice.signals import DeviceMemory
from tfprobe.errors import Missing
from tfprobe.model.profile import Profile
from tfprobe.views.memory.whole import memories
from tfprobe.views.origins import Origins

# The memory of an accelerator, not the pinned memory of the host that it copies through.
_DEVICE, _OF_HOST = "GPU", "host"


def device_memories(profile: Profile) -> dict[int, tuple[DeviceMemory, ...]]:
    """Return by process the fullest that its devices were, where their allocators told."""
    found: dict[int, tuple[DeviceMemory, ...]] = {}
    told = memories(profile, (), Origins(()))
    for each in () if isinstance(told, Missing) else told:
        peak, capacity = each.lifetime_peak_bytes, each.capacity_bytes
        if isinstance(peak, Missing) or isinstance(capacity, Missing) or not capacity:
            continue
        names = f"{each.device} {each.allocator}"
        if _DEVICE in names.upper() and _OF_HOST not in each.allocator.lower():
            memory = DeviceMemory(each.device or each.allocator, peak, capacity)
            found[each.process] = (*found.get(each.process, ()), memory)
    return found
