"""Tell of steps so small that Keras spends its time between them."""

from __future__ import annotations

from tfprobe.advice.finding import Evidence, Finding
from tfprobe.advice.rule import Verdict
from tfprobe.advice.signals import ActivityUse, WorkSignals
from tfprobe.advice.thresholds import Thresholds
from tfprobe.errors import Missing

# The methods that run these steps, and the activity that is each call of one.
_METHODS = {"fit": "train", "evaluate": "evaluate", "predict": "predict"}
_NS_PER_US = 1000
# With 32 steps in one call, 31 of 32 parts of it go; callbacks at each batch keep some.
LIKELY = 0.5
# A call of a method that runs fewer steps has none to put together.
_LEAST_STEPS_A_CALL = 2
# What one call for several steps saves: Python around the step, not what makes the batch.
_SAVED = ("idle", "fetch", "feed")
_SEVERAL = (
    "model.compile(..., steps_per_execution=32) runs so many steps in one call "
    "(steps_per_execution='auto' in Keras of TensorFlow 2.14 to 2.15); or take larger batches."
)
_LARGER = "Take larger batches, so that there are fewer steps."
_SINGLE = (
    "Each call runs a single step and prepares an iterator for it. Call the model itself, "
    "model(x, training=False), or train_on_batch and test_on_batch; or give each call more batches."
)


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding for one small step an execution; the bound is Python's time around steps.

    Where each call of the method runs a single step, as in a server, it is the time of the calls.
    """
    loop = work.loop
    if loop.kind not in _METHODS or loop.per_execution != 1:
        return None
    if loop.usual_step_ns > limits.small_step_us * _NS_PER_US:
        return None
    calls = _calls(work)
    is_single = loop.steps < _LEAST_STEPS_A_CALL * sum(each.count for each in calls)
    gain_ns = sum(each.own_ns for each in calls) if is_single else _around_ns(work)
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
        action=_SINGLE if is_single else _SEVERAL if _may_join_steps(work) else _LARGER,
        gain=gain,
        part="dispatch",
    )


def _may_join_steps(work: WorkSignals) -> bool:
    """Say whether this Keras can run several steps in one call; in graph mode none can."""
    return work.process.has_steps_per_execution and not work.is_of_session


def _calls(work: WorkSignals) -> list[ActivityUse]:
    """Return the calls of the method that runs these steps."""
    kind, name = _METHODS[work.loop.kind], f"{work.loop.name}.{work.loop.kind}"
    return [each for each in work.process.activities if (each.kind, each.name) == (kind, name)]


def _around_ns(work: WorkSignals) -> float:
    if isinstance(work.parts, Missing):
        return work.loop.usual_gap_ns * work.loop.steps
    return work.parts.of_all_steps(*_SAVED)
