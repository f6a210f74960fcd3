"""Tell which layer a step spends its time in."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Severity
from tfprobe.findings.rule import Verdict, lacking
from tfprobe.findings.signals import WorkSignals, much
from tfprobe.findings.thresholds import Thresholds

_SHOWN = 3


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return the dearest layer; the bound is the time in which an op of it runs."""
    if isinstance(work.scopes, Missing) or isinstance(work.ops, Missing):
        return lacking(work.scopes, work.ops)
    if not work.scopes:
        return None
    dearest = work.scopes[0]
    gain = work.gain(work.of_steps(dearest.busy_ns), 0)
    if gain.high_ratio < limits.expensive_ratio:
        return None
    return Finding(
        title=f"Layer {dearest.name} takes {much(dearest.busy_ns, work.ops.step_ns)} of a step",
        severity=Severity.INFO,
        evidence=(
            *(
                Evidence(
                    f"{use.name}, wall time a step",
                    time_ns=round(use.busy_ns),
                    node=use.node,
                    scope=use.name,
                )
                for use in work.scopes[:_SHOWN]
            ),
            work.shown_by("scope --by-layer"),
        ),
        action="Begin with this layer: its width, its strides, or what stands in its place.",
        gain=gain,
        part="compute",
    )
