"""Tell of a CPU that computes in 64 bits what 32 would do."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict, lacking
from tfprobe.findings.signals import WorkSignals
from tfprobe.findings.thresholds import Thresholds

# Half as many bytes and twice as many numbers in an instruction: half of the time. Transcendental
# functions win more.
BOUND = 0.75
LIKELY = 0.5


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where ops in 64 bits take long; the bound is most of their time."""
    double = work.double
    if isinstance(double, Missing) or isinstance(work.ops, Missing):
        return lacking(double, work.ops)
    if work.ops.has_accelerator:
        return None
    busy_ns = work.of_steps(double.busy_ns)
    gain = work.gain(BOUND * busy_ns, LIKELY * busy_ns)
    if gain.high_ratio < limits.double_ratio:
        return None
    return Finding(
        title="Ops compute in 64 bits",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                "ops of type float64 a step",
                time_ns=round(double.busy_ns),
                source=double.source,
                node=double.node,
            ),
            *work.sample(),
            work.shown_by("op"),
        ),
        action="Convert arrays once with .astype('float32') (NumPy makes float64), and leave "
        "tf.keras.backend.set_floatx('float64') out, where the problem does not need 64 bits.",
        gain=gain,
        part="precision",
    )
