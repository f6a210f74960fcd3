"""Find graphs that are retraced, grow, or loop over small ops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfprobe.analysis.account.categories import Category
from tfprobe.analysis.breakdown.python_lines import LineKind, PythonLine
from tfprobe.analysis.ops.graph_costs import GraphLoop
from tfprobe.analysis.steps.loop_timing import LEAST_UNTRACED
from tfprobe.analysis.system.application import ActivityInSteps
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Gain, Severity
from tfprobe.findings.rule import LoopAnalysis, ProcessAnalysis, RunAnalysis, Verdict, lacking
from tfprobe.findings.rules.compilations import (
    breaks_of,
    evidence_of,
    remedy_of,
    remedy_of_breaks,
    title_of,
)
from tfprobe.findings.thresholds import Thresholds

# One trace for all shapes is usually possible; slow steps may have other reasons as well.
LIKELY = 0.5
# As measured: the first run also allocates memory and prepares kernels of libraries.
_LATER_RUN = 0.2
# Functions that are traced to save and restore.
OF_TENSORFLOW = frozenset(
    {
        "_traced_save",
        "_traced_restore",
        "serving_default",
        "restored_function_body",
        "signature_wrapper",
    }
)


def retracing(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding for many traces of a function.

    The bound is how much longer than the median of the others the slowest steps took, as many as
    there were traces after the first: a trace happens within a step. If nearly every step was
    traced, it is how much longer they took than a fifth of the time of their ops: when a function
    runs for the first time, ops take two to four times as long as later.
    """
    timing = loop.timing
    # TensorFlow makes these again for each checkpoint or export: no argument of the job varies.
    if timing.retraces < limits.retraces_least or timing.name in OF_TENSORFLOW:
        return None
    gain_ns = timing.retrace_ns
    if timing.untraced < LEAST_UNTRACED and not isinstance(loop.ops, Missing):
        gain_ns = max(gain_ns - round(_LATER_RUN * loop.ops.busy_ns * timing.retraces), 0)
    gain = loop.gain(gain_ns, LIKELY * gain_ns)
    if gain.high_ratio < limits.retrace_ratio:
        return None
    steps = ", ".join(map(str, timing.slowest_steps))
    return Finding(
        title="A function is retraced repeatedly",
        severity=limits.severity(gain),
        evidence=(
            Evidence(f"{timing.retraces:,} traces after the first, in {timing.steps:,} steps"),
            Evidence("each, beyond a typical step", time_ns=gain_ns // timing.retraces),
            Evidence(f"the slowest steps on record: {steps}", steps=tuple(timing.slowest_steps)),
            *_called_at(loop),
            loop.shown_by("steps"),
        ),
        action="If a Python number changes between calls, pass a tensor (tf.constant(step)): each "
        "number causes a trace. If shapes change: tf.function(reduce_retracing=True), an "
        "input_signature with None for what varies, .batch(..., drop_remainder=True), or padding "
        "to a few lengths. If it is another object each time, create the function once, outside "
        "of the loop.",
        gain=gain,
        part="compile",
    )


def _called_at(loop: LoopAnalysis) -> tuple[Evidence, ...]:
    """Return the line that calls the function."""
    python = loop.python
    if isinstance(python, Missing) or loop.timing.kind != "function" or not python.step_source:
        return ()
    return (Evidence("called at", source=python.step_source),)


# Some shapes have to be compiled for, whatever is done.
RECOMPILING_LIKELY = 0.8


def recompiling(process: ProcessAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if functions of JAX or torch.compile are compiled again and again.

    The bound is the time of all compilations but the first of each: tracing, lowering and backend.
    """
    found = [each for each in process.recompiled if each.count - 1 >= limits.retraces_least]
    found = [each for each in found if each.compiler == found[0].compiler]
    high_ns = sum(each.further_ns for each in found)
    gain = process.of_wall(high_ns, round(RECOMPILING_LIKELY * high_ns))
    if not found or gain.high_ratio < limits.retrace_ratio:
        return None
    return Finding(
        title=title_of(found[0]),
        severity=limits.severity(gain),
        evidence=(
            *evidence_of(found, process.breaks),
            Evidence("shown by", command="tfprobe steps"),
        ),
        action=remedy_of(found[0]),
        gain=gain,
        part="tracing",
    )


# Python and the checks of guards at a break are not all that is idle between ops.
GRAPH_BREAKS_LIKELY = 0.5


# Ops in which PyTorch looks for compiled code and prepares its arguments.
_WRAPPERS = ("TorchDynamo Cache Lookup", "AOTDispatcher Runtime Wrapper Prologue")


def graph_breaks(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if the graphs of torch.compile break, and steps are idle between their ops.

    The bound is the time in which traced steps run no op, or one that only prepares compiled code,
    scaled to all steps. Breaks of functions that only other loops call do not count.
    """
    if loop.framework != "pytorch" or not loop.is_main:
        return None
    sites = [site for site in loop.process.breaks if site.loop in (None, loop.key[1])]
    if not sites:
        return None
    if isinstance(loop.parts, Missing):
        return loop.parts
    idle_ns = loop.parts.of_all_steps("idle") + _of_wrappers_ns(loop)
    gain = loop.gain(idle_ns, GRAPH_BREAKS_LIKELY * idle_ns)
    if gain.high_ratio < limits.graph_breaks_ratio:
        return None
    return Finding(
        title="Graphs of torch.compile break, and steps are idle between ops",
        severity=min(limits.severity(gain), Severity.WARNING),
        evidence=(
            *breaks_of(sites),
            Evidence("of the loop, no op computes", ratio=gain.high_ratio),
            *loop.traced_step(),
            loop.shown_by("steps"),
        ),
        action=remedy_of_breaks(sites),
        gain=gain,
        part="dispatch",
    )


def _of_wrappers_ns(loop: LoopAnalysis) -> float:
    if isinstance(loop.ops, Missing):
        return 0.0
    return loop.of_steps(sum(op.busy_ns for op in loop.ops.host if op.type in _WRAPPERS))


# Models with other shapes need traces of their own.
COMPILE_TIME_LIKELY = 0.8
_SHOWN = 3
_OF_DATASETS = "Dataset_"
_MAKING = ("build", "compile")
_MODELS = (
    "Each new or recompiled model traces its own step. Create and compile one model and set its "
    "weights (model.set_weights), or train small models in parallel processes; for a few steps, "
    "run_eagerly=True is faster."
)
_DATASETS = (
    "Each call creates a new tf.data pipeline. Create the data set once, outside of the loop; "
    "instead of predict and evaluate in a loop, call the model itself: model(x, training=False)."
)


def compile_time(process: ProcessAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if functions of the same name are traced often.

    The bound is the time of all traces but the first, in the whole process. If models cause them,
    it includes making models, and first steps, in which TensorFlow optimizes what was traced.
    Traces of functions that save are part of saving; `retracing` looks at functions that are steps,
    and `recompiling` at what JAX traces.
    """
    traces = [activity for activity in process.activities if _counts(process, activity, limits)]
    if not traces:
        return None
    traces.sort(key=lambda trace: -_further_ns(trace))
    high_ns = min(_bound_ns(process, traces), process.wall_ns)
    gain = Gain(round(COMPILE_TIME_LIKELY * high_ns), high_ns, process.wall_ns)
    if gain.high_ratio < limits.trace_ratio:
        return None
    return Finding(
        title="Functions are retraced for each model or call",
        severity=limits.severity(gain),
        evidence=(
            *(
                Evidence(
                    f"{trace.name}, traced {trace.count:,} times",
                    time_ns=trace.own_ns,
                    source=trace.source,
                )
                for trace in traces[:_SHOWN]
            ),
            Evidence("shown by", command="tfprobe report"),
        ),
        action=_DATASETS if traces[0].name.startswith(_OF_DATASETS) else _MODELS,
        gain=gain,
        part="tracing",
    )


def _counts(process: ProcessAnalysis, use: ActivityInSteps, limits: Thresholds) -> bool:
    if use.kind != "trace" or use.count <= limits.retraces_least:
        return False
    is_own = use.name in process.functions
    # what JAX traces, it lowers as well
    is_jax = any(other.kind == "lower" and other.name == use.name for other in process.activities)
    # ... unless it is a part of something else
    is_jax = is_jax or (process.is_of_jax and not use.name.startswith(_OF_DATASETS))
    return not is_own and not is_jax and not use.name.startswith(tuple(OF_TENSORFLOW))


def _bound_ns(process: ProcessAnalysis, traces: Sequence[ActivityInSteps]) -> int:
    further_ns, longest = sum(map(_further_ns, traces)), traces[0]
    if isinstance(process.account, Missing) or longest.name.startswith(_OF_DATASETS):
        return further_ns
    others = sum(
        activity.own_ns
        for activity in process.activities
        if activity.kind == "trace" and activity not in traces
    )
    compiling_ns = process.account.ns(Category.COMPILE) - others
    made = (
        activity
        for activity in process.activities
        if activity.kind in _MAKING and activity.count > 1
    )
    compiling_ns = max(further_ns, round(compiling_ns * (longest.count - 1) / longest.count))
    return compiling_ns + sum(map(_further_ns, made))


def _further_ns(use: ActivityInSteps) -> int:
    return round(use.own_ns * (use.count - 1) / use.count)


# Ops that are built once cost nothing later, except for what they compute.
GROWING_GRAPH_LIKELY = 0.8
_SESSION = ("session_run", "callable")
_MOST_STEPS = 2
# After some hundred different runs, the agent counts all further ones as one loop of this name.
_FURTHER = "(further works)"
# An initialization, a restore or a last evaluation happens at one time, not throughout the loop. If
# steps are spread evenly, half of them take half of the loop.
_HALF_OF_THEM = 0.25


def growing_graph(run: RunAnalysis, limits: Thresholds) -> Iterator[Verdict]:
    """Give a finding for each process that makes ops between steps of a Session.

    Either a watched gap shows it, or steps that each fetch something new occur throughout the loop:
    a gap in which ops are made once in a hundred steps is seldom watched.

    The bound is the time to make them, and that of all steps that fetch what no other step does:
    such a step extends the graph, which is placed and optimized again.
    """
    for process in run.processes:
        loops = [
            loop
            for loop in run.loops
            if loop.process.subject == process.subject and loop.timing.kind in _SESSION
        ]
        yield _of_process(process, loops, limits)


def _of_process(
    process: ProcessAnalysis, loops: Iterable[LoopAnalysis], limits: Thresholds
) -> Verdict:
    loops = tuple(loops)
    made = [(loop, line) for loop in loops for line in _made(loop)]
    once = [loop for loop in loops if _is_once(loop)]
    count = sum(loop.timing.steps for loop in once)
    if count < limits.graph_steps_least or not (made or _are_spread(once)):
        return None
    # All are lines of the same gaps: the loop with most time between its steps stands for all.
    making_ns = max((loop.timing.regular_gap_ns * line.ratio for loop, line in made), default=0.0)
    high_ns = round(making_ns + sum(loop.timing.step_ns for loop in once))
    high_ns = min(high_ns, process.loop_ns)
    gain = Gain(round(GROWING_GRAPH_LIKELY * high_ns), high_ns, process.loop_ns)
    if gain.high_ratio < limits.python_ratio:
        return None
    return Finding(
        title="The graph grows during training",
        severity=limits.severity(gain),
        evidence=(
            *_making(made, making_ns),
            Evidence(f"{count:,} steps fetch what no other step does, such as {_name(once[-1])}"),
            Evidence("shown by", command="tfprobe breakdown"),
        ),
        action="Build all ops before the loop and feed what changes through a placeholder; "
        "after graph.finalize(), the line that adds more raises an error.",
        gain=gain,
        part="graph",
        subject=process.subject,
    )


def _name(loop: LoopAnalysis) -> str:
    return loop.timing.name.split(",")[0]


def _making(made: list[tuple[LoopAnalysis, PythonLine]], making_ns: float) -> Iterator[Evidence]:
    if made:
        _, line = max(made, key=lambda pair: pair[0].timing.regular_gap_ns * pair[1].ratio)
        yield Evidence("ops are made between steps", time_ns=round(making_ns), source=line.source)


def _are_spread(once: list[LoopAnalysis]) -> bool:
    """Say whether these steps occur throughout the loop of their thread."""
    seen_ns = sorted(loop.timing.first_seen_ns for loop in once if loop.timing.first_seen_ns)
    if not seen_ns:
        return False
    quarter = len(seen_ns) // 4
    half_ns = seen_ns[-1 - quarter] - seen_ns[quarter]
    return half_ns >= _HALF_OF_THEM * max(loop.timing.thread_ns for loop in once)


def _made(loop: LoopAnalysis) -> Iterator[PythonLine]:
    if not isinstance(loop.python, Missing):
        line = loop.python.of_kind(LineKind.GRAPH)
        if line is not None:
            yield line


def _is_once(loop: LoopAnalysis) -> bool:
    return loop.timing.steps <= _MOST_STEPS or loop.timing.name == _FURTHER


# On an accelerator such ops are bound by memory: fused, a chain of them reads and writes it once. A
# chain of four takes a quarter of the time; longer ones are rare.
BOUND = 0.75
_XLA_OPS = ("_XlaRun", "_XlaCompile", "XlaLaunch", "_XlaMerge")


def xla_off(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if fusible ops of an accelerator take long; the bound is most of their time.

    On CPUs, grappler and oneDNN fuse common patterns already: XLA made a long chain of element-wise
    ops a third slower there.
    """
    if isinstance(loop.ops, Missing):
        return loop.ops
    if not loop.ops.has_accelerator:
        return None
    settings = loop.process.settings
    if isinstance(settings, Missing):
        return settings
    gain_ns = loop.of_steps(loop.ops.fusible_ns)
    gain = loop.gain(BOUND * gain_ns, LIKELY * gain_ns)
    if _is_on(settings, loop) or loop.gain(gain_ns, 0).high_ratio < limits.fusible_ratio:
        return None
    return Finding(
        title="XLA is off; it would fuse element-wise ops",
        severity=limits.severity(gain),
        evidence=(
            Evidence("element-wise ops per step", time_ns=round(loop.ops.fusible_ns)),
            *loop.traced_step(),
            loop.shown_by("op"),
        ),
        action="Try TF_XLA_FLAGS='--tf_xla_auto_jit=2', or jit_compile=True for the step. Shapes "
        "that change from step to step are compiled again each time.",
        gain=gain,
        part="fusible",
    )


def _is_on(settings: Mapping[str, Any], loop: LoopAnalysis) -> bool:
    flags = str((settings.get("environment") or {}).get("TF_XLA_FLAGS", ""))
    types = () if isinstance(loop.ops, Missing) else (*loop.ops.host, *loop.ops.device)
    ran = any(use.type in _XLA_OPS for use in types)
    return bool(settings.get("jit")) or "auto_jit" in flags or ran


def while_loop(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding for a loop within the graph that has many iterations of tiny ops.

    The bound is the time in the loop in which only tiny ops run, or none. If none of its ops was
    traced, because TensorFlow found them cheap, it is the time until its result is taken.
    """
    timing = loop.graph_loop
    if isinstance(timing, Missing) or isinstance(loop.ops, Missing):
        return lacking(timing, loop.ops)
    if loop.ops.has_accelerator or 0 < timing.turns < limits.turns_least:
        return None
    gain_ns = loop.of_steps(timing.small_ns)
    # One op on whole tensors takes a small part of the time of scheduling their elements singly.
    gain = loop.gain(gain_ns, LIKELY * gain_ns)
    if gain.high_ratio < limits.turns_ratio:
        return None
    return Finding(
        title="A loop inside the step runs tiny ops",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                f"{timing.name}, {_iterations(timing)}; time with only tiny ops or no op",
                time_ns=round(timing.small_ns),
                source=timing.source,
                node=timing.name,
            ),
            *loop.traced_step(),
            loop.shown_by("op"),
        ),
        action="Compute on whole tensors in place of tf.while_loop, tf.scan or a Python loop over "
        "tensor elements: tf.cumsum, tf.reduce_sum, tf.gather, "
        "tf.vectorized_map. If an iteration needs the previous one, do more in each: larger "
        "batches, or several elements per iteration.",
        gain=gain,
        part="host_compute",
    )


def _iterations(timing: GraphLoop) -> str:
    if not timing.turns:
        return "in which no op was traced"
    return f"about {timing.turns:.0f} iterations per step"
