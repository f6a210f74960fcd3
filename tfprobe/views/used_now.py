"""Say what a process and its machine's accelerators use now, by what was told of them last."""

from __future__ import annotations

from collections.abc import Sequence

from tfprobe.errors import Missing
from tfprobe.model.activities import DevicePulse, Pulse

NO_PULSE = Missing("the process has told nothing of its machine yet")
ONE_PULSE = Missing("one sample alone tells no rate")
NO_ACCELERATOR = Missing("no accelerator was sampled on its machine")


def cpus_used(pulses: Sequence[Pulse]) -> float | Missing:
    """Return how many cores worked for a process between its last two pulses."""
    if not pulses:
        return NO_PULSE
    used_ns = [_cpu_ns(pulse) for pulse in pulses[-2:]]
    for used in used_ns:
        if isinstance(used, Missing):
            return used
    known = [used for used in used_ns if not isinstance(used, Missing)]
    if len(known) < 2:
        return ONE_PULSE
    passed_ns = pulses[-1].at_ns - pulses[-2].at_ns
    if passed_ns <= 0 or known[1] < known[0]:
        return Missing("the last two samples make no sense together")
    return (known[1] - known[0]) / passed_ns


def resident_bytes(pulses: Sequence[Pulse]) -> int | Missing:
    """Return the memory of a process at its last pulse."""
    return pulses[-1].resident_bytes if pulses else NO_PULSE


def devices_of(host: str, machines: Sequence[Pulse]) -> tuple[DevicePulse, ...]:
    """Return the accelerators of a host as they were told last."""
    told = (pulse.devices for pulse in reversed(machines) if pulse.host == host)
    return next(told, ())


def gpu_ratio(devices: Sequence[DevicePulse]) -> float | Missing:
    """Return the mean utilisation of these accelerators."""
    ratios = [each.utilization_ratio for each in devices]
    known = [ratio for ratio in ratios if not isinstance(ratio, Missing)]
    if not known:
        return next((ratio for ratio in ratios if isinstance(ratio, Missing)), NO_ACCELERATOR)
    return sum(known) / len(known)


def gpu_memory_bytes(devices: Sequence[DevicePulse]) -> int | Missing:
    """Return the memory in use of these accelerators together."""
    sizes = [each.memory_used_bytes for each in devices]
    known = [size for size in sizes if not isinstance(size, Missing)]
    if not known:
        return next((size for size in sizes if isinstance(size, Missing)), NO_ACCELERATOR)
    return sum(known)


def _cpu_ns(pulse: Pulse) -> int | Missing:
    if isinstance(pulse.user_ns, Missing):
        return pulse.user_ns
    if isinstance(pulse.system_ns, Missing):
        return pulse.system_ns
    return pulse.user_ns + pulse.system_ns
