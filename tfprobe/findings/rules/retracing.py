"""Tell of a function that is traced again and again."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import WorkSignals
from tfprobe.findings.thresholds import Thresholds

# One trace for all shapes is usually possible; the slow steps may have been slow for more reasons.
LIKELY = 0.5
# As measured: memory is allocated, and kernels of libraries are made.
_LATER_RUN = 0.5
# Functions that saving and restoring trace.
OF_TENSORFLOW = frozenset(
    {
        "_traced_save",
        "_traced_restore",
        "serving_default",
        "restored_function_body",
        "signature_wrapper",
    }
)
# As in gather.loops: fewer do not say what a step takes without a trace.
_LEAST_UNTRACED = 3


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding for many traces.

    The bound is what the slowest steps, as many as there were traces but the first, took beyond the
    median of the others: a trace happens within a step. Where nearly every step was traced, it is
    what they took beyond half of the time in which ops of a sampled step ran: in a function that
    runs for the first time they take twice as long as later.
    """
    loop = work.loop
    # TensorFlow makes these anew for each checkpoint or export: no argument of the job varies.
    if loop.retraces < limits.retraces_least or loop.name in OF_TENSORFLOW:
        return None
    gain_ns = loop.retrace_ns
    if loop.untraced < _LEAST_UNTRACED and not isinstance(work.ops, Missing):
        gain_ns = max(gain_ns - round(_LATER_RUN * work.ops.busy_ns * loop.retraces), 0)
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
            *_called_at(work),
            work.shown_by("steps"),
        ),
        action="Where a Python number changes between calls, pass a tensor (tf.constant(step)): "
        "each number is another function. Where shapes do: tf.function(reduce_retracing=True) or "
        "an input_signature with None for what varies, .batch(..., drop_remainder=True), "
        "padding to a few lengths. Where it is another object each time, make the function "
        "once, outside of the loop.",
        gain=gain,
        part="compile",
    )


def _called_at(work: WorkSignals) -> tuple[Evidence, ...]:
    """Return the line that calls the function, which is that of its steps."""
    python = work.python
    if isinstance(python, Missing) or work.loop.kind != "function" or not python.step_source:
        return ()
    return (Evidence("called at", source=python.step_source),)
