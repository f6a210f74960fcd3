"""Tell of an accelerator that computes in 32 bits what it could in 16."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import WorkSignals
from tfprobe.findings.thresholds import Thresholds

# Matrix products and convolutions gain 1.5 to 3 times (NVIDIA, Training With Mixed Precision); 1.5
# times faster is a third less time.
LIKELY = 1 / 3


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where next to nothing is narrow; the bound is what could be."""
    precision = work.precision
    if precision is None or isinstance(precision, Missing):
        return precision
    compute_ns = precision.narrow_ns + precision.wide_ns
    if not precision.eligible_ns or precision.narrow_ns >= limits.narrow_ratio * compute_ns:
        return None
    gain_ns = work.of_steps(precision.eligible_ns)
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    return Finding(
        title="Matrix products and convolutions run in 32 bits",
        severity=limits.severity(gain),
        evidence=(
            Evidence("a step", time_ns=round(precision.eligible_ns), node=precision.node),
            Evidence("in 16 bits a step", time_ns=round(precision.narrow_ns)),
            *work.sample(),
        ),
        action="keras.mixed_precision.set_global_policy('mixed_bfloat16') (or 'mixed_float16'); "
        "without touching the model: tf.config.optimizer.set_experimental_options("
        "{'auto_mixed_precision': True}), in NVIDIA's builds TF_ENABLE_AUTO_MIXED_PRECISION=1.",
        gain=gain,
        part="compute",
    )
