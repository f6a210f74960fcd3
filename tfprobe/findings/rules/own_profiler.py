"""Tell of a profiler of the job's own that stays open, so that no step can be traced."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Severity
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import ProcessSignals
from tfprobe.findings.thresholds import Thresholds

_NOT_KNOWN = Missing("no step was traced without that profiler, which would tell what it costs")


def check(process: ProcessSignals, limits: Thresholds) -> Verdict:
    """Return a finding where no step could be traced for long because the job itself profiles."""
    own = process.own_profiler
    if own is None or own.open_ns < limits.own_profiler_ratio * process.wall_ns:
        return None
    source = f"{own.file}:{own.line}" if own.file else ""
    return Finding(
        title="The job's own profiler stays open",
        severity=Severity.WARNING,
        evidence=(
            Evidence("TensorFlow's profiler was started", source=source)
            if source
            else Evidence("TensorFlow's profiler is open"),
            Evidence(
                f"{own.declined:,} steps could not be traced: TensorFlow allows one profiler in a "
                "process; at least",
                time_ns=own.open_ns,
            ),
            *_growth(process),
        ),
        action="Close it after some steps: with tf.profiler.experimental.Profile(logdir): ..., or "
        "tf.profiler.experimental.stop(); TensorBoard(profile_batch=(10, 20)), or 0 for none. "
        "While it is open each op is recorded, and memory grows until it is closed.",
        gain=_NOT_KNOWN,
        part="recording",
    )


def _growth(process: ProcessSignals) -> tuple[Evidence, ...]:
    """Return by how much memory grows meanwhile, where it does."""
    machine = process.machine
    if isinstance(machine, Missing) or isinstance(machine.growth_bytes_per_step, Missing):
        return ()
    if not machine.grows:
        return ()
    return (Evidence("memory grows a step", size_bytes=round(machine.growth_bytes_per_step)),)
