"""Tell of an accelerator whose memory is mostly empty."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Severity
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import ProcessSignals
from tfprobe.findings.thresholds import Thresholds


def check(process: ProcessSignals, limits: Thresholds) -> Verdict:
    """Return a finding for the device with most room; what it would win is not known."""
    if not process.device_memory:
        return Missing("no memory of a device was recorded") if process.has_accelerator else None
    emptiest = min(process.device_memory, key=lambda each: each.peak_bytes / each.capacity_bytes)
    ratio = emptiest.peak_bytes / emptiest.capacity_bytes
    if ratio > limits.memory_unused_ratio:
        return None
    return Finding(
        title=f"The memory of {emptiest.device} is mostly empty",
        severity=Severity.INFO,
        evidence=(
            Evidence("at its peak", ratio=ratio),
            Evidence("which is", size_bytes=emptiest.peak_bytes),
            Evidence("of", size_bytes=emptiest.capacity_bytes),
        ),
        action="If the model allows, take a larger batch: kernels become longer and steps fewer. "
        "Or let several jobs share the device, with TF_FORCE_GPU_ALLOW_GROWTH=true.",
        gain=Missing("what a larger batch wins depends on the model"),
    )
