"""Find steps that cost more to start than to run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Gain
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import ActivitySignal, Parts, ProcessSignals, Signals, WorkSignals
from tfprobe.findings.thresholds import Thresholds

# A callable took 7 us before its first op where Session.run took 1.1 ms, for 41 fetches.
LIKELY = 0.8
_NS_PER_US = 1000
_BEFORE = "before the first op"
# Estimators and Keras make these runs themselves.
_OF_OTHERS = frozenset({"train", "evaluate", "predict"})


def session_run_cost(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where Python takes apart what to fetch for longer than ops run.

    The bound is the time from the call to the first op, or, where the usual run shows more, what it
    takes beyond its ops from the first to the last. Arrays that are fed, and results, are other
    rules'.
    """
    loop, parts = work.loop, work.parts
    if loop.kind != "session_run" or work.alone_step_ns > limits.small_step_us * _NS_PER_US:
        return None
    if isinstance(parts, Missing):
        return parts
    if any(each.kind in _OF_OTHERS for each in work.process.activities):
        return None
    before_ns = _before_ns(parts)
    gain_ns = before_ns / parts.cycle_ns * parts.total_ns if parts.cycle_ns else 0.0
    gain_ns = max(gain_ns, _around_ns(work, parts))
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    if gain.high_ratio < limits.run_cost_ratio:
        return None
    return Finding(
        title="Session.run overhead is longer than the ops it runs",
        severity=limits.severity(gain),
        evidence=(
            Evidence("typical run", time_ns=round(loop.usual_step_ns)),
            Evidence("of the loop, around its ops", ratio=gain.high_ratio, source=_line(work)),
            *work.sample(),
            work.shown_by("breakdown"),
        ),
        action="Prepare the run once, before the loop: run = session.make_callable(fetches, "
        "feed_list=[...]), with a flat list to fetch; or put several steps into one run "
        "(tf.while_loop, a data set in the graph).",
        gain=gain,
        part="dispatch",
    )


def _around_ns(work: WorkSignals, parts: Parts) -> float:
    """Return what all runs take around their ops, but for feeding and fetching."""
    if isinstance(work.ops, Missing):
        return 0.0
    ops_ns = work.ops.span_ns * work.loop.steps
    return work.loop.regular_step_ns - ops_ns - parts.of_all_steps("feed", "fetch")


def _before_ns(parts: Parts) -> float:
    return sum(cause.ns for cause in parts.causes if cause.what == _BEFORE)


def _line(work: WorkSignals) -> str:
    return "" if isinstance(work.python, Missing) else work.python.step_source


# Their ops stay, and the one run that is left has more to fetch.
MANY_RUNS_LIKELY = 0.5
_KIND = "session_run"
# Runs of one turn are as long apart, but for what chance does.
_ALIKE = 1.25
_SHOWN = 3


def many_runs(signals: Signals, limits: Thresholds) -> Iterator[Verdict]:
    """Give a finding for each loop that fetches tensors by runs of their own.

    The bound is the time of these runs but for their ops, known from those that were traced.
    """
    for process in signals.processes:
        runs = [
            work
            for work in signals.works
            if work.process.subject == process.subject
            and work.loop.kind == _KIND
            and work.loop.steps >= limits.graph_steps_least
        ]
        for turn in _turns(runs):
            yield _of_turn(process, turn, limits)


def _turns(runs: Iterable[WorkSignals]) -> Iterator[Sequence[WorkSignals]]:
    """Give works of one thread that take turns: each runs once between two runs of another."""
    turns: dict[tuple[int, int], list[WorkSignals]] = {}
    for work in runs:
        turns.setdefault((work.loop.thread_ns, work.loop.steps), []).append(work)
    for works in turns.values():
        cycles_ns = [work.loop.usual_step_ns + work.loop.usual_gap_ns for work in works]
        steps_ns = sum(work.loop.usual_step_ns for work in works)
        is_one = max(cycles_ns) <= _ALIKE * min(cycles_ns) and steps_ns <= _ALIKE * min(cycles_ns)
        if is_one:
            yield works


def _of_turn(process: ProcessSignals, turn: Sequence[WorkSignals], limits: Thresholds) -> Verdict:
    reads = [work for work in turn if _only_reads(work)]
    if len(turn) < limits.runs_least or len(reads) < limits.runs_least - 1:
        return None
    # Where nothing else is run, one of them stays.
    spare = reads if len(reads) < len(turn) else reads[1:]
    spare_ns = sum(work.loop.regular_step_ns for work in spare)
    whole_ns = turn[0].loop.thread_ns
    high_ns = min(round(spare_ns * (1 - _busy_ratio(reads))), whole_ns)
    gain = Gain(round(MANY_RUNS_LIKELY * high_ns), high_ns, whole_ns)
    if gain.high_ratio < limits.runs_ratio:
        return None
    reads.sort(key=lambda work: -work.loop.regular_step_ns)
    return Finding(
        title=f"Each iteration calls Session.run {len(turn):,} times",
        severity=limits.severity(gain),
        evidence=(
            Evidence(f"{len(reads):,} of them only fetch tensors", source=_many_runs_line(reads)),
            *(
                Evidence(
                    f"{work.loop.name}, {work.loop.steps:,} times",
                    time_ns=work.loop.regular_step_ns,
                )
                for work in reads[:_SHOWN]
            ),
            Evidence("shown by", command="tfprobe steps"),
        ),
        action="Fetch all of it in one run: session.run([train_op, loss, *metrics]). Where a value "
        "from after the update is wanted, fetch these together in a second run.",
        gain=gain,
        part="dispatch",
        subject=process.subject,
    )


def _only_reads(work: WorkSignals) -> bool:
    """Say whether a run fetches tensors: what trains or assigns may have to come by itself."""
    fetches = work.loop.name.split(", ")
    return all(":" in name and "Assign" not in name for name in fetches)


def _busy_ratio(reads: Iterable[WorkSignals]) -> float:
    """Return the share of ops in those runs that were traced, 0 where none was."""
    known = [work.ops for work in reads if not isinstance(work.ops, Missing)]
    steps_ns = sum(ops.step_ns for ops in known)
    return min(sum(ops.busy_ns for ops in known) / steps_ns, 1.0) if steps_ns else 0.0


def _many_runs_line(reads: Iterable[WorkSignals]) -> str:
    pythons = (work.python for work in reads)
    lines = (each.step_source for each in pythons if not isinstance(each, Missing))
    return next((line for line in lines if line), "")


# The methods that run these steps, and the activity that is each call of one.
_METHODS = {"fit": "train", "evaluate": "evaluate", "predict": "predict"}
# With 32 steps in one call, 31 of 32 parts of it go; callbacks at each batch keep some.
SMALL_EXECUTIONS_LIKELY = 0.5
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


def small_executions(work: WorkSignals, limits: Thresholds) -> Verdict:
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
    gain_ns = (
        _calls_ns(work, calls, limits) if is_single else _small_executions_around_ns(work, limits)
    )
    gain = work.gain(gain_ns, SMALL_EXECUTIONS_LIKELY * gain_ns)
    if gain.high_ratio < limits.between_ratio:
        return None
    return Finding(
        title="Steps are so short that the Python between them matters",
        severity=limits.severity(gain),
        evidence=(
            Evidence("typical step", time_ns=round(loop.usual_step_ns)),
            Evidence("typical gap between steps", time_ns=round(loop.usual_gap_ns)),
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


def _calls(work: WorkSignals) -> list[ActivitySignal]:
    """Return the calls of the method that runs these steps."""
    kind, name = _METHODS[work.loop.kind], f"{work.loop.name}.{work.loop.kind}"
    return [each for each in work.process.activities if (each.kind, each.name) == (kind, name)]


def _calls_ns(work: WorkSignals, calls: list[ActivitySignal], limits: Thresholds) -> float:
    """Return what calls that run a single step take but for its ops, those of small steps, too."""
    own_ns = sum(each.own_ns for each in calls)
    total_ns = sum(each.total_ns for each in calls)
    if not isinstance(work.ops, Missing):
        return max(total_ns - work.of_steps(work.ops.busy_ns), own_ns)
    is_small = work.alone_step_ns <= limits.small_step_us * _NS_PER_US
    return max(total_ns if is_small else total_ns - work.loop.step_ns, own_ns)


def _small_executions_around_ns(work: WorkSignals, limits: Thresholds) -> float:
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


# A function still dispatches ops, at a tenth of Python's price or so. All loops that were measured
# before and after won more than their time outside ops.
_OUTSIDE = ("idle", "kernel_launch", "feed", "fetch")
# What `run_eagerly` of a model is about.
_OF_MODELS = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")


def eager_loop(work: WorkSignals, limits: Thresholds) -> Verdict:
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
            Evidence("share of the cycle outside ops", ratio=work.parts.ratio(*_OUTSIDE)),
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
