"""Tell of a loop that runs op by op from Python."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import WorkSignals
from tfprobe.findings.thresholds import Thresholds

# A function still dispatches ops, at a tenth of Python's price or so. All loops that were measured
# before and after won more than their time outside ops.
LIKELY = 0.8
_NS_PER_US = 1000
_OUTSIDE = ("idle", "kernel_launch", "feed", "fetch")
# What `run_eagerly` of a model is about.
_OF_MODELS = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding for an eager loop; the bound is the time of a step outside ops, and
    `tiny_op_us` of each op, which is what dispatching one from Python takes within its own time.

    Where ops would run beside each other in a function, more may be won: that is not in it.
    """
    switch = _switch(work)
    if work.loop.kind != "eager" and not switch:
        return None
    if isinstance(work.parts, Missing):
        return work.parts
    outside_ns = work.parts.of_all_steps(*_OUTSIDE)
    if work.gain(outside_ns, 0).high_ratio < limits.eager_ratio:
        return None
    gain_ns = outside_ns + _dispatch_ns(work, limits)
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    return Finding(
        title="Functions run eagerly, op by op" if switch else "The loop runs eagerly, op by op",
        severity=limits.severity(gain),
        evidence=(
            Evidence("of the cycle is outside ops", ratio=work.parts.ratio(*_OUTSIDE)),
            *work.sample(),
            work.shown_by("op"),
        ),
        action=f"Remove {switch}."
        if switch
        else "Put the step into a function: @tf.function above it.",
        gain=gain,
        part="dispatch",
    )


def _dispatch_ns(work: WorkSignals, limits: Thresholds) -> float:
    """Return what of the time of ops is their dispatch, over all steps."""
    if isinstance(work.ops, Missing):
        return 0.0
    dispatch_ns = work.ops.per_step * limits.tiny_op_us * _NS_PER_US
    return work.of_steps(min(dispatch_ns, work.ops.busy_ns))


def _switch(work: WorkSignals) -> str:
    """Return what makes functions run eagerly, "" where nothing does."""
    settings = {} if isinstance(work.process.settings, Missing) else work.process.settings
    if settings.get("eager") is True:
        return "tf.config.run_functions_eagerly(True)"
    if settings.get("run_eagerly") is True and work.loop.kind in _OF_MODELS:
        return "run_eagerly=True from model.compile(...)"
    return ""
