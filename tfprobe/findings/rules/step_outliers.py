"""Tell of steps that took far longer than the others."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import WorkSignals
from tfprobe.findings.thresholds import Thresholds

# What comes at one distance, or is known to be the job's own, can be done less often; else it is as
# likely as not another job on the machine.
LIKELY_IF_KNOWN = 0.5
LIKELY = 0.0
_NAMED = 8


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where outliers add up; the bound is what they took beyond the usual."""
    outliers = work.outliers
    if isinstance(outliers, Missing):
        return outliers
    # Steps that were slow because they were traced again are retracing's.
    gain_ns = max(outliers.excess_ns - work.loop.retrace_ns, 0)
    likely = LIKELY_IF_KNOWN if outliers.every or outliers.is_own else LIKELY
    gain = work.gain(gain_ns, likely * gain_ns)
    if not outliers.steps or gain.high_ratio < limits.outlier_ratio:
        return None
    every = f", one every {outliers.every}" if outliers.every else ""
    longest = tuple(sorted(outliers.steps[:_NAMED]))
    return Finding(
        title="Some steps take far longer than the others",
        severity=limits.severity(gain),
        evidence=(
            Evidence(f"{len(outliers.steps):,} of {outliers.looked_at:,} steps{every}"),
            Evidence(f"the longest: {', '.join(map(str, longest))}", steps=longest),
            *([Evidence(f"then: {outliers.cause}")] if outliers.cause else []),
            work.shown_by("steps"),
        ),
        action="Look at what happens then: what comes at one distance is the job's own (logging, "
        "summaries, checkpoints, evaluation); what does not is often another job on the machine.",
        gain=gain,
        part="outliers",
    )
