"""Tell of memory that grows from step to step."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Severity
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import Machine, ProcessSignals
from tfprobe.findings.thresholds import Thresholds

# A job that fails before it has run ten times as long as it has will hardly reach its end.
_SOON = 10


def check(process: ProcessSignals, limits: Thresholds) -> Verdict:
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
            Evidence("a step", size_bytes=round(growth)),
            Evidence(f"over the last {machine.watched_steps:,} steps", size_bytes=round(grown)),
            Evidence("resident at the end", size_bytes=resident),
            *([Evidence(f"there is room for {left:,} more steps")] if left is not None else []),
            Evidence("shown by", command="tfprobe memory"),
        ),
        action="Look for tensors kept in a list (append(loss) instead of append(float(loss))), for "
        "ops added to a graph at each step (graph.finalize() finds them), for functions and "
        "datasets made inside the loop; tf.keras.backend.clear_session() between models.",
        gain=Missing("memory that grows costs no time until there is no more"),
    )


def _steps_left(machine: Machine, resident: int, growth: float) -> int | None:
    if isinstance(machine.limit_bytes, Missing) or growth <= 0:
        return None
    return max(round((machine.limit_bytes - resident) / growth), 0)
