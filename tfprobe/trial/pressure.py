"""How busy this machine is: what decides in which order arms run."""

from __future__ import annotations

import os
import time
from pathlib import Path

# With more stalls than this, arms run side by side: one after the other would meet other loads.
BUSY_RATIO = 0.10
_LOOK_S = 1.0
_PRESSURE = Path("/proc/pressure/cpu")


def cpu_pressure() -> float | None:
    """Return the share of the next second in which some task waits for a CPU; None if unknown.

    The kernel's own mean of 10 s would have what the user, or a recording of the job, ran before.
    Source: `some total` in us of /proc/pressure/cpu (Linux, Documentation/accounting/psi).
    """
    before_us, began_ns = _waited_us(), time.monotonic_ns()
    if before_us is None:
        return _from_load()
    time.sleep(_LOOK_S)
    after_us = _waited_us()
    if after_us is None:
        return None
    return min(1.0, max(0, after_us - before_us) * 1000 / (time.monotonic_ns() - began_ns))


def _waited_us() -> int | None:
    try:
        words = _PRESSURE.read_text(encoding="ascii").partition("\n")[0].split()
        return int(dict(word.split("=", 1) for word in words if "=" in word)["total"])
    except (OSError, KeyError, ValueError):
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
