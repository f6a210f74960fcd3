"""Tell of a function that is traced again and again."""

from __future__ import annotations

from tfprobe.advice.finding import Evidence, Finding
from tfprobe.advice.rule import Verdict
from tfprobe.advice.signals import WorkSignals
from tfprobe.advice.thresholds import Thresholds
from tfprobe.errors import Missing

# One trace for all shapes is usually possible; the slow steps may have been slow for more reasons.
LIKELY = 0.5
# As in gather.loops: fewer do not say what a step takes without a trace.
_LEAST_UNTRACED = 3


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding for many traces.

    The bound is what the slowest steps, as many as there were traces but the first, took beyond the
    median of the others: a trace happens within a step. Where nearly every step was traced, it is
    what they took beyond the time in which ops of a sampled step ran.
    """
    loop = work.loop
    if loop.retraces < limits.retraces_least:
        return None
    gain_ns = loop.retrace_ns
    if loop.untraced < _LEAST_UNTRACED and not isinstance(work.ops, Missing):
        gain_ns = max(gain_ns - round(work.ops.busy_ns * loop.retraces), 0)
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    if gain.high_ratio < limits.retrace_ratio:
        return None
    steps = ", ".join(map(str, loop.slowest_steps))
    return Finding(
        title="The function is traced again and again",
        severity=limits.severity(gain),
        evidence=(
            Evidence(f"{loop.retraces:,} traces after the first, in {loop.steps:,} steps"),
            Evidence("beyond the usual step, each", time_ns=gain_ns // loop.retraces),
            Evidence(f"the slowest remembered steps: {steps}", steps=tuple(loop.slowest_steps)),
            work.shown_by("steps"),
        ),
        action="Call it with tensors rather than Python numbers, and with few shapes: "
        "tf.function(reduce_retracing=True) or an input_signature with None for what varies, "
        ".batch(..., drop_remainder=True), padding to a few lengths.",
        gain=gain,
        part="compile",
    )
