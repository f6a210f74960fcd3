"""Tell which line of the job's own code made the dearest ops."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Severity
from tfprobe.findings.rule import Verdict, lacking
from tfprobe.findings.signals import WorkSignals, much
from tfprobe.findings.thresholds import Thresholds

_SHOWN = 3
_ALL_RATIO = 0.9


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return the dearest line; the bound is the time in which an op of it runs."""
    if isinstance(work.lines, Missing) or isinstance(work.ops, Missing):
        return lacking(work.lines, work.ops)
    # A line that made nearly all ops, such as that of model.fit, says nothing.
    telling = [use for use in work.lines if use.busy_ns < _ALL_RATIO * work.ops.busy_ns]
    if not telling:
        return None
    dearest = telling[0]
    gain = work.gain(work.of_steps(dearest.busy_ns), 0)
    if gain.high_ratio < limits.expensive_ratio:
        return None
    return Finding(
        title=f"One line of Python made {much(dearest.busy_ns, work.ops.busy_ns)} of what runs",
        severity=Severity.INFO,
        evidence=(
            *(
                Evidence(
                    "wall time a step",
                    time_ns=round(use.busy_ns),
                    source=use.source,
                    node=use.node,
                )
                for use in telling[:_SHOWN]
            ),
            work.shown_by("code"),
        ),
        action="Begin there: a smaller size, fewer calls, or a cheaper op of the same kind.",
        gain=gain,
        part="compute",
    )
