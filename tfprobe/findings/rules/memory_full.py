"""Tell of memory that is nearly full."""

from __future__ import annotations

from collections.abc import Iterator

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Severity
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import ProcessSignals
from tfprobe.findings.thresholds import Thresholds


def check(process: ProcessSignals, limits: Thresholds) -> Verdict:
    """Return a finding for the fullest memory of a process, of a device or of the host."""
    found = sorted(_memories(process), key=lambda each: each[1] / each[2])
    if not found:
        return Missing("nobody told how much memory there is")
    name, peak, capacity = found[-1]
    if peak / capacity < limits.memory_full_ratio:
        return None
    on_device = name != "the host"
    return Finding(
        title=f"The memory of {name} is nearly full",
        severity=Severity.WARNING,
        evidence=(
            Evidence("at its peak", ratio=peak / capacity),
            Evidence("which is", size_bytes=peak),
            Evidence("of", size_bytes=capacity),
        ),
        action="The next larger batch or longer sequence will fail. "
        + (
            "TF_GPU_ALLOCATOR=cuda_malloc_async reduces fragmentation; `tfprobe memory` says who "
            "holds it."
            if on_device
            else "Smaller shuffle buffers and caches of tf.data, fewer workers, or a higher limit."
        ),
        gain=Missing("a full memory costs no time until it is full"),
    )


def _memories(process: ProcessSignals) -> Iterator[tuple[str, int, int]]:
    for each in process.device_memory:
        yield each.device, each.peak_bytes, each.capacity_bytes
    machine = process.machine
    if isinstance(machine, Missing):
        return
    if isinstance(machine.peak_bytes, int) and isinstance(machine.limit_bytes, int):
        yield "the host", machine.peak_bytes, machine.limit_bytes
