"""Find memory that is nearly full, grows, or is mostly empty."""

from __future__ import annotations

from collections.abc import Iterator

from tfprobe.analysis.memory.host_memory import GrowthVerdict
from tfprobe.analysis.system.machine_use import MachineUse
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Severity
from tfprobe.findings.rule import LoopAnalysis, ProcessAnalysis, Verdict
from tfprobe.findings.thresholds import Thresholds


def memory_full(process: ProcessAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if the memory of a device, or of the host, is nearly full."""
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
    for memory in process.device_memory:
        yield memory.device, memory.peak_bytes, memory.capacity_bytes
    machine = process.machine
    if isinstance(machine, Missing):
        return
    if isinstance(machine.peak_bytes, int) and isinstance(machine.limit_bytes, int):
        yield "the host", machine.peak_bytes, machine.limit_bytes


# A job that will fail before ten times its steps so far will hardly reach its end.
_SOON = 10


def memory_donation(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if a program of XLA keeps what it updates twice; it has no gain in time."""
    twice = loop.kept_twice
    if twice is None or isinstance(twice, Missing):
        return twice
    is_large = twice.bytes >= limits.donation_ratio * twice.program_bytes
    if twice.bytes < limits.donation_bytes or not is_large:
        return None
    return Finding(
        title="The step keeps two copies of the variables that it updates",
        severity=Severity.INFO,
        evidence=(
            Evidence(f"arguments of {twice.program} that it returns", size_bytes=twice.bytes),
            Evidence("all that the program takes", size_bytes=twice.program_bytes),
            *loop.traced_step(),
            loop.shown_by("memory"),
        ),
        action="Donate the arguments that the step replaces, jax.jit(step, donate_argnums=...): "
        "their memory then takes the results, and the program may not use them afterwards.",
        gain=Missing("memory use costs no time until memory is full"),
    )


def memory_growth(process: ProcessAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if resident memory keeps growing; it has no gain in time.

    If the job leaves a profiler open, the records of that grow: see `own_profiler`.
    """
    machine = process.machine
    if isinstance(machine, Missing):
        return machine
    growth, resident = machine.growth, machine.resident_bytes
    if isinstance(growth, Missing):
        return growth
    if isinstance(resident, Missing):
        return resident
    watched_steps = growth.last_step - growth.first_step
    grown = growth.bytes_per_step * watched_steps
    is_large = grown >= limits.growth_bytes and grown >= limits.growth_ratio * (resident - grown)
    own = process.own_profiler
    is_profilers = own is not None and own.open_ns >= limits.own_profiler_ratio * process.wall_ns
    if not is_large or growth.verdict is not GrowthVerdict.GROWING or is_profilers:
        return None
    left = _steps_left(machine, resident, growth.bytes_per_step)
    return Finding(
        title="The memory of the process grows from step to step",
        severity=Severity.CRITICAL
        if left is not None and left <= _SOON * machine.steps
        else Severity.WARNING,
        evidence=(
            Evidence("growth per step", size_bytes=round(growth.bytes_per_step)),
            Evidence(f"growth over the last {watched_steps:,} steps", size_bytes=round(grown)),
            Evidence("resident at the end", size_bytes=resident),
            *([Evidence(f"room for {left:,} more steps")] if left is not None else []),
            Evidence("shown by", command="tfprobe memory"),
        ),
        action="Look for tensors kept in a list (append(loss) instead of append(float(loss))), for "
        "ops added to a graph at each step (graph.finalize() finds them), for functions and "
        "datasets made inside the loop; tf.keras.backend.clear_session() between models.",
        gain=Missing("growing memory costs no time until memory runs out"),
    )


def _steps_left(machine: MachineUse, resident: int, bytes_per_step: float) -> int | None:
    if isinstance(machine.limit_bytes, Missing) or bytes_per_step <= 0:
        return None
    return max(round((machine.limit_bytes - resident) / bytes_per_step), 0)


def memory_unused(process: ProcessAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding for the device with most free memory; the gain is unknown."""
    if not process.device_memory:
        return Missing("no memory of a device was recorded") if process.has_accelerator else None
    emptiest = min(
        process.device_memory, key=lambda memory: memory.peak_bytes / memory.capacity_bytes
    )
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
