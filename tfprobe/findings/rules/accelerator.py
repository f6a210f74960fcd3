"""Find accelerators that wait, copy or compute more than they need to."""

from __future__ import annotations

from tfprobe.analysis.ops.step_ops import StepOps
from tfprobe.analysis.steps.cycle_shares import CycleShares
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Severity
from tfprobe.findings.rule import LoopAnalysis, Verdict, lacking, much, part_label
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
# Half of what a device waits for can usually be done elsewhere, or earlier.
LIKELY = 0.5
_ACTIONS = {
    "input_wait": "Prepare the input earlier: see input_bound, and `tfprobe input`.",
    "host_preprocess": "Make batches in other threads: tf.data with prefetch, or workers of Keras.",
    "feed": "Feed less: keep arrays on the device, or read them by tf.data.",
    "host_compute": "Run these ops on the device, or in tf.data: see op_on_host.",
    "kernel_launch": "Launch fewer kernels: TF_XLA_FLAGS=--tf_xla_auto_jit=2, or larger batches.",
    "sync_wait": "Read values of tensors less often: see host_sync.",
    "fetch": "Fetch less, and not at every step.",
    "callbacks": "Do less in callbacks, or not at every step: see callbacks_slow.",
    "checkpoints": "Save less often: see checkpoint_stalls.",
    "summaries": "Write summaries less often.",
    "compile": "Keep shapes constant, to avoid recompilation: see retracing.",
    "idle": "Do less in Python between steps: several steps in one call (steps_per_execution).",
}
# By the causes that the breakdown gives for idle time inside a step.
_INSIDE = {
    "before the first op": "Find out what a step does before its first op: `tfprobe breakdown`. "
    "Call functions with tensors rather than Python values, and several steps in one call.",
    "between ops": "Shorten the time between the ops of a step: one tf.function instead of "
    "Python around several, fused ops (jit_compile=True), and no waiting for a lock or a CPU.",
}
_FEW_LAUNCHES = (
    "Look at a later step: the first op that needs a library loads it; see launch_bound."
)


def accelerator_idle(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if the device is idle too long; the bound is all of the idle time."""
    if isinstance(loop.ops, Missing) or isinstance(loop.parts, Missing):
        return lacking(loop.ops, loop.parts)
    if not loop.process.has_accelerator and not loop.ops.has_accelerator:
        return None
    idle_ratio = 1 - loop.parts.ratio(*ON_DEVICE)
    if idle_ratio < limits.accelerator_idle_ratio:
        return None
    if not loop.ops.has_accelerator:
        return _unused(loop)
    gain_ns = idle_ratio * loop.parts.total_ns
    gain = loop.gain(gain_ns, LIKELY * gain_ns)
    reasons = _reasons(loop.parts)
    return Finding(
        title=f"The accelerator is idle {much(idle_ratio, 1)} of the time",
        severity=limits.severity(gain),
        evidence=(
            Evidence("share of the cycle without a busy device", ratio=idle_ratio),
            *(Evidence(f"of it, {part_label(name)}", ratio=ratio) for name, ratio in reasons),
            *loop.traced_step(),
            loop.shown_by("breakdown"),
        ),
        action=_action(reasons[0][0], loop.ops, loop.parts) if reasons else "",
        gain=gain,
        part=reasons[0][0] if reasons else "idle",
    )


def _action(reason: str, ops: StepOps, parts: CycleShares) -> str:
    """Return what to do about the largest reason, by its main cause."""
    if reason == "kernel_launch" and not are_many(ops, parts):
        return _FEW_LAUNCHES
    cause = parts.cause("idle") if reason == "idle" else None
    inside = _INSIDE.get(cause.what) if cause is not None else None
    return inside or _ACTIONS.get(reason, "")


def _unused(loop: LoopAnalysis) -> Finding:
    return Finding(
        title="There is an accelerator, but no op of the step ran on it",
        severity=Severity.WARNING,
        evidence=(*loop.traced_step(), loop.shown_by("op")),
        action="Look for tf.device('/CPU:0') around the model, for a model too small to be placed, "
        "and at TensorFlow's log for libraries that it did not find (`tfprobe doctor`).",
        gain=Missing("how fast the accelerator would be is unknown"),
    )


def _reasons(parts: CycleShares) -> list[tuple[str, float]]:
    waits = [(name, share) for name, share in parts.shares.items() if name not in ON_DEVICE]
    return sorted(waits, key=lambda wait: -wait[1])[:_REASONS]


# The thread mode of TensorFlow in which launches have threads of their own.
_PRIVATE = "gpu_private"
# Kernels are many if ops of typical length explain this part of the time; else a few are slow.
_EXPLAINED = 1 / 3
_MOST = 0.5


def launch_bound(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if the device waits for launches; the bound is all of that time.

    If the number of ops does not explain it, the finding names the one op that does.
    """
    if isinstance(loop.parts, Missing) or isinstance(loop.ops, Missing):
        return lacking(loop.parts, loop.ops)
    ratio = loop.parts.ratio("kernel_launch")
    if not loop.ops.has_accelerator or ratio < limits.launch_ratio:
        return None
    if not are_many(loop.ops, loop.parts):
        return _one_op(loop, loop.ops, loop.parts)
    gain_ns = loop.parts.of_all_steps("kernel_launch")
    # Threads for launching only, or fewer kernels by fusing, save about half of it.
    gain = loop.gain(gain_ns, LIKELY * gain_ns)
    return Finding(
        title="The accelerator waits for kernels to be launched",
        severity=limits.severity(gain),
        evidence=(
            Evidence("share of the cycle with only launches running", ratio=ratio),
            Evidence(
                f"{loop.ops.per_step:.0f} ops per step; typical host time of one",
                time_ns=round(loop.ops.usual_op_ns),
            ),
            *loop.traced_step(),
            loop.shown_by("op"),
        ),
        action=_launch_bound_action(loop),
        gain=gain,
        part="launch",
    )


def are_many(ops: StepOps, parts: CycleShares) -> bool:
    """Say whether launching takes long because there are many kernels to launch."""
    return ops.usual_op_ns * ops.per_step >= _EXPLAINED * _launch_ns(parts)


def _launch_ns(parts: CycleShares) -> float:
    return parts.ratio("kernel_launch") * parts.cycle_ns


def _one_op(loop: LoopAnalysis, ops: StepOps, parts: CycleShares) -> Finding | None:
    """Return a finding for the op that delays the launches, if it is one."""
    longest = next(iter(ops.host), None)
    if longest is None or longest.busy_ns < _MOST * _launch_ns(parts):
        return None
    share = min(longest.busy_ns / _launch_ns(parts), 1.0)
    return Finding(
        title=f"The accelerator waits for {longest.type} to launch its kernels",
        severity=Severity.INFO,
        evidence=(
            Evidence(
                f"{longest.type} per step",
                time_ns=round(longest.busy_ns),
                node=longest.node,
                op_type=longest.type,
            ),
            Evidence(
                f"{ops.per_step:.0f} ops per step; typical host time of one",
                time_ns=round(ops.usual_op_ns),
            ),
            *loop.traced_step(),
            loop.shown_by("op"),
        ),
        action="Look at a later step: the first op that needs a library (cuBLAS, cuDNN) loads it, "
        "and tries algorithms for each new shape.",
        gain=loop.gain(share * parts.of_all_steps("kernel_launch"), 0.0),
        part="launch",
    )


def _launch_bound_action(loop: LoopAnalysis) -> str:
    settings = {} if isinstance(loop.process.settings, Missing) else loop.process.settings
    environment = settings.get("environment") or {}
    fuse = "TF_XLA_FLAGS=--tf_xla_auto_jit=2 fuses kernels; larger batches make them longer"
    if environment.get("TF_GPU_THREAD_MODE") == _PRIVATE:
        return f"{fuse}."
    return f"Set TF_GPU_THREAD_MODE={_PRIVATE}, so that launches have threads of their own. {fuse}."


_SHOWN = 3


def op_on_host(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return the op of the host that takes longest; the bound is its time with an idle device.

    The host is slower in traced steps: in all steps, no device can be idle for longer than it is.
    """
    if isinstance(loop.ops, Missing) or isinstance(loop.parts, Missing):
        return lacking(loop.ops, loop.parts)
    if not loop.ops.has_accelerator or not loop.ops.exposed_host:
        return None
    longest = loop.ops.exposed_host[0]
    idle_ns = (1 - loop.parts.ratio(*ON_DEVICE)) * loop.parts.total_ns
    gain_ns = min(loop.of_steps(longest.busy_ns), idle_ns)
    # A device runs most ops in a fraction of the host's time, but some have no kernel for it.
    gain = loop.gain(gain_ns, LIKELY * gain_ns)
    if gain.high_ratio < limits.host_op_ratio:
        return None
    return Finding(
        title=f"{longest.type} runs on the host while the accelerator waits",
        severity=limits.severity(gain),
        evidence=(
            *(
                Evidence(
                    f"{use.type} per step",
                    time_ns=round(use.busy_ns),
                    node=use.node,
                    op_type=use.type,
                )
                for use in loop.ops.exposed_host[:_SHOWN]
            ),
            *loop.traced_step(),
            loop.shown_by("op -select micros,device"),
        ),
        action="Move it into tf.data, or onto the device: remove tf.device('/CPU:0') around it, "
        "take a dtype that has a kernel there (int32 often has none), or another op. "
        "tf.debugging.set_log_device_placement(True) shows why it was placed there.",
        gain=gain,
        part="host_compute",
    )


# Matrix products and convolutions become 1.5 to 3 times faster (NVIDIA, Training With Mixed
# Precision); 1.5 times faster is a third less time.
PRECISION_WIDE_LIKELY = 1 / 3


def precision_wide(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if next to nothing runs in 16 bits; the bound is what eligible ops take."""
    precision = loop.precision
    if precision is None or isinstance(precision, Missing):
        return precision
    compute_ns = precision.narrow_ns + precision.wide_ns
    if not precision.eligible_ns or precision.narrow_ns >= limits.narrow_ratio * compute_ns:
        return None
    gain_ns = loop.of_steps(precision.eligible_ns)
    gain = loop.gain(gain_ns, PRECISION_WIDE_LIKELY * gain_ns)
    return Finding(
        title="Matrix products and convolutions run in 32 bits",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                "32 bits, per step", time_ns=round(precision.eligible_ns), node=precision.node
            ),
            Evidence("16 bits, per step", time_ns=round(precision.narrow_ns)),
            *loop.traced_step(),
        ),
        action="keras.mixed_precision.set_global_policy('mixed_bfloat16') (or 'mixed_float16'); "
        "without touching the model: tf.config.optimizer.set_experimental_options("
        "{'auto_mixed_precision': True}), in NVIDIA's builds TF_ENABLE_AUTO_MIXED_PRECISION=1.",
        gain=gain,
        part="compute",
    )


def data_layout(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if transposes take long; the bound is all of their time."""
    layout = loop.layout
    if layout is None or isinstance(layout, Missing):
        return layout
    gain_ns = loop.of_steps(layout.transpose_ns)
    # Inputs and outputs of the whole model keep their format, and so their transposes.
    gain = loop.gain(gain_ns, LIKELY * gain_ns)
    has_convolutions = layout.nhwc_ns + layout.nchw_ns > 0
    if not has_convolutions or gain.high_ratio < limits.layout_ratio:
        return None
    # Tensor cores prefer channels last, other kernels of cuDNN channels first.
    wanted = "NHWC (channels_last)" if _is_narrow(loop) else "NCHW (channels_first)"
    return Finding(
        title="Tensors are transposed for convolutions that use another data format",
        severity=limits.severity(gain),
        evidence=(
            Evidence("transposes per step", time_ns=round(layout.transpose_ns), node=layout.node),
            Evidence("convolutions in NHWC per step", time_ns=round(layout.nhwc_ns)),
            Evidence("convolutions in NCHW per step", time_ns=round(layout.nchw_ns)),
            *loop.traced_step(),
        ),
        action=f"Build the model in {wanted}: set image_data_format in keras.json (in KERAS_HOME), "
        "or data_format of layers that set it themselves.",
        gain=gain,
        part="transposes",
    )


def _is_narrow(loop: LoopAnalysis) -> bool:
    precision = loop.precision
    if precision is None or isinstance(precision, Missing):
        return False
    return precision.narrow_ns >= precision.wide_ns


def copies_many(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding for many small copies; the bound is their time without a kernel."""
    if isinstance(loop.copies, Missing):
        return loop.copies
    many = [
        copy
        for copy in loop.copies
        if copy.count >= limits.copies_least and copy.bytes / copy.count < limits.copy_bytes
    ]
    gain_ns = loop.of_steps(sum(copy.exposed_ns for copy in many))
    # One large copy instead of many small ones saves their launches, not their bytes.
    gain = loop.gain(gain_ns, LIKELY * gain_ns)
    if not many or gain.high_ratio < limits.copies_ratio:
        return None
    worst = max(many, key=lambda copy: copy.exposed_ns)
    return Finding(
        title="Many small copies go between host and device",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                f"{worst.count:.0f} copies {worst.direction} per step, size of each",
                size_bytes=round(worst.bytes / worst.count),
                node=worst.node,
            ),
            Evidence("not overlapped, per step", time_ns=round(worst.exposed_ns)),
            *loop.traced_step(),
            loop.shown_by("transfers"),
        ),
        action="Put what is fed or fetched into one tensor, keep it on the device between steps, "
        "and keep small ops from alternating between host and device (int32 tensors and shapes "
        "live on the host).",
        gain=gain,
        part="copies",
    )


def copies_pageable(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if pageable copies take long; the bound is their time without a kernel."""
    if isinstance(loop.copies, Missing):
        return loop.copies
    pageable = [copy for copy in loop.copies if copy.pageable_count]
    gain_ns = loop.of_steps(sum(min(copy.pageable_ns, copy.exposed_ns) for copy in pageable))
    # Pinned copies run at about twice the rate (NVIDIA, How to Optimize Data Transfers in CUDA
    # C/C++).
    gain = loop.gain(gain_ns, LIKELY * gain_ns)
    if not pageable or gain.high_ratio < limits.pageable_ratio:
        return None
    worst = max(pageable, key=lambda copy: copy.pageable_ns)
    return Finding(
        title="Copies go through pageable memory",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                f"{worst.pageable_count:.0f} copies {worst.direction} per step",
                time_ns=round(worst.pageable_ns),
                node=worst.node,
            ),
            *loop.traced_step(),
            loop.shown_by("transfers"),
        ),
        action="Let tf.data hand batches to the device (dataset.apply(tf.data.experimental."
        "prefetch_to_device('/GPU:0'))) rather than feeding NumPy arrays: its buffers are pinned.",
        gain=gain,
        part="copies",
    )
