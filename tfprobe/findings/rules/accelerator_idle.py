"""Tell of an accelerator that does nothing most of the time, and of what it waits for."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Severity
from tfprobe.findings.rule import Verdict, lacking
from tfprobe.findings.rules.launch_bound import are_many
from tfprobe.findings.signals import Ops, Parts, WorkSignals, much, part_label
from tfprobe.findings.thresholds import Thresholds

ON_DEVICE = (
    "device_compute_16bit",
    "device_compute_32bit",
    "device_compute_other",
    "collectives",
    "device_to_device",
    "device_to_host",
    "host_to_device",
)
_REASONS = 3
# Of what a device waits for, half can usually be put where it does not wait.
LIKELY = 0.5
_ACTIONS = {
    "input_wait": "Let the input be ready earlier: see input_bound, and `tfprobe input`.",
    "host_preprocess": "Make batches in other threads: tf.data with prefetch, or workers of Keras.",
    "feed": "Feed less: keep arrays on the device, or read them by tf.data.",
    "host_compute": "Run these ops on the device, or in tf.data: see op_on_host.",
    "kernel_launch": "Launch fewer kernels: TF_XLA_FLAGS=--tf_xla_auto_jit=2, or larger batches.",
    "sync_wait": "Read values of tensors less often: see host_sync.",
    "fetch": "Fetch less, and not at every step.",
    "callbacks": "Do less in callbacks, or not at every step: see callbacks_slow.",
    "checkpoints": "Save less often: see checkpoint_stalls.",
    "summaries": "Write summaries less often.",
    "compile": "Keep shapes the same, so that nothing is compiled again: see retracing.",
    "idle": "Do less in Python between steps: several steps in one call (steps_per_execution).",
}
# What the breakdown calls idle time inside a step.
_INSIDE = {
    "before the first op": "Find out what a step does before its first op: `tfprobe breakdown`. "
    "Call functions with tensors rather than Python values, and several steps in one call.",
    "between ops": "Leave less between the ops of a step: one tf.function in place of Python "
    "around several, ops that are fused (jit_compile=True), and no wait for a lock or a CPU.",
}
_FEW_LAUNCHES = (
    "Look at a later step: the first op that needs a library loads it; see launch_bound."
)


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where the device is idle; the bound is all the time that it is."""
    if isinstance(work.ops, Missing) or isinstance(work.parts, Missing):
        return lacking(work.ops, work.parts)
    if not work.process.has_accelerator and not work.ops.has_accelerator:
        return None
    idle_ratio = 1 - work.parts.ratio(*ON_DEVICE)
    if idle_ratio < limits.accelerator_idle_ratio:
        return None
    if not work.ops.has_accelerator:
        return _unused(work)
    gain_ns = idle_ratio * work.parts.total_ns
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    reasons = _reasons(work.parts)
    return Finding(
        title=f"The accelerator does nothing {much(idle_ratio, 1)} of the time",
        severity=limits.severity(gain),
        evidence=(
            Evidence("of the cycle no device works", ratio=idle_ratio),
            *(Evidence(f"of it {part_label(name)}", ratio=ratio) for name, ratio in reasons),
            *work.sample(),
            work.shown_by("breakdown"),
        ),
        action=_action(reasons[0][0], work.ops, work.parts) if reasons else "",
        gain=gain,
        part=reasons[0][0] if reasons else "idle",
    )


def _action(reason: str, ops: Ops, parts: Parts) -> str:
    """Return what to do about the largest reason, by the largest cause of it."""
    if reason == "kernel_launch" and not are_many(ops, parts):
        return _FEW_LAUNCHES
    cause = parts.cause("idle") if reason == "idle" else None
    inside = _INSIDE.get(cause.what) if cause is not None else None
    return inside or _ACTIONS.get(reason, "")


def _unused(work: WorkSignals) -> Finding:
    return Finding(
        title="There is an accelerator, and no op of the step ran on it",
        severity=Severity.WARNING,
        evidence=(*work.sample(), work.shown_by("op")),
        action="Look for tf.device('/CPU:0') around the model, for a model too small to be placed, "
        "and at TensorFlow's log for libraries that it did not find (`tfprobe doctor`).",
        gain=Missing("how fast the accelerator would be is unknown"),
    )


def _reasons(parts: Parts) -> list[tuple[str, float]]:
    waits = [(name, share) for name, share in parts.shares.items() if name not in ON_DEVICE]
    return sorted(waits, key=lambda each: -each[1])[:_REASONS]
