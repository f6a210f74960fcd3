"""Find what takes long between steps: callbacks, checkpoints, evaluation, Python of the job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tfprobe.analysis.account.categories import Category
from tfprobe.analysis.breakdown.gap_breakdown import GapCause
from tfprobe.analysis.breakdown.python_lines import GapPython, LineKind, PythonLine
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.analysis.system.application import ActivityInSteps
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Gain, Severity
from tfprobe.findings.rule import (
    ONE_STEP,
    LoopAnalysis,
    ProcessAnalysis,
    RunAnalysis,
    Verdict,
    much,
)
from tfprobe.findings.thresholds import Thresholds

# At every tenth step instead of every step, nine tenths are saved, and what they delayed.
LIKELY = 0.8
_KINDS = ("callbacks", "summary")
_SHOWN = 3
_EVERY_BATCH = (
    "Let the callback do its work at every Nth batch or at the end of the epoch (hooks: "
    "every_n_steps), or in a thread of its own. The step has to wait for values that it reads from "
    "logs."
)
_SUMMARIES = (
    "Write summaries at every Nth step or once per epoch (TensorBoard: update_freq='epoch'; hooks: "
    "save_steps), without histograms of all weights."
)
_TENSORBOARD = (
    "The TensorBoard callback of Keras 3 writes scalars for each batch, whatever its update_freq: "
    "leave it out, and write what you need in a callback of your own at the end of each epoch."
)
_PROGRESS_BAR = "The progress bar is drawn at each batch: fit(..., verbose=2) reports epochs only."
_AT_EPOCHS = (
    "Callbacks at the ends of epochs take the time: TensorBoard(histogram_freq=0) writes no "
    "histograms of all weights; validate, draw and save at every Nth epoch."
)


def callbacks_slow(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if callbacks and summaries take long.

    The bound is all of their time, and the time to fetch results, many of which nobody else uses.
    Callbacks at each batch are parts of the cycle, those at the ends of epochs are activities.
    """
    parts = loop.parts
    if isinstance(parts, Missing):
        return parts
    rare = _at_epochs(loop)
    rare_ns = sum(activity.own_ns for activity in rare)
    own_ns = parts.of_all_steps("callbacks", "summaries") + rare_ns
    if loop.gain(own_ns, 0).high_ratio < limits.callbacks_ratio:
        return None
    gain_ns = own_ns + parts.of_all_steps("fetch")
    gain = loop.gain(gain_ns, LIKELY * gain_ns)
    is_rare = rare_ns > own_ns / 2
    # If most of it is at the ends of epochs, callbacks at each batch do not matter.
    cause = None if is_rare else parts.cause("callbacks", "summaries")
    return Finding(
        title="Callbacks between steps take a long time",
        severity=limits.severity(gain),
        evidence=(
            *(
                []
                if is_rare
                else [Evidence("share of the cycle", ratio=parts.ratio("callbacks", "summaries"))]
            ),
            *([_per_step(cause)] if cause else []),
            *(
                Evidence(
                    f"{activity.name}, {activity.count:,} times",
                    time_ns=activity.own_ns,
                    source=activity.source,
                )
                for activity in rare
            ),
            loop.shown_by("breakdown"),
        ),
        action=_action(cause, is_rare),
        gain=gain,
        part="callbacks",
    )


def _per_step(cause: GapCause) -> Evidence:
    return Evidence(f"{cause.what} per step", time_ns=cause.duration_ns, source=cause.source)


def _action(cause: GapCause | None, is_rare: bool) -> str:
    """Return what to do by the cause; at the ends of epochs there are no batches to skip."""
    if is_rare:
        return _AT_EPOCHS
    if cause is not None and "progbar" in cause.what:
        return _PROGRESS_BAR
    if cause is not None and cause.what.startswith("tensorboard.on_train_batch"):
        return _TENSORBOARD
    if cause is not None and cause.part is Part.SUMMARIES:
        return _SUMMARIES
    return _EVERY_BATCH


def _at_epochs(loop: LoopAnalysis) -> tuple[ActivityInSteps, ...]:
    """Return the longest activities of callbacks and summaries, for the main loop of a process."""
    uses = loop.process.activities if loop.is_main else ()
    return tuple(use for use in uses if use.kind in _KINDS)[:_SHOWN]


# Half as often takes half the time; a job that saves at every step can save far more.
CHECKPOINT_STALLS_LIKELY = 0.5


# The prefix of ops of a Saver in TensorFlow 1.
_OF_SAVER = "save/"


def checkpoint_stalls(run: RunAnalysis, limits: Thresholds) -> Iterator[Verdict]:
    """Give a finding for each process in which saving takes long; the bound is all of its time."""
    for process in run.processes:
        loops = [loop for loop in run.loops if loop.process.subject == process.subject]
        yield _of_process(process, loops, limits)


def _of_process(
    process: ProcessAnalysis, loops: Iterable[LoopAnalysis], limits: Thresholds
) -> Verdict:
    saves = [activity for activity in process.activities if activity.kind == "save"]
    total_ns = min(sum(save.own_ns for save in saves), process.loop_ns)
    gain = Gain(round(CHECKPOINT_STALLS_LIKELY * total_ns), total_ns, process.loop_ns)
    if not saves or gain.high_ratio < limits.checkpoint_ratio:
        return None
    longest = max(saves, key=lambda save: save.own_ns)
    return Finding(
        title="Steps wait while checkpoints are saved",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                f"{longest.name}, {longest.count:,} times",
                time_ns=longest.own_ns,
                source=_line(loops) or longest.source,
            ),
            Evidence("each", time_ns=longest.own_ns // longest.count),
        ),
        action="Save less often (ModelCheckpoint: save_freq='epoch' or more batches; Estimator: "
        "save_checkpoints_secs), to a local disk, only the weights, or in the background "
        "(CheckpointOptions(enable_async=True) from TensorFlow 2.13 on).",
        gain=gain,
        part="checkpoints",
        subject=process.subject,
    )


def _line(loops: Iterable[LoopAnalysis]) -> str:
    """Return the line that saves: one that runs ops of a Saver, or one seen between steps."""
    loops = tuple(loops)
    savers = (loop.python for loop in loops if loop.timing.name.startswith(_OF_SAVER))
    lines = [python.step_source for python in savers if not isinstance(python, Missing)]
    lines += [loop.save_source for loop in loops]
    return next((line for line in lines if line), "")


# At every second epoch it takes half of the time.
EVALUATION_OFTEN_LIKELY = 0.5
# A single one cannot be left out.
_LEAST = 2


def evaluation_often(process: ProcessAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if evaluation between epochs takes long; the bound is all of its time.

    What the first one compiles is not part of it: that stays, however often it runs.

    An Estimator that stops training for each evaluation builds its graph and session again, and
    saves a checkpoint: the bound includes that. A process that only evaluates has no finding.
    """
    trains = process.trains or any(activity.kind == "train" for activity in process.activities)
    evaluations = [activity for activity in process.activities if activity.kind == "evaluate"]
    evaluate_ns = min(sum(_recurring_ns(each) for each in evaluations), process.loop_ns)
    high_ns = min(evaluate_ns + _again_ns(process, evaluations), process.loop_ns)
    gain = Gain(round(EVALUATION_OFTEN_LIKELY * evaluate_ns), high_ns, process.loop_ns)
    is_often = sum(evaluation.count for evaluation in evaluations) >= _LEAST
    if not trains or not is_often or evaluate_ns < limits.evaluation_ratio * process.loop_ns:
        return None
    longest = max(evaluations, key=_recurring_ns)
    compiled = [Evidence("compiled in the first of them", time_ns=longest.once_ns)]
    return Finding(
        title="Training waits while the model is evaluated",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                f"{longest.name}, {longest.count:,} times",
                time_ns=longest.total_ns,
                source=longest.source,
            ),
            Evidence("each", time_ns=_recurring_ns(longest) // longest.count),
            *(compiled if longest.once_ns else ()),
            Evidence("shown by", command="tfprobe report"),
        ),
        action="Evaluate at every Nth epoch (validation_freq=N; an Estimator: throttle_secs), on "
        "fewer batches (validation_steps), or on larger ones (validation_batch_size).",
        gain=gain,
        part="evaluation",
    )


def _recurring_ns(evaluation: ActivityInSteps) -> int:
    return max(evaluation.total_ns - evaluation.once_ns, 0)


def _again_ns(process: ProcessAnalysis, evaluations: list[ActivityInSteps]) -> int:
    """Return how long Estimators take to stop training and start it again for evaluations."""
    if isinstance(process.account, Missing):
        return 0
    calls, setups_ns = process.account.setups
    if not 1 < calls <= 1 + sum(evaluation.count for evaluation in evaluations):
        return 0
    saves_ns = process.account.ns(Category.CHECKPOINTS)
    return (setups_ns + saves_ns) * (calls - 1) // calls


# With a data set that repeats, the end of an epoch of Keras 3 took 1 to 2 ms instead of 250.
EPOCH_ENDS_LIKELY = 0.9
_EPOCH_ENDS_SHOWN = 2


def epoch_ends(process: ProcessAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if the ends of epochs take long, compared with the whole process."""
    ends = process.epoch_ends
    if isinstance(ends, Missing):
        return ends
    high_ns = sum(end.ns for end in ends)
    gain = process.of_wall(high_ns, round(EPOCH_ENDS_LIKELY * high_ns))
    if not ends or gain.high_ratio < limits.epoch_ends_ratio:
        return None
    times = max(end.times for end in ends)
    return Finding(
        title=f"The ends of {times:,} epochs take long",
        severity=limits.severity(gain),
        evidence=(
            *(
                Evidence(end.what, time_ns=end.ns, source=end.source)
                for end in ends[:_EPOCH_ENDS_SHOWN]
            ),
            Evidence("per epoch end", time_ns=high_ns // times),
        ),
        action="Train from a data set that continues over all epochs, so that its iterator is "
        "created once: Dataset.from_tensor_slices(...).shuffle(N).repeat().batch(B).prefetch(2), "
        "with steps_per_epoch.",
        gain=gain,
        part="epoch_ends",
    )


# At every Nth step, in another thread, or left out: each saves most of it.
PYTHON_BETWEEN_STEPS_LIKELY = 0.5
_NS_PER_US = 1000
# In Keras' own loops, other rules look at callbacks, data adapters and Keras itself.
_OF_KERAS = ("fit", "evaluate", "predict")
# One read is a loss; more read a tensor element by element.
_READS_LEAST = 8


class _Remedy(NamedTuple):
    """What Python does in that time, what to do about it, and the likely part of the gain."""

    what: str
    action: str
    likely: float = PYTHON_BETWEEN_STEPS_LIKELY


_REMEDIES: Mapping[LineKind, _Remedy] = {
    LineKind.SLEEP: _Remedy("sleeps", "Remove the sleep, or let another thread wait."),
    LineKind.SUBPROCESS: _Remedy(
        "starts other programs",
        "Start them in the background (Popen without waiting for it), or at every Nth step.",
    ),
    LineKind.SYNC_TO_DISK: _Remedy(
        "waits for the disk",
        "Leave out os.fsync, or write at every Nth step or in another thread.",
    ),
    LineKind.COLLECTION: _Remedy(
        "collects garbage",
        "Leave out gc.collect(), or call it once per epoch. `tfprobe memory` shows what keeps "
        "memory.",
    ),
    LineKind.LOCK: _Remedy(
        "computes, or waits for a lock that it takes",
        "Hold the lock for a shorter time in the other thread, or pass data through a queue.",
    ),
    LineKind.READS: _Remedy(
        "reads tensors element by element",
        "Read a whole tensor once: loss.numpy() or loss.numpy().tolist(), at every Nth step.",
    ),
    LineKind.OUTPUT: _Remedy(
        "writes logs or files", "Write at every Nth step, or in another thread."
    ),
    # A server waits for requests; only a training loop loses that time.
    LineKind.WAIT: _Remedy(
        "waits for another thread or process",
        "Nothing to gain where it serves requests; otherwise let the others work ahead.",
        0.0,
    ),
    LineKind.NETWORK: _Remedy(
        "waits for the network",
        "Nothing to gain where it serves requests; otherwise use another thread for the network.",
        0.0,
    ),
    LineKind.OPS: _Remedy(
        "runs ops of JAX one by one",
        "Put them into the compiled function of the step, or into one of their own under jax.jit: "
        "each op costs some 20 us of Python and a program of its own. Batches can be made with "
        "NumPy.",
    ),
    LineKind.PYTHON: _Remedy(
        "computes",
        "Do it once before the loop, with NumPy or TensorFlow on whole arrays, in a tf.data "
        "pipeline, or at every Nth step.",
    ),
}


def python_between_steps(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if lines of the job take long between steps; the bound is their time.

    The length of gaps comes from all steps, the shares of lines from the gaps that were watched. In
    a loop of PyTorch from one update to the next, what is between updates is inside of steps.
    """
    if loop.timing.kind == _OF_UPDATES:
        return _inside_steps(loop, limits)
    python = loop.python
    if isinstance(python, Missing):
        return python
    lines = tuple(line for line in python.lines if _counts(line) and not _is_step(python, line))
    if loop.process.runs_jax_eagerly:
        lines = tuple(line for line in lines if not line.runs_ops)  # of eager_loop
    if loop.timing.kind in _OF_KERAS or not lines or lines[0].kind is LineKind.GRAPH:
        return None
    if loop.timing.usual_gap_ns < limits.python_us * _NS_PER_US:
        return None
    longest, total_ratio = lines[0], sum(line.ratio for line in lines)
    is_most = longest.ratio > total_ratio / 2
    remedy = _REMEDIES[longest.kind if is_most else LineKind.PYTHON]
    gain_ns = loop.python_gap_ns * (longest.ratio if is_most else total_ratio)
    gain = loop.gain(gain_ns, remedy.likely * gain_ns)
    if gain.high_ratio < limits.python_ratio:
        return None
    return Finding(
        title=f"Between steps Python {remedy.what}",
        severity=limits.severity(gain),
        evidence=(*_evidence(loop, python, lines), loop.shown_by("breakdown")),
        action=remedy.action,
        gain=gain,
        part="sync" if longest.kind is LineKind.READS else "between",
    )


_OF_UPDATES = "optimizer_step"


def _inside_steps(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if functions of the job take long in steps without training anything."""
    lines = loop.inside
    if isinstance(lines, Missing) or not lines:
        return lines if isinstance(lines, Missing) else None
    longest, total_ratio = lines[0], sum(line.ratio for line in lines)
    is_most = longest.ratio > total_ratio / 2
    remedy = _REMEDIES[longest.kind if is_most else LineKind.PYTHON]
    gain_ns = loop.timing.regular_step_ns * min(longest.ratio if is_most else total_ratio, 1.0)
    gain = loop.gain(gain_ns, remedy.likely * gain_ns)
    if gain.high_ratio < limits.python_ratio:
        return None
    a_step_ns = loop.timing.regular_step_ns / max(loop.timing.steps, 1)
    # In one step, a function in which the process lost its CPU looks like one that takes long.
    is_single = len(loop.traced_steps) == 1
    severity = limits.severity(gain)
    does = "reads many values of tensors" if longest.kind is LineKind.READS else remedy.what
    return Finding(
        title=f"Inside steps Python {does if is_most else remedy.what}",
        severity=min(severity, Severity.WARNING) if is_single else severity,
        evidence=(
            *(
                Evidence(
                    f"{line.what}{_often(line.calls)}",
                    time_ns=round(line.ratio * a_step_ns),
                    source=line.source,
                )
                for line in lines[:_SHOWN]
                if line.ratio >= limits.python_ratio / 2
            ),
            *loop.traced_step(),
            *([ONE_STEP] if is_single else []),
            loop.shown_by("breakdown"),
        ),
        action=remedy.action,
        gain=gain,
        part="sync" if is_most and longest.kind is LineKind.READS else "between",
    )


def _often(calls: int) -> str:
    """Say how often something is called, nothing of what is no call, or no call of each step."""
    return f", {calls:,} time{'' if calls == 1 else 's'} in a step" if calls else ""


def _counts(line: PythonLine) -> bool:
    return line.kind is not LineKind.READS or line.calls >= _READS_LEAST


def _is_step(python: GapPython, line: PythonLine) -> bool:
    """Say whether a line is the call of the step itself, and not another call in the same line."""
    return line.source == python.step_source and line.what.endswith(" itself")


def _evidence(
    loop: LoopAnalysis, python: GapPython, lines: tuple[PythonLine, ...]
) -> tuple[Evidence, ...]:
    a_gap_ns = loop.python_gap_ns / max(loop.timing.steps, 1)
    watched = f"{python.gaps} watched gap{'' if python.gaps == 1 else 's'}"
    return (
        *(
            Evidence(
                f"{line.what} takes {much(line.ratio, 1)} of the time between steps; per step"
                if line is lines[0]
                else f"{line.what} per step",
                time_ns=round(line.ratio * a_gap_ns),
                source=line.source,
            )
            for line in lines[:_SHOWN]
        ),
        Evidence(f"lengths from all {loop.timing.steps:,} steps, shares from {watched}"),
    )
