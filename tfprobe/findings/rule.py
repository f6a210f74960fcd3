"""Say what a rule is, and what it looks at: results of the analysis for processes and loops.

Times are in ns; those per step are means over the traced steps. A result that a recording does not
give is `Missing`, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tfprobe.analysis.account.account import Account
from tfprobe.analysis.account.categories import Category
from tfprobe.analysis.account.ledger import Item
from tfprobe.analysis.breakdown.python_lines import GapPython, PythonLine, TensorReads
from tfprobe.analysis.breakdown.step_parts import LABELS, Part
from tfprobe.analysis.core.releases import PARALLEL_BATCH, STEPS_PER_EXECUTION, Release, is_before
from tfprobe.analysis.distributed.slow_ranks import Straggler
from tfprobe.analysis.input.step_input import StepInput
from tfprobe.analysis.memory.allocator_levels import DeviceMemory
from tfprobe.analysis.memory.program_memory import KeptTwice
from tfprobe.analysis.ops.device_ops import DataLayout, Precision
from tfprobe.analysis.ops.graph_costs import CodeCost, GraphLoop
from tfprobe.analysis.ops.step_ops import StepOps
from tfprobe.analysis.steps.cycle_shares import CycleShares
from tfprobe.analysis.steps.loop_timing import LoopTiming
from tfprobe.analysis.steps.recompilations import BreakSite, Recompiled
from tfprobe.analysis.steps.unexpected_steps import UnexpectedSteps
from tfprobe.analysis.system.application import ActivityInSteps
from tfprobe.analysis.system.machine_use import MachineUse
from tfprobe.analysis.system.thread_times import StepThreads
from tfprobe.analysis.transfers.bus_transfers import StepCopies
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Gain, Subject
from tfprobe.findings.thresholds import Thresholds
from tfprobe.profile.profile import GRADIENT_KIND, JAX_KINDS, TORCH_KINDS, OwnProfiler

TENSORFLOW = "tensorflow"
NOT_CHECKED = Missing("it was not checked")
NO_CAPTURE = Missing("no step was traced")
ONE_STEP = Evidence("from one traced step")
# Where a mean step takes so many times as long as a traced one, which tracing makes longer, most of
# the time is in steps of which no trace says what they do.
_LONGER_RATIO = 3.0
_WHOLE_KINDS = frozenset({"eager", "optimizer_step"})
# Python takes a smaller share of the cycle between steps in any case.
_GIL_RATIO = 0.2
_WITHOUT_GIL = ("fetch", "idle")
# A trace says how long an op ran, not on how many threads: on one, or on several if it is large.
_CPUS_PER_OP = 2


def much(part: float, whole: float) -> str:
    """Say how much of a whole a part is: "most" is more than half."""
    return "most" if part > whole / 2 else "a significant part"


def part_label(name: str) -> str:
    """Return what people call a part of a cycle."""
    return LABELS[Part(name)]


@dataclass(frozen=True, slots=True)
class TracedStep:
    """A traced step: its number, and its capture below the run directory."""

    step: int
    capture: str


@dataclass(frozen=True, slots=True)
class ProcessAnalysis:
    """The results for one process.

    `group` is that of the Process: processes with the same one work on the same job. `release` has
    the first two numbers of TensorFlow's version, `account` what the wall time went to. `functions`
    are those whose calls are steps. `own_profiler` is one that the job itself left open. `loop_ns`
    is the time of the thread whose steps and gaps take longest. `recompiled` are the functions that
    JAX or torch.compile compiled more than once, `breaks` the lines at which graphs of the latter
    break. `trains`: some loop updates a model of PyTorch, between whose updates calls of modules
    are evaluations. `is_of_jax`: all of its loops are of JAX. `runs_jax_eagerly`: the one with most
    time takes gradients outside of a compiled function.
    """

    subject: Subject
    overhead_ns: int | Missing
    wall_ns: int
    settings: Mapping[str, Any] | Missing
    activities: tuple[ActivityInSteps, ...]
    machine: MachineUse | Missing
    device_memory: tuple[DeviceMemory, ...] = ()
    has_accelerator: bool = False
    loop_ns: int = 0
    group: int = 0
    release: Release | Missing = NOT_CHECKED
    account: Account | Missing = NOT_CHECKED
    functions: frozenset[str] = frozenset()
    own_profiler: OwnProfiler | None = None
    threads: StepThreads | Missing = NOT_CHECKED
    recompiled: tuple[Recompiled, ...] = ()
    trains: bool = False
    breaks: tuple[BreakSite, ...] = ()
    is_of_jax: bool = False
    runs_jax_eagerly: bool = False
    ppid: int | None = None

    def of_wall(self, high_ns: int, low_ns: int) -> Gain:
        """Return a gain of the whole process, of its wall time from exec to exit."""
        wall_ns = self.wall_ns if isinstance(self.account, Missing) else self.account.wall_ns
        high = min(high_ns, wall_ns)
        return Gain(min(low_ns, high), high, wall_ns)

    @property
    def epoch_ends(self) -> tuple[Item, ...] | Missing:
        """What the ends of epochs take; the return of the last call, which comes once, is none."""
        if isinstance(self.account, Missing):
            return self.account
        return tuple(item for item in self.account.items(Category.EPOCH_ENDS) if item.times > 1)

    @property
    def has_steps_per_execution(self) -> bool:
        """Say whether its Keras takes that argument, outside graph mode."""
        return not is_before(self.release, STEPS_PER_EXECUTION)

    @property
    def has_parallel_batch(self) -> bool:
        """Say whether Dataset.batch of its TensorFlow takes num_parallel_calls."""
        return not is_before(self.release, PARALLEL_BATCH)


@dataclass(frozen=True, slots=True)
class LoopAnalysis:
    """The results for one loop. `key` is the number of its process, and its own in that process.

    `is_main`: no loop of its process takes more time. `nodes` are those of its graph that compute.
    `slow` is there if its process is slow among the others that run it. `double_precision` are
    ops of the host in 64 bits, `dense_gradients` those on whole tables of which few rows are looked
    up, `one_hot_products` one-hot vectors and products with them. `ops_source` is the line of the
    job that made most of its ops, `repeated_source` the one that calls ops in a loop, `save_source`
    one that was seen saving between its steps, `called_at` the one that ran the traced steps,
    `waits_source` the one that waits most often for a step that its call only queued.
    `is_pytorch`: its ops are PyTorch's; then `inside` are functions of the job that take long
    inside steps, and `loader` has the time of stages of its DataLoader per step, with their lines.
    `layout` and `precision` are None without an accelerator, `kept_twice` without a program of XLA.
    """

    subject: Subject
    process: ProcessAnalysis
    timing: LoopTiming
    key: tuple[int, int] = (0, 0)
    is_main: bool = True
    traced_steps: tuple[TracedStep, ...] = ()
    outliers: UnexpectedSteps | Missing = NOT_CHECKED
    parts: CycleShares | Missing = NO_CAPTURE
    ops: StepOps | Missing = NO_CAPTURE
    scopes: tuple[CodeCost, ...] | Missing = NO_CAPTURE
    lines: tuple[CodeCost, ...] | Missing = NO_CAPTURE
    reads: TensorReads | Missing = NOT_CHECKED
    python: GapPython | Missing = NOT_CHECKED
    inside: tuple[PythonLine, ...] | Missing = NOT_CHECKED
    loader: Mapping[tuple[str, str], int] = field(default_factory=dict)
    double_precision: CodeCost | Missing = NOT_CHECKED
    dense_gradients: CodeCost | Missing = NOT_CHECKED
    one_hot_products: CodeCost | Missing = NOT_CHECKED
    graph_loop: GraphLoop | Missing = NOT_CHECKED
    copies: tuple[StepCopies, ...] | Missing = ()
    input: StepInput | Missing = NOT_CHECKED
    nodes: int | Missing = NOT_CHECKED
    ops_source: str = ""
    repeated_source: str = ""
    save_source: str = ""
    called_at: str = ""
    slow: Straggler | None = None
    is_pytorch: bool = False
    waits_source: str = ""
    kept_twice: KeptTwice | Missing | None = None
    layout: DataLayout | Missing | None = None
    precision: Precision | Missing | None = None

    def gain(self, high_ns: float, low_ns: float) -> Gain:
        """Return a gain of the thread of this loop; at most all of its time."""
        whole_ns = self.timing.thread_ns
        high = min(round(high_ns), whole_ns)
        return Gain(min(round(low_ns), high), high, whole_ns)

    @property
    def framework(self) -> str:
        """Return the framework that runs its steps: tensorflow, pytorch or jax."""
        if self.is_pytorch or self.timing.kind in TORCH_KINDS:
            return "pytorch"
        is_jax = self.timing.queue is not None or self.timing.kind in JAX_KINDS
        return "jax" if is_jax else TENSORFLOW

    @property
    def is_gradient(self) -> bool:
        """Say whether its steps are gradients of JAX outside of a compiled function."""
        return self.timing.kind == GRADIENT_KIND

    @property
    def python_gap_ns(self) -> float:
        """Return the time between steps that is divided among lines as watched gaps are.

        If JAX runs op by op, the first gaps compile ops, which is no line's own.
        """
        timing = self.timing
        if not self.process.runs_jax_eagerly:
            return timing.regular_gap_ns
        return min(timing.regular_gap_ns, timing.usual_gap_ns * timing.steps)

    @property
    def loop_source(self) -> str:
        """Return the line of the job that runs the steps, "" where none was seen."""
        watched = self.python.loop_source if isinstance(self.python, GapPython) else ""
        return watched or self.called_at

    @property
    def alone_step_ns(self) -> float:
        """Return the usual step without the part in which its thread was ready and had no CPU.

        A small step takes long where other processes use the CPUs, but what it does is as little.
        """
        threads = self.process.threads
        delay_ratio = 0.0 if isinstance(threads, Missing) else min(threads.delay_ratio, 1.0)
        return self.timing.usual_step_ns * (1 - delay_ratio)

    @property
    def gil_wait_ns(self) -> float:
        """Return how long all steps wait for the GIL because Python code makes the input.

        0 unless that code takes a fifth of the cycle, and as much of the cycle lies outside of ops.
        """
        if isinstance(self.input, Missing) or isinstance(self.parts, Missing):
            return 0.0
        least_ns = _GIL_RATIO * self.parts.cycle_ns
        outside_ns = self.parts.of_all_steps(*_WITHOUT_GIL)
        if self.input.python_ns < least_ns or self.parts.ratio(*_WITHOUT_GIL) < _GIL_RATIO:
            return 0.0
        return min(self.input.python_ns * self.timing.steps, outside_ns)

    @property
    def input_cpu_ns(self) -> float:
        """Return how long ops of the input may delay all steps by using CPUs that these need.

        Of n CPUs an op of the input takes one, or two at most: it counts as that part of the time
        in which it ran, as if the step stood still meanwhile.
        """
        machine, parts, ops = self.process.machine, self.parts, self.ops
        if isinstance(machine, Missing) or isinstance(machine.cpus, Missing):
            return 0.0
        if isinstance(parts, Missing) or isinstance(ops, Missing) or ops.has_accelerator:
            return 0.0
        taken_ns = _CPUS_PER_OP * ops.concurrent_ns / max(machine.cpus, 1.0)
        taken_ns = min(ops.concurrent_busy_ns, taken_ns)
        # Steps that do not compute have no use for more CPUs.
        return min(self.of_steps(taken_ns), parts.of_all_steps("host_compute", "idle"))

    def of_steps(self, ns_a_step: float) -> float:
        """Return the time over all steps of what takes this long in a traced step.

        Traced steps are slower than others: what they spend is scaled to what all steps took.
        """
        if isinstance(self.ops, Missing) or not self.ops.step_ns:
            return ns_a_step * self.timing.steps
        return ns_a_step / self.ops.step_ns * self.timing.regular_step_ns

    @property
    def longer_steps(self) -> Evidence | None:
        """Say by how much steps are longer than the traced ones, None if these can stand for all.

        Looked at are loops whose steps last until the next one, and so have all that a program
        does, such as an episode or a document of any length. A call varies less.
        """
        is_whole = self.timing.kind in _WHOLE_KINDS and self.timing.queue is None
        if isinstance(self.ops, Missing) or not is_whole:
            return None
        mean_ns = self.timing.regular_step_ns / max(self.timing.steps, 1)
        if mean_ns < _LONGER_RATIO * self.ops.step_ns:
            return None
        return Evidence(
            f"the traced steps took {self.ops.step_ns / 1e6:.3g} ms, and do not show what is in "
            "longer ones; mean step",
            time_ns=round(mean_ns),
        )

    @property
    def is_of_session(self) -> bool:
        """Say whether its traced steps ran in a Session, as all steps of Keras in graph mode do."""
        return any(step.capture.endswith(".run_metadata.pb") for step in self.traced_steps)

    def traced_step(self) -> tuple[Evidence, ...]:
        """Return a traced step to open, where there is one."""
        if not self.traced_steps:
            return ()
        last = self.traced_steps[-1]
        return (Evidence("a traced step", step=last.step, capture=last.capture),)

    def shown_by(self, command: str) -> Evidence:
        """Return the command that shows more of it."""
        return Evidence("shown by", command=f"tfprobe {command}")


@dataclass(frozen=True, slots=True)
class RunAnalysis:
    """The results for all processes of a run, or for some of them.

    `longest_traced_ns` is the time of the steps of the loop with most time of those that were
    traced; None where no step was. `undivided` are loops whose steps have no times, left out of
    `loops` where rules look at them.
    """

    processes: tuple[ProcessAnalysis, ...]
    loops: tuple[LoopAnalysis, ...]
    longest_traced_ns: int | None = None
    undivided: tuple[LoopAnalysis, ...] = ()

    def __iter__(self) -> Iterator[LoopAnalysis]:
        return iter(self.loops)


# A finding; why there can be none; or nothing to say.
Verdict = Finding | Missing | None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; a function in `rules` has its name. `is_of_traces`: it needs traced steps."""

    name: str
    check: Callable[[RunAnalysis, Thresholds], Iterator[Verdict]]
    is_of_traces: bool = False


def of_loops(
    name: str, check: Callable[[LoopAnalysis, Thresholds], Verdict], *, is_of_traces: bool = True
) -> Rule:
    """Return a rule that looks at each loop by itself, mostly at its traced steps."""

    def check_all(run: RunAnalysis, limits: Thresholds) -> Iterator[Verdict]:
        for loop in run.loops:
            found = check(loop, limits)
            yield replace(found, subject=loop.subject) if isinstance(found, Finding) else found

    return Rule(name, check_all, is_of_traces)


def of_processes(name: str, check: Callable[[ProcessAnalysis, Thresholds], Verdict]) -> Rule:
    """Return a rule that looks at each process by itself."""

    def check_all(run: RunAnalysis, limits: Thresholds) -> Iterator[Verdict]:
        for process in run.processes:
            found = check(process, limits)
            yield replace(found, subject=process.subject) if isinstance(found, Finding) else found

    return Rule(name, check_all)


def lacking(*results: object) -> Missing:
    """Return the first of these results that is missing."""
    return next(result for result in results if isinstance(result, Missing))
