"""Tell of recording that costs too much."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Gain, Severity
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import ProcessSignals
from tfprobe.findings.thresholds import Thresholds


def check(process: ProcessSignals, limits: Thresholds) -> Verdict:
    """Return a finding where recording took long; all of it goes when recording less."""
    if isinstance(process.overhead_ns, Missing):
        return process.overhead_ns
    cost_ns = min(process.overhead_ns, process.wall_ns)
    gain = Gain(cost_ns, cost_ns, process.wall_ns)
    if gain.high_ratio < limits.overhead_ratio:
        return None
    return Finding(
        title="Recording itself takes a good part of the time",
        # It goes with the recording, so it is no fault of the job.
        severity=min(limits.severity(gain), Severity.WARNING)
        if gain.high_ratio >= limits.critical_ratio
        else Severity.INFO,
        evidence=(
            Evidence("share of the wall time", ratio=gain.high_ratio),
            Evidence("recording took", time_ns=cost_ns),
        ),
        action="Trace fewer steps: the default, TFPROBE_BUDGET=1%, or a larger TFPROBE_EVERY; or "
        "let the job run longer, since some of it is spent once.",
        gain=gain,
        part="recording",
    )
