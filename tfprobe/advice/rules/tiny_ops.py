"""Tell of a step that is made of ops too small to be worth their scheduling."""

from __future__ import annotations

from tfprobe.advice.finding import Evidence, Finding
from tfprobe.advice.rule import Verdict
from tfprobe.advice.signals import WorkSignals
from tfprobe.advice.thresholds import Thresholds
from tfprobe.errors import Missing

# Larger batches spread it over more examples; fusing leaves about half of the ops.
LIKELY = 0.5


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding for many tiny ops; the bound is when no larger op ran, from first to last.

    With an accelerator, launch_bound looks at the same.
    """
    ops = work.ops
    if isinstance(ops, Missing):
        return ops
    small_ns = ops.span_ns - ops.large_ns
    if ops.has_accelerator or ops.per_step < limits.tiny_ops_least:
        return None
    if not ops.step_ns or small_ns < limits.tiny_ratio * ops.step_ns:
        return None
    gain_ns = work.of_steps(small_ns)
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    return Finding(
        title="A step is made of tiny ops",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                f"{ops.per_step:.0f} ops a step, the usual one of", time_ns=round(ops.usual_op_ns)
            ),
            Evidence("of a step with tiny ops alone, or none", time_ns=round(small_ns)),
            *work.sample(),
            work.shown_by("op -order_by occurrence"),
        ),
        action="Give each op more to do: larger batches, whole tensors instead of loops over their "
        "parts (tf.stack, tf.vectorized_map). Or fuse: jit_compile=True, or without touching the "
        "code TF_XLA_FLAGS='--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit'.",
        gain=gain,
        part="host_compute",
    )
