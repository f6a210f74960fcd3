"""Tell of a step that is made of ops too small to be worth their scheduling."""

from __future__ import annotations

from tfprobe.advice.finding import Evidence, Finding
from tfprobe.advice.rule import Verdict
from tfprobe.advice.signals import WorkSignals
from tfprobe.advice.thresholds import Thresholds
from tfprobe.errors import Missing

# Larger batches spread it over more examples; fusing leaves about half of the ops.
LIKELY = 0.5
_NS_PER_US = 1000


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding for many tiny ops; the bound is when no larger op ran, from first to last.

    TensorFlow 2 does not trace ops that it takes to be cheap: where its graph has more nodes than
    were seen, the bound is all of the usual step without larger ops. With an accelerator,
    launch_bound looks at the same.
    """
    ops = work.ops
    if isinstance(ops, Missing):
        return ops
    small_ns, count = ops.span_ns - ops.large_ns, ops.per_step
    if isinstance(work.nodes, int) and _is_unseen(work, work.nodes, limits):
        small_ns, count = work.loop.usual_step_ns - ops.large_ns, float(work.nodes)
    if ops.has_accelerator or count < limits.tiny_ops_least:
        return None
    whole_ns = min(ops.step_ns, work.loop.usual_step_ns) if count > ops.per_step else ops.step_ns
    if not whole_ns or small_ns < limits.tiny_ratio * whole_ns:
        return None
    gain_ns = small_ns / whole_ns * work.loop.regular_step_ns
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    return Finding(
        title="A step is made of tiny ops",
        severity=limits.severity(gain),
        evidence=(
            Evidence(f"{count:.0f} ops a step; the usual step", time_ns=round(whole_ns)),
            Evidence("of it with tiny ops alone, or none", time_ns=round(small_ns)),
            *work.sample(),
            work.shown_by("op -order_by occurrence"),
        ),
        action="Give each op more to do: larger batches, whole tensors instead of loops over their "
        "parts (tf.stack, tf.vectorized_map). Or fuse: jit_compile=True, or without touching the "
        "code TF_XLA_FLAGS='--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit'.",
        gain=gain,
        part="host_compute",
    )


def _is_unseen(work: WorkSignals, nodes: int, limits: Thresholds) -> bool:
    """Say whether the step runs more nodes than were traced, and each in next to no time."""
    if isinstance(work.ops, Missing) or nodes <= work.ops.per_step:
        return False
    return work.loop.usual_step_ns < nodes * limits.tiny_op_us * _NS_PER_US
