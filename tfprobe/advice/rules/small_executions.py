"""Tell of steps so small that Keras spends its time between them."""

from __future__ import annotations

from tfprobe.advice.finding import Evidence, Finding
from tfprobe.advice.rule import Verdict
from tfprobe.advice.signals import WorkSignals
from tfprobe.advice.thresholds import Thresholds
from tfprobe.errors import Missing

_KINDS = ("fit", "evaluate", "predict")
_NS_PER_US = 1000
# With 32 steps in one call, 31 of 32 parts of it go; callbacks at each batch keep some.
LIKELY = 0.5
# What one call for several steps saves: Python around the step, not what makes the batch.
_SAVED = ("idle", "fetch", "feed")


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding for one small step an execution; the bound is Python's time around steps."""
    loop = work.loop
    if loop.kind not in _KINDS or loop.per_execution != 1:
        return None
    if loop.usual_step_ns > limits.small_step_us * _NS_PER_US:
        return None
    gain_ns = _around_ns(work)
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    if gain.high_ratio < limits.between_ratio:
        return None
    return Finding(
        title="Steps are so small that Python between them matters",
        severity=limits.severity(gain),
        evidence=(
            Evidence("the usual step", time_ns=round(loop.usual_step_ns)),
            Evidence("the usual time between two", time_ns=round(loop.usual_gap_ns)),
            work.shown_by("steps"),
        ),
        action="model.compile(..., steps_per_execution=32) runs so many steps in one call "
        "(steps_per_execution='auto' in Keras of TensorFlow 2.14 to 2.15); or take larger batches.",
        gain=gain,
        part="dispatch",
    )


def _around_ns(work: WorkSignals) -> float:
    if isinstance(work.parts, Missing):
        return work.loop.usual_gap_ns * work.loop.steps
    return work.parts.of_all_steps(*_SAVED)
