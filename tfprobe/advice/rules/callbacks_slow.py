"""Tell of callbacks and hooks that hold up the loop."""

from __future__ import annotations

from tfprobe.advice.finding import Evidence, Finding
from tfprobe.advice.rule import Verdict
from tfprobe.advice.signals import WorkSignals
from tfprobe.advice.thresholds import Thresholds
from tfprobe.errors import Missing

# Run at every tenth step instead of every step, nine tenths of it go; half is surely within reach.
LIKELY = 0.5


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where callbacks and summaries take long; the bound is all of their time."""
    parts = work.parts
    if isinstance(parts, Missing):
        return parts
    gain_ns = parts.of_all_steps("callbacks", "summaries")
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    if gain.high_ratio < limits.callbacks_ratio:
        return None
    cause = parts.cause("callbacks", "summaries")
    return Finding(
        title="Callbacks between steps take long",
        severity=limits.severity(gain),
        evidence=(
            Evidence("of the cycle", ratio=parts.ratio("callbacks", "summaries")),
            *(
                [Evidence(f"{cause.what} a step", time_ns=round(cause.ns), source=cause.source)]
                if cause
                else []
            ),
            work.shown_by("breakdown"),
        ),
        action="Let the callback do its work at every Nth batch or at the end of the epoch "
        "(TensorBoard: update_freq='epoch'; hooks: every_n_steps), or in a thread of its own.",
        gain=gain,
        part="callbacks",
    )
