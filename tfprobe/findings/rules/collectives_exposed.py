"""Tell of collectives that the step waits for because no compute runs meanwhile."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import WorkSignals
from tfprobe.findings.thresholds import Thresholds

# The backward pass has room for about half; the last gradients have nothing to hide behind.
LIKELY = 0.5


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where collectives are exposed; the bound is all of that time."""
    parts = work.parts
    if isinstance(parts, Missing):
        return parts
    ratio = parts.ratio("collectives")
    if ratio < limits.collectives_ratio:
        return None
    gain_ns = parts.of_all_steps("collectives")
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    return Finding(
        title="The step waits for collectives that nothing hides",
        severity=limits.severity(gain),
        evidence=(
            Evidence("of the cycle only collectives run", ratio=ratio),
            *work.sample(),
            work.shown_by("transfers"),
        ),
        action="Look first whether one rank is late (straggler). Then pack gradients "
        "(CommunicationOptions(bytes_per_pack=...)), reduce in 16 bits, use NCCL rather than RING "
        "on GPUs, or take larger batches so that there is more to hide behind.",
        gain=gain,
        part="collectives",
    )
