"""Tell of a step that is made of ops too small to be worth their scheduling."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import WorkSignals
from tfprobe.findings.thresholds import Thresholds

# Larger batches spread it over more examples.
LIKELY = 0.5
_NS_PER_US = 1000
# Scheduling an op takes TensorFlow's executor some µs, an eager op some tens: longer gaps between
# ops have other reasons.
_MOST_NS_AN_OP = 50_000
# What goes with the number of ops.
_OWN = ("host_compute", "idle", "fetch")


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding for many tiny ops; the bound is when no larger op ran, from first to last.

    Where the usual step is so short that its ops cannot but be tiny, all that goes with their
    number counts: the bound is the step without larger ops. So it is with ops that TensorFlow 2
    does not trace because it takes them to be cheap. An op costs 50 us at most. With an
    accelerator, launch_bound looks at it.
    """
    ops = work.ops
    if isinstance(ops, Missing):
        return ops
    count = max(ops.per_step, 0 if isinstance(work.nodes, Missing) else work.nodes)
    if ops.has_accelerator or count < limits.tiny_ops_least:
        return None
    # A thread that lost its CPU, or waited, ran no tiny ops meanwhile.
    whole_ns, small_ns = ops.step_ns, ops.span_ns - ops.large_ns - ops.paused_ns
    if work.loop.usual_step_ns < count * limits.tiny_op_us * _NS_PER_US:
        whole_ns = work.loop.usual_step_ns
        # A traced step takes longer, and so do its larger ops.
        large_ratio = min(ops.large_ns / ops.span_ns, 1.0) if ops.span_ns else 1.0
        small_ns = whole_ns - min(ops.large_ns, large_ratio * whole_ns)
    small_ns = min(small_ns, count * _MOST_NS_AN_OP)
    steps_ns = work.loop.regular_step_ns
    gain_ns = small_ns / whole_ns * steps_ns if whole_ns else 0.0
    # Steps that wait for their input within them are long for another reason.
    if not isinstance(work.parts, Missing):
        gain_ns = min(gain_ns, work.parts.of_all_steps(*_OWN))
    if not steps_ns or gain_ns < limits.tiny_ratio * steps_ns:
        return None
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    return Finding(
        title="A step is made of tiny ops",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                f"{count:.0f} ops a step; the usual step",
                time_ns=round(whole_ns),
                source=work.ops_source,
            ),
            Evidence("of it with tiny ops alone, or none", time_ns=round(small_ns)),
            *work.sample(),
            work.shown_by("op -order_by occurrence"),
        ),
        action="Give each op more to do: larger batches, whole tensors instead of loops over their "
        "parts (tf.stack, tf.vectorized_map).",
        gain=gain,
        part="host_compute",
    )
