"""Tell of a loop that runs op by op from Python."""

from __future__ import annotations

from tfprobe.advice.finding import Evidence, Finding
from tfprobe.advice.rule import Verdict
from tfprobe.advice.signals import WorkSignals
from tfprobe.advice.thresholds import Thresholds
from tfprobe.errors import Missing

# A function still dispatches ops, at a tenth of Python's price or so.
LIKELY = 0.5
_OUTSIDE = ("idle", "kernel_launch", "feed", "fetch")


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding for an eager loop; the bound is the time of a step outside ops.

    Where ops would run beside each other in a function, more may be won: that is not in it.
    """
    settings = {} if isinstance(work.process.settings, Missing) else work.process.settings
    forced = settings.get("eager") is True
    if work.loop.kind != "eager" and not forced:
        return None
    if isinstance(work.parts, Missing):
        return work.parts
    gain_ns = work.parts.of_all_steps(*_OUTSIDE)
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    if gain.high_ratio < limits.eager_ratio:
        return None
    return Finding(
        title="Functions run eagerly, op by op" if forced else "The loop runs eagerly, op by op",
        severity=limits.severity(gain),
        evidence=(
            Evidence("of the cycle is outside ops", ratio=work.parts.ratio(*_OUTSIDE)),
            *work.sample(),
            work.shown_by("op"),
        ),
        action="Remove run_functions_eagerly(True) and run_eagerly=True."
        if forced
        else "Put the step into a function: @tf.function above it.",
        gain=gain,
        part="dispatch",
    )
