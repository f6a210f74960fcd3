"""Tell of Python that asks for the value of a tensor after every step."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Severity
from tfprobe.findings.rule import Verdict
from tfprobe.findings.rules.accelerator_idle import ON_DEVICE
from tfprobe.findings.signals import Syncs, WorkSignals
from tfprobe.findings.thresholds import Thresholds

# Reading at every tenth step wins nine tenths; half leaves room for what else is in the way.
LIKELY = 0.5
# Of fewer gaps "every step" says nothing.
_LEAST_GAPS = 3


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where each step is waited for.

    Without an accelerator the bound is the time of the reads. With one, the host could run ahead of
    the device, at best to hide the shorter of the two behind the longer: that is the bound.
    """
    syncs = work.syncs
    if isinstance(syncs, Missing):
        return syncs
    if syncs.gaps < _LEAST_GAPS or syncs.ratio < limits.sync_ratio:
        return None
    gain_ns = _bound_ns(work, syncs)
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    severity = limits.severity(gain)
    if not syncs.source:
        # Keras itself reads what it shows: no line of the job is to be changed.
        severity = min(severity, Severity.INFO)
    return Finding(
        title="Python reads the value of a tensor after every step",
        severity=severity,
        evidence=(
            Evidence(
                f"{_reads(syncs.calls)} a step, by {syncs.function}: a step",
                time_ns=round(syncs.ns),
                source=syncs.source,
            ),
            Evidence(f"share of {syncs.gaps} watched gaps with a read", ratio=syncs.ratio),
            work.shown_by("breakdown"),
        ),
        action="Read losses and metrics at every Nth step (.numpy(), float(), print, if), or keep "
        "them in a tf.metrics object and read that at the end of the epoch.",
        gain=gain,
        part="sync",
    )


def _reads(calls: float) -> str:
    told = f"{calls:.3g}"
    return "1 read" if told == "1" else f"{told} reads"


def _bound_ns(work: WorkSignals, syncs: Syncs) -> float:
    if isinstance(work.parts, Missing) or not work.process.has_accelerator:
        return syncs.ns * work.loop.steps
    device_ratio = work.parts.ratio(*ON_DEVICE)
    return min(device_ratio, 1 - device_ratio) * work.parts.total_ns
