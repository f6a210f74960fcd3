"""Tell of steps so small that Keras spends its time between them."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import ActivityUse, WorkSignals
from tfprobe.findings.thresholds import Thresholds

# The methods that run these steps, and the activity that is each call of one.
_METHODS = {"fit": "train", "evaluate": "evaluate", "predict": "predict"}
_NS_PER_US = 1000
# With 32 steps in one call, 31 of 32 parts of it go; callbacks at each batch keep some.
LIKELY = 0.5
# A call of a method that runs fewer steps has none to put together.
_LEAST_STEPS_A_CALL = 2
# Before the first step of fit lies more: epochs, callbacks, shuffling.
_LEAST_STEPS_A_FIT = 4
# The first calls trace and compile; of fewer none tells what a call takes.
_LEAST_CALLS = 5
# What one call for several steps saves: Python around the step, with callbacks of each batch. What
# makes the batch stays.
_SAVED = ("idle", "fetch", "feed")
_CALLBACKS = ("callbacks", "summaries")
_SEVERAL = (
    "model.compile(..., steps_per_execution=32) runs so many steps in one call "
    "(steps_per_execution='auto' in Keras of TensorFlow 2.14 to 2.15); or take larger batches."
)
_LARGER = "Take larger batches or fewer, longer epochs, so that less is done between steps."
_EPOCH = "CallbackList.on_epoch_end"
_SINGLE = (
    "Each call runs few steps, or one, and prepares a pipeline for them. Call the model itself, "
    "model(x, training=False), or train_on_batch and test_on_batch; or give each call more batches."
)


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding for one small step an execution; the bound is Python's time around steps.

    Where each call of the method runs a single step, as in a server, it is the time of the calls
    but for their ops.
    """
    loop = work.loop
    if loop.kind not in _METHODS or loop.per_execution != 1:
        return None
    calls = _calls(work)
    least = _LEAST_STEPS_A_FIT if loop.kind == "fit" else _LEAST_STEPS_A_CALL
    called = sum(each.count for each in calls)
    is_single = called >= _LEAST_CALLS and loop.steps < least * called
    if not is_single and work.alone_step_ns > limits.small_step_us * _NS_PER_US:
        return None
    gain_ns = _calls_ns(work, calls, limits) if is_single else _around_ns(work, limits)
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    if gain.high_ratio < limits.between_ratio:
        return None
    return Finding(
        title="Steps are so small that Python between them matters",
        severity=limits.severity(gain),
        evidence=(
            Evidence("the usual step", time_ns=round(loop.usual_step_ns)),
            Evidence("the usual time between two", time_ns=round(loop.usual_gap_ns)),
            *(_called_at(work) if is_single else ()),
            work.shown_by("steps"),
        ),
        action=_SINGLE if is_single else _SEVERAL if _may_join_steps(work) else _LARGER,
        gain=gain,
        part="dispatch",
    )


def _called_at(work: WorkSignals) -> tuple[Evidence, ...]:
    """Return the line that makes the calls, where the time between their steps was watched."""
    if isinstance(work.python, Missing) or not work.python.lines:
        return ()
    return (Evidence("called at", source=work.python.lines[0].source),)


def _may_join_steps(work: WorkSignals) -> bool:
    """Say whether this Keras can run several steps in one call; in graph mode none can.

    Steps of two epochs are never in one call.
    """
    epochs = sum(each.count for each in work.process.activities if each.name == _EPOCH)
    has_several = work.loop.steps >= _LEAST_STEPS_A_CALL * epochs or work.loop.kind != "fit"
    return work.process.has_steps_per_execution and not work.is_of_session and has_several


def _calls(work: WorkSignals) -> list[ActivityUse]:
    """Return the calls of the method that runs these steps."""
    kind, name = _METHODS[work.loop.kind], f"{work.loop.name}.{work.loop.kind}"
    return [each for each in work.process.activities if (each.kind, each.name) == (kind, name)]


def _calls_ns(work: WorkSignals, calls: list[ActivityUse], limits: Thresholds) -> float:
    """Return what calls that run a single step take but for its ops, those of small steps, too."""
    own_ns = sum(each.own_ns for each in calls)
    total_ns = sum(each.total_ns for each in calls)
    if not isinstance(work.ops, Missing):
        return max(total_ns - work.of_steps(work.ops.busy_ns), own_ns)
    is_small = work.alone_step_ns <= limits.small_step_us * _NS_PER_US
    return max(total_ns if is_small else total_ns - work.loop.step_ns, own_ns)


def _around_ns(work: WorkSignals, limits: Thresholds) -> float:
    if isinstance(work.parts, Missing):
        return work.loop.usual_gap_ns * work.loop.steps
    parts = work.parts
    # Keras' own callbacks come once a call; slow ones are callbacks_slow's. A ready element
    # is handed over once a call, too.
    callbacks_ns = limits.callbacks_ratio * parts.total_ns
    handed_ns = 0.0
    if not isinstance(work.input, Missing) and work.input.keeps_up:
        handed_ns = parts.of_all_steps("input_wait")
    # What waits for Python that makes the input goes on waiting.
    saved_ns = max(parts.of_all_steps(*_SAVED) - work.held_ns, 0.0)
    return saved_ns + min(parts.of_all_steps(*_CALLBACKS), callbacks_ns) + handed_ns
