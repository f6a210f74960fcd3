"""Tell which type of op a step spends its time in."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Severity
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import WorkSignals, much
from tfprobe.findings.thresholds import Thresholds

_SHOWN = 3


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return the dearest type; the bound is the time in which one of them runs."""
    if isinstance(work.ops, Missing):
        return work.ops
    types = work.ops.device or work.ops.host
    if not types:
        return None
    dearest = types[0]
    gain = work.gain(work.of_steps(dearest.busy_ns), 0)
    if gain.high_ratio < limits.expensive_ratio:
        return None
    return Finding(
        title=f"{dearest.type} takes {much(dearest.busy_ns, work.ops.step_ns)} of a step",
        severity=Severity.INFO,
        evidence=(
            *(
                Evidence(
                    f"{use.type}, wall time a step",
                    time_ns=round(use.busy_ns),
                    node=use.node,
                    op_type=use.type,
                )
                for use in types[:_SHOWN]
            ),
            *work.sample(),
            work.shown_by("op"),
        ),
        action="It may well have to. What makes it cheaper: smaller sizes, 16 bits, a fused form.",
        gain=gain,
        part="compute",
    )
