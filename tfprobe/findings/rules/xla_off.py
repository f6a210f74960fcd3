"""Tell of chains of element-wise ops that XLA would fuse, where it is off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import WorkSignals
from tfprobe.findings.thresholds import Thresholds

# On an accelerator such ops wait for memory: a chain of two or more reads and writes it once.
# What is left of a chain of four is a quarter; longer ones are rare.
BOUND = 0.75
LIKELY = 0.5
_XLA_OPS = ("_XlaRun", "_XlaCompile", "XlaLaunch", "_XlaMerge")


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where fusible ops of an accelerator take long; the bound is most of
    their time.

    On CPUs grappler and oneDNN have fused what is common: measured there, XLA made a long chain of
    element-wise ops a third slower.
    """
    if isinstance(work.ops, Missing):
        return work.ops
    if not work.ops.has_accelerator:
        return None
    settings = work.process.settings
    if isinstance(settings, Missing):
        return settings
    gain_ns = work.of_steps(work.ops.fusible_ns)
    gain = work.gain(BOUND * gain_ns, LIKELY * gain_ns)
    if _is_on(settings, work) or work.gain(gain_ns, 0).high_ratio < limits.fusible_ratio:
        return None
    return Finding(
        title="XLA is off, and would fuse element-wise ops",
        severity=limits.severity(gain),
        evidence=(
            Evidence("element-wise ops a step", time_ns=round(work.ops.fusible_ns)),
            *work.sample(),
            work.shown_by("op"),
        ),
        action="Try TF_XLA_FLAGS='--tf_xla_auto_jit=2', or jit_compile=True for the step. Shapes "
        "that change from step to step are compiled again each time.",
        gain=gain,
        part="fusible",
    )


def _is_on(settings: Mapping[str, Any], work: WorkSignals) -> bool:
    flags = str((settings.get("environment") or {}).get("TF_XLA_FLAGS", ""))
    types = () if isinstance(work.ops, Missing) else (*work.ops.host, *work.ops.device)
    ran = any(use.type in _XLA_OPS for use in types)
    return bool(settings.get("jit")) or "auto_jit" in flags or ran
