"""Find memory that is nearly full, grows, or is mostly empty."""

from __future__ import annotations

from collections.abc import Iterator

from tfprobe.analysis.system.machine_use import MachineUse
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Severity
from tfprobe.findings.rule import ProcessAnalysis, Verdict
from tfprobe.findings.thresholds import Thresholds


def memory_full(process: ProcessAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding for the fullest memory of a process, of a device or of the host."""
    found = sorted(_memories(process), key=lambda memory: memory[1] / memory[2])
    if not found:
        return Missing("the amount of memory is unknown")
    name, peak, capacity = found[-1]
    if peak / capacity < limits.memory_full_ratio:
        return None
    on_device = name != "the host"
    return Finding(
        title=f"The memory of {name} is nearly full",
        severity=Severity.WARNING,
        evidence=(
            Evidence("peak use", ratio=peak / capacity),
            Evidence("peak", size_bytes=peak),
            Evidence("capacity", size_bytes=capacity),
        ),
        action="The next larger batch or longer sequence will fail. "
        + (
            "TF_GPU_ALLOCATOR=cuda_malloc_async reduces fragmentation; `tfprobe memory` shows what "
            "holds it."
            if on_device
            else "Smaller shuffle buffers and caches of tf.data, fewer workers, or a higher limit."
        ),
        gain=Missing("memory use costs no time until memory is full"),
    )


def _memories(process: ProcessAnalysis) -> Iterator[tuple[str, int, int]]:
    for each in process.device_memory:
        yield each.device, each.peak_bytes, each.capacity_bytes
    machine = process.machine
    if isinstance(machine, Missing):
        return
    if isinstance(machine.peak_bytes, int) and isinstance(machine.limit_bytes, int):
        yield "the host", machine.peak_bytes, machine.limit_bytes


# A job that fails before it has run ten times as long as it has will hardly reach its end.
_SOON = 10


def memory_growth(process: ProcessAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding where resident memory keeps growing; it has no gain in time.

    Where a profiler of the job's own stays open, its records are what grows: see `own_profiler`.
    """
    machine = process.machine
    if isinstance(machine, Missing):
        return machine
    growth, resident = machine.growth_bytes_per_step, machine.resident_bytes
    if isinstance(growth, Missing):
        return growth
    if isinstance(resident, Missing):
        return resident
    grown = growth * machine.watched_steps
    is_large = grown >= limits.growth_bytes and grown >= limits.growth_ratio * (resident - grown)
    own = process.own_profiler
    is_profilers = own is not None and own.open_ns >= limits.own_profiler_ratio * process.wall_ns
    if not is_large or not machine.grows or is_profilers:
        return None
    left = _steps_left(machine, resident, growth)
    return Finding(
        title="The memory of the process grows from step to step",
        severity=Severity.CRITICAL
        if left is not None and left <= _SOON * machine.steps
        else Severity.WARNING,
        evidence=(
            Evidence("growth per step", size_bytes=round(growth)),
            Evidence(
                f"growth over the last {machine.watched_steps:,} steps", size_bytes=round(grown)
            ),
            Evidence("resident at the end", size_bytes=resident),
            *([Evidence(f"room for {left:,} more steps")] if left is not None else []),
            Evidence("shown by", command="tfprobe memory"),
        ),
        action="Look for tensors kept in a list (append(loss) instead of append(float(loss))), for "
        "ops added to a graph at each step (graph.finalize() finds them), for functions and "
        "datasets made inside the loop; tf.keras.backend.clear_session() between models.",
        gain=Missing("growing memory costs no time until memory runs out"),
    )


def _steps_left(machine: MachineUse, resident: int, growth: float) -> int | None:
    if isinstance(machine.limit_bytes, Missing) or growth <= 0:
        return None
    return max(round((machine.limit_bytes - resident) / growth), 0)


def memory_unused(process: ProcessAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding for the device with most room; what it would win is not known."""
    if not process.device_memory:
        return Missing("no memory of a device was recorded") if process.has_accelerator else None
    emptiest = min(process.device_memory, key=lambda each: each.peak_bytes / each.capacity_bytes)
    ratio = emptiest.peak_bytes / emptiest.capacity_bytes
    if ratio > limits.memory_unused_ratio:
        return None
    return Finding(
        title=f"The memory of {emptiest.device} is mostly empty",
        severity=Severity.INFO,
        evidence=(
            Evidence("peak use", ratio=ratio),
            Evidence("peak", size_bytes=emptiest.peak_bytes),
            Evidence("capacity", size_bytes=emptiest.capacity_bytes),
        ),
        action="If the model allows, take a larger batch: kernels become longer and steps fewer. "
        "Or let several jobs share the device, with TF_FORCE_GPU_ALLOW_GROWTH=true.",
        gain=Missing("the gain of a larger batch depends on the model"),
    )
