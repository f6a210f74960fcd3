"""Find what recording costs, and steps that take much longer than the others."""

from __future__ import annotations

from tfprobe.analysis.memory.host_memory import GrowthVerdict
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Gain, Severity
from tfprobe.findings.rule import LoopAnalysis, ProcessAnalysis, Verdict
from tfprobe.findings.thresholds import Thresholds

_NOT_KNOWN = Missing("no step was traced without that profiler, so its cost is unknown")

_NOT_MEASURED = Missing("no step was traced without it, so its cost is unknown")


def own_profiler(process: ProcessAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if steps could not be traced for long because the job profiles itself."""
    own = process.own_profiler
    if own is None or own.open_ns < limits.own_profiler_ratio * process.wall_ns:
        return None
    source = f"{own.file}:{own.line}" if own.file else ""
    return Finding(
        title="The job's own profiler stays open",
        severity=Severity.WARNING,
        evidence=(
            Evidence("the profiler was started", source=source)
            if source
            else Evidence("the profiler is open"),
            Evidence(
                f"{own.declined:,} steps could not be traced, because there can be one "
                "profiler per process; for at least",
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


def anomaly_detection(process: ProcessAnalysis, limits: Thresholds) -> Verdict:  # noqa: ARG001
    """Return a finding if PyTorch's anomaly detection is on; what it costs is not measured."""
    settings = {} if isinstance(process.settings, Missing) else process.settings
    of_torch = settings.get("torch") or {}
    if of_torch.get("anomaly_detection") is not True:
        return None
    return Finding(
        title="Anomaly detection is on",
        severity=Severity.WARNING,
        evidence=(Evidence("torch.is_anomaly_enabled() was true when the first step was traced"),),
        action="Leave out torch.autograd.set_detect_anomaly(True) and detect_anomaly() once the "
        "cause of a NaN is found: they keep a Python stack of each op of the forward pass, and "
        "look for NaN after each op of the backward pass.",
        gain=_NOT_MEASURED,
        part="anomaly_detection",
    )


def _growth(process: ProcessAnalysis) -> tuple[Evidence, ...]:
    """Return by how much memory grows, if it does."""
    machine = process.machine
    if isinstance(machine, Missing) or isinstance(machine.growth, Missing):
        return ()
    if machine.growth.verdict is not GrowthVerdict.GROWING:
        return ()
    size_bytes = round(machine.growth.bytes_per_step)
    return (Evidence("memory growth per step", size_bytes=size_bytes),)


def profiler_overhead(process: ProcessAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if recording takes long; the bound is all of that time."""
    if isinstance(process.overhead_ns, Missing):
        return process.overhead_ns
    cost_ns = min(process.overhead_ns, process.wall_ns)
    gain = Gain(cost_ns, cost_ns, process.wall_ns)
    if gain.high_ratio < limits.overhead_ratio:
        return None
    return Finding(
        title="Recording itself takes a significant part of the time",
        # It ends with the recording, and is no fault of the job.
        severity=min(limits.severity(gain), Severity.WARNING)
        if gain.high_ratio >= limits.critical_ratio
        else Severity.INFO,
        evidence=(
            Evidence("share of the wall time", ratio=gain.high_ratio),
            Evidence("time taken by recording", time_ns=cost_ns),
        ),
        action="Trace fewer steps: the default, TFPROBE_BUDGET=1%, or a larger TFPROBE_EVERY; or "
        "let the job run longer, because part of the cost is paid only once.",
        gain=gain,
        part="recording",
    )


# What is periodic, or is known to be the job's own, can be done less often; else it may well be
# another job on the machine.
LIKELY_IF_KNOWN = 0.5
LIKELY = 0.0
_NAMED = 8


def step_outliers(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if slow steps add up; the bound is their time beyond the usual."""
    outliers = loop.outliers
    if isinstance(outliers, Missing):
        return outliers
    # retracing looks at steps that were slow because of a trace.
    gain_ns = max(outliers.excess_ns - loop.timing.retrace_ns, 0)
    likely = LIKELY_IF_KNOWN if outliers.every or outliers.is_own else LIKELY
    gain = loop.gain(gain_ns, likely * gain_ns)
    if not outliers.steps or gain.high_ratio < limits.outlier_ratio:
        return None
    every = f", one every {outliers.every}" if outliers.every else ""
    longest = tuple(sorted(outliers.steps[:_NAMED]))
    return Finding(
        title="Some steps take much longer than the others",
        severity=limits.severity(gain),
        evidence=(
            Evidence(f"{len(outliers.steps):,} of {outliers.looked_at:,} steps{every}"),
            Evidence(f"the longest: {', '.join(map(str, longest))}", steps=longest),
            *([Evidence(f"then: {outliers.cause}")] if outliers.cause else []),
            loop.shown_by("steps"),
        ),
        action="Look at what happens then: what recurs at a regular interval is part of "
        "the job (logging, summaries, checkpoints, evaluation); the rest is often another job on "
        "the machine.",
        gain=gain,
        part="outliers",
    )
