"""Tell of an accelerator that waits for the host to launch its kernels."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Severity
from tfprobe.findings.rule import Verdict, lacking
from tfprobe.findings.signals import Ops, Parts, WorkSignals
from tfprobe.findings.thresholds import Thresholds

# Threads of their own for launching, or fewer kernels by fusing, take away about half of it.
LIKELY = 0.5
_PRIVATE = "gpu_private"
# Kernels are many where ops of the usual length make up a good part of the time; else few are slow.
_EXPLAINED = 1 / 3
_MOST = 0.5


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where launching is exposed; the bound is all of that time.

    Where it is not the number of ops that takes it, the one op that does is named.
    """
    if isinstance(work.parts, Missing) or isinstance(work.ops, Missing):
        return lacking(work.parts, work.ops)
    ratio = work.parts.ratio("kernel_launch")
    if not work.ops.has_accelerator or ratio < limits.launch_ratio:
        return None
    if not are_many(work.ops, work.parts):
        return _one_op(work, work.ops, work.parts)
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


def are_many(ops: Ops, parts: Parts) -> bool:
    """Say whether launching takes long because there is so much to launch."""
    return ops.usual_op_ns * ops.per_step >= _EXPLAINED * _launch_ns(parts)


def _launch_ns(parts: Parts) -> float:
    return parts.ratio("kernel_launch") * parts.cycle_ns


def _one_op(work: WorkSignals, ops: Ops, parts: Parts) -> Finding | None:
    """Return a finding for the op that holds up the launches, where it is one."""
    dearest = next(iter(ops.host), None)
    if dearest is None or dearest.busy_ns < _MOST * _launch_ns(parts):
        return None
    share = min(dearest.busy_ns / _launch_ns(parts), 1.0)
    return Finding(
        title=f"The accelerator waits for {dearest.type} to launch its kernels",
        severity=Severity.INFO,
        evidence=(
            Evidence(
                f"{dearest.type} a step",
                time_ns=round(dearest.busy_ns),
                node=dearest.node,
                op_type=dearest.type,
            ),
            Evidence(
                f"{ops.per_step:.0f} ops a step; the usual one takes on the host",
                time_ns=round(ops.usual_op_ns),
            ),
            *work.sample(),
            work.shown_by("op"),
        ),
        action="Look at a later step: the first op that needs a library (cuBLAS, cuDNN) loads it, "
        "and tries algorithms for each new shape.",
        gain=work.gain(share * parts.of_all_steps("kernel_launch"), 0.0),
        part="launch",
    )


def _action(work: WorkSignals) -> str:
    settings = {} if isinstance(work.process.settings, Missing) else work.process.settings
    environment = settings.get("environment") or {}
    fuse = "TF_XLA_FLAGS=--tf_xla_auto_jit=2 fuses kernels; larger batches make them longer"
    if environment.get("TF_GPU_THREAD_MODE") == _PRIVATE:
        return f"{fuse}."
    return f"Set TF_GPU_THREAD_MODE={_PRIVATE}, so that launches have threads of their own. {fuse}."
