"""Tell of copies from or to pageable memory, which the driver copies once more."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import WorkSignals
from tfprobe.findings.thresholds import Thresholds

# Pinned copies run at about twice the rate (NVIDIA, How to Optimize Data Transfers in CUDA C/C++).
LIKELY = 0.5


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where pageable copies take long; the bound is all of their unhidden time."""
    if isinstance(work.copies, Missing):
        return work.copies
    pageable = [each for each in work.copies if each.pageable_count]
    gain_ns = work.of_steps(sum(min(each.pageable_ns, each.exposed_ns) for each in pageable))
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    if not pageable or gain.high_ratio < limits.pageable_ratio:
        return None
    worst = max(pageable, key=lambda each: each.pageable_ns)
    return Finding(
        title="Copies go through pageable memory",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                f"{worst.pageable_count:.0f} copies {worst.direction} a step",
                time_ns=round(worst.pageable_ns),
                node=worst.node,
            ),
            *work.sample(),
            work.shown_by("transfers"),
        ),
        action="Let tf.data hand batches to the device (dataset.apply(tf.data.experimental."
        "prefetch_to_device('/GPU:0'))) rather than feeding NumPy arrays: its buffers are pinned.",
        gain=gain,
        part="copies",
    )
