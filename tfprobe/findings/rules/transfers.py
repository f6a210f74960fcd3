"""Find copies between host and device that cost more than they must."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import LoopAnalysis, Verdict
from tfprobe.findings.thresholds import Thresholds

# One large copy for many small ones saves their starts, not their bytes.
LIKELY = 0.5


def copies_many(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding where small copies are many; the bound is what they take, unhidden."""
    if isinstance(loop.copies, Missing):
        return loop.copies
    many = [
        copy
        for copy in loop.copies
        if copy.count >= limits.copies_least and copy.bytes / copy.count < limits.copy_bytes
    ]
    gain_ns = loop.of_steps(sum(each.exposed_ns for each in many))
    gain = loop.gain(gain_ns, LIKELY * gain_ns)
    if not many or gain.high_ratio < limits.copies_ratio:
        return None
    worst = max(many, key=lambda each: each.exposed_ns)
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


# Pinned copies run at about twice the rate (NVIDIA, How to Optimize Data Transfers in CUDA C/C++).


def copies_pageable(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding where pageable copies take long; the bound is all of their unhidden time."""
    if isinstance(loop.copies, Missing):
        return loop.copies
    pageable = [copy for copy in loop.copies if copy.pageable_count]
    gain_ns = loop.of_steps(sum(min(each.pageable_ns, each.exposed_ns) for each in pageable))
    gain = loop.gain(gain_ns, LIKELY * gain_ns)
    if not pageable or gain.high_ratio < limits.pageable_ratio:
        return None
    worst = max(pageable, key=lambda each: each.pageable_ns)
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
