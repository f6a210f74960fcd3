"""Tell of an accelerator that waits for the host to launch its kernels."""

from __future__ import annotations

from tfprobe.advice.finding import Evidence, Finding
from tfprobe.advice.rule import Verdict, lacking
from tfprobe.advice.signals import WorkSignals
from tfprobe.advice.thresholds import Thresholds
from tfprobe.errors import Missing

# Threads of their own for launching, or fewer kernels by fusing, take away about half of it.
LIKELY = 0.5
_PRIVATE = "gpu_private"


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where launching is exposed; the bound is all of that time."""
    if isinstance(work.parts, Missing) or isinstance(work.ops, Missing):
        return lacking(work.parts, work.ops)
    ratio = work.parts.ratio("kernel_launch")
    if not work.ops.has_accelerator or ratio < limits.launch_ratio:
        return None
    gain_ns = work.parts.of_all_steps("kernel_launch")
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    return Finding(
        title="The accelerator waits for kernels to be launched",
        severity=limits.severity(gain),
        evidence=(
            Evidence("of the cycle only launches run", ratio=ratio),
            Evidence(
                f"{work.ops.per_step:.0f} ops a step; the usual one takes on the host",
                time_ns=round(work.ops.usual_op_ns),
            ),
            *work.sample(),
            work.shown_by("op"),
        ),
        action=_action(work),
        gain=gain,
        part="launch",
    )


def _action(work: WorkSignals) -> str:
    settings = {} if isinstance(work.process.settings, Missing) else work.process.settings
    environment = settings.get("environment") or {}
    fuse = "TF_XLA_FLAGS=--tf_xla_auto_jit=2 fuses kernels; larger batches make them longer"
    if environment.get("TF_GPU_THREAD_MODE") == _PRIVATE:
        return f"{fuse}."
    return f"Set TF_GPU_THREAD_MODE={_PRIVATE}, so that launches have threads of their own. {fuse}."
