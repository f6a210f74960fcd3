"""How busy this machine is: what decides in which order arms run."""

from __future__ import annotations

import os

# With more stalls than this, arms run side by side: one after the other would meet other loads.
BUSY_RATIO = 0.10


def cpu_pressure() -> float | None:
    """Return the share of the last 10 s in which some task waited for a CPU; None if unknown.

    Source: `some avg10` of /proc/pressure/cpu (Linux, Documentation/accounting/psi).
    """
    try:
        with open("/proc/pressure/cpu", encoding="ascii") as file:
            words = file.readline().split()
    except OSError:
        return _from_load()
    values = dict(word.split("=", 1) for word in words if "=" in word)
    try:
        return float(values["avg10"]) / 100
    except (KeyError, ValueError):
        return None


def _from_load() -> float | None:
    """Estimate it where the kernel does not measure it: tasks beyond one for each CPU."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        return None
    cpus = len(os.sched_getaffinity(0))
    return min(1.0, max(0.0, (load - cpus) / cpus))


def is_busy(pressure: float | None) -> bool:
    """Return whether others want the CPUs, too; not if nobody knows."""
    return pressure is not None and pressure > BUSY_RATIO
