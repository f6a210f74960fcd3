"""Name what rules may look at: one signal a field, gathered by `gather`. Holds no tables.

Times are ns; those called "a step" are means over the traced steps. A signal that a recording
does not give is `Missing`, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfprobe.analysis.account.account import Account
from tfprobe.analysis.breakdown.step_parts import LABELS, Part
from tfprobe.analysis.core.releases import PARALLEL_BATCH, STEPS_PER_EXECUTION, Release, is_before
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Gain, Subject
from tfprobe.profile.profile import OwnProfiler

# Less of the cycle is not told from what Python does between steps anyway.
_HELD_RATIO = 0.2
_HELD = ("fetch", "idle")
# The trace tells how long an op ran, not on how many threads: on one, or on some where it is large.
_CPUS_AN_OP = 2
NOT_GATHERED = Missing("it was not checked")
NO_CAPTURE = Missing("no step was traced")


@dataclass(frozen=True, slots=True)
class LoopTiming:
    """The steps of a loop, from the first to the last, with the time between them.

    `thread_ns` is that of the thread with all its works; `retrace_ns` what the slowest steps, as
    many as were traced again, took beyond the usual one of the others. `untraced` counts those
    others: where they are too few to say what is usual, `retrace_ns` is all of the slow steps.
    `gap_spread_ns` is the median absolute deviation of gaps from the usual one.
    `regular_step_ns` and `regular_gap_ns` are steps and gaps without what stands out for a reason
    that is known and not the steps' own: a first step, a trace, a checkpoint, an evaluation.
    `first_seen_ns` is the unix time of the first step, 0 where the recording does not tell.
    """

    kind: str
    name: str
    steps: int
    per_execution: int
    retraces: int
    step_ns: int
    gap_ns: int
    regular_step_ns: int
    regular_gap_ns: int
    usual_step_ns: float
    usual_gap_ns: float
    retrace_ns: int
    untraced: int
    slowest_steps: tuple[int, ...]
    thread_ns: int
    gap_spread_ns: float = 0.0
    first_seen_ns: int = 0

    @property
    def loop_ns(self) -> int:
        return self.step_ns + self.gap_ns


@dataclass(frozen=True, slots=True)
class OutlierSignal:
    """Steps far from the usual one: their numbers, slowest first, and what they took beyond it.

    `every` is the distance between them where they come at one distance, `cause` what went on
    during most of their time, `is_own` whether that is the job's own doing. `known_step_ns` and
    `known_gap_ns` are what others took beyond the usual, of which the reason is known and not the
    steps' own.
    """

    steps: tuple[int, ...]
    excess_ns: int
    looked_at: int
    every: int | None = None
    cause: str = ""
    is_own: bool = False
    known_step_ns: int = 0
    known_gap_ns: int = 0


@dataclass(frozen=True, slots=True)
class Waste:
    """What a part of the mean cycle went to: a call and the line that makes it, or a phase."""

    part: str
    what: str
    source: str
    ns: float


@dataclass(frozen=True, slots=True)
class Parts:
    """The exclusive parts of the mean cycle: a traced step and the time up to the next one.

    `shares` sum to 1, by the names of the breakdown view. `total_ns` is what the cycles of all
    steps, sampled or not, took; `causes` are of a sampled cycle, dearest first.
    """

    shares: Mapping[str, float]
    cycle_ns: float
    total_ns: float
    causes: tuple[Waste, ...] = ()

    def ratio(self, *names: str) -> float:
        """Return the share of these parts together."""
        return sum(self.shares.get(name, 0.0) for name in names)

    def of_all_steps(self, *names: str) -> float:
        """Return what these parts took over all steps, in ns."""
        return self.ratio(*names) * self.total_ns

    def cause(self, *names: str) -> Waste | None:
        """Return the dearest cause of these parts."""
        return next((each for each in self.causes if each.part in names), None)


def much(part: float, whole: float) -> str:
    """Say how much of a whole a part is: "most" is more than half."""
    return "most" if part > whole / 2 else "a significant part"


def part_label(name: str) -> str:
    """Return what people call a part of a cycle."""
    return LABELS[Part(name)]


@dataclass(frozen=True, slots=True)
class WaitSample:
    """A traced step: its number and its file below the run directory."""

    step: int
    capture: str


@dataclass(frozen=True, slots=True)
class OpUse:
    """One type of op. `busy_ns` is the time of a step during which one of them ran (a union)."""

    type: str
    runs: float
    busy_ns: float
    node: str


@dataclass(frozen=True, slots=True)
class Ops:
    """The ops of a mean traced step, on threads that work for it.

    `span_ns` is from the start of its first op to the end of its last, `busy_ns` that of it in
    which any op ran, `large_ns` in which one ran that is not tiny; `paused_ns` are times without an
    op that are longer than an executor takes for the next. `usual_op_ns` is the median op.
    `has_updates`: some ops change variables, as training does.
    `beside` are the types of ops that compute for later steps on the host, as a pipeline does:
    `beside_ns` is the sum of their times, `beside_busy_ns` the time in which one of them ran.
    `host` and `device` are the types by busy time, dearest first.
    """

    step_ns: float
    span_ns: float
    busy_ns: float
    large_ns: float
    per_step: float
    usual_op_ns: float
    host: tuple[OpUse, ...]
    device: tuple[OpUse, ...]
    fusible_ns: float
    exposed_host: tuple[OpUse, ...] = ()
    paused_ns: float = 0.0
    has_updates: bool = True
    beside: tuple[OpUse, ...] = ()
    beside_ns: float = 0.0
    beside_busy_ns: float = 0.0

    @property
    def has_accelerator(self) -> bool:
        return bool(self.device)


@dataclass(frozen=True, slots=True)
class CodeUse:
    """A scope or a line of Python, and the time of a step in which an op of it ran (a union)."""

    name: str
    busy_ns: float
    source: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class GraphLoop:
    """A loop within the graph, by its name: how often it turns in a step, as far as that was seen,
    and the time from its first op to its last in which no op runs that is not tiny. Where none of
    its ops was traced, `turns` is 0: all were too cheap."""

    name: str
    turns: float
    small_ns: float
    source: str


@dataclass(frozen=True, slots=True)
class Syncs:
    """Reading the value of a tensor between steps, as `.numpy()` and `float(loss)` do.

    `ratio` is the share of the watched gaps with one, `ns` what they took in a mean gap;
    `source` is the line of the job that asks most often, `calls` how often in a gap.
    """

    gaps: int
    ratio: float
    calls: float
    ns: float
    function: str
    source: str


@dataclass(frozen=True, slots=True)
class PythonUse:
    """A line of the job around its steps: what it calls, of what kind, and its share of the time
    between steps. `calls` is how often the call was made between two."""

    what: str
    source: str
    kind: str
    ratio: float
    calls: int


@dataclass(frozen=True, slots=True)
class Python:
    """What the job's own lines took of the time between steps, dearest first, by watched `gaps`.

    `step_source` is the innermost line that runs the steps, `loop_source` the outermost one that
    goes on from step to step; "" where it is none of the job's.
    """

    lines: tuple[PythonUse, ...]
    gaps: int
    step_source: str = ""
    loop_source: str = ""

    def of_kind(self, kind: str) -> PythonUse | None:
        """Return the dearest line of a kind."""
        return next((line for line in self.lines if line.kind == kind), None)


@dataclass(frozen=True, slots=True)
class Turns:
    """What a rank did in the collectives that were seen in other ranks, too.

    `last_ratio` is the share of them to which it came last, `waiting_ns` what it waited in one.
    """

    matched: int
    last_ratio: float
    waiting_ns: float


@dataclass(frozen=True, slots=True)
class ActivitySignal:
    """One kind and name of activity while steps ran: how often, how long by itself and in all.

    `source` is the line of the job that called for most of its intervals, "" where none is known.
    """

    kind: str
    name: str
    count: int
    own_ns: int
    total_ns: int = 0
    source: str = ""


@dataclass(frozen=True, slots=True)
class CopySignal:
    """Copies of one direction in a mean traced step.

    `exposed_ns` is when one ran and no kernel did, `pageable_ns` what the pageable ones took.
    """

    direction: str
    count: float
    bytes: float
    busy_ns: float
    exposed_ns: float
    pageable_count: float
    pageable_ns: float
    node: str = ""


@dataclass(frozen=True, slots=True)
class Input:
    """Where the input of the steps comes from, and which node of it the step waits for.

    `nodes` are those of tf.data, the one nearest to the step first; `advice` says what helps.
    Where the input keeps up, steps wait only for elements that are ready to change hands. Unless it
    `is_measured`, the bottleneck is what most likely is it. `is_whole`: each of its sources was
    seen. `may_cache`: what it makes ends, and no Python generator makes it. `is_ready`: its
    elements lie in memory and are handed over beside the step, so that nothing makes it faster.
    `prefetches`: a data set of its process ends, somewhere, in a prefetch. `python_ns` is what
    Python takes in it for the elements of a step, beside the step.
    """

    bottleneck: str
    own_ns: float
    iterator: str
    nodes: tuple[str, ...]
    advice: str = ""
    source: str = ""
    keeps_up: bool = False
    is_measured: bool = True
    is_whole: bool = True
    may_cache: bool = True
    is_ready: bool = False
    prefetches: bool = False
    python_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class Layout:
    """Convolutions on the accelerator by data format, and what turning tensors around took."""

    nhwc_ns: float
    nchw_ns: float
    transpose_ns: float
    node: str = ""


@dataclass(frozen=True, slots=True)
class Precision:
    """What the accelerator computed in a mean step, by width; `eligible_ns` in 32 bits, of ops
    that have a faster form in 16 (matrix products and convolutions)."""

    narrow_ns: float
    wide_ns: float
    eligible_ns: float
    node: str = ""


@dataclass(frozen=True, slots=True)
class MachineSignal:
    """What a process used of its machine over the time of its steps.

    `used_cpus` are those that it kept busy on average, `switches_per_s` how often its threads gave
    up or lost a CPU.
    `growth_bytes_per_step` is the slope of resident memory over `watched_steps`, the later half;
    `grows` says that it goes on, and is neither a warm-up nor chance.
    """

    cpus: float | Missing
    throttled_ns: int | Missing
    resident_bytes: int | Missing
    peak_bytes: int | Missing
    limit_bytes: int | Missing
    growth_bytes_per_step: float | Missing
    grows: bool
    watched_steps: int
    steps: int
    used_cpus: float | Missing = NOT_GATHERED
    switches_per_s: float | Missing = NOT_GATHERED


@dataclass(frozen=True, slots=True)
class PythonThread:
    """A thread of Python: how many CPUs it kept busy, and where it mostly stood.

    `in_python_ratio` is the part of the samples in which it was stopped between two instructions of
    Python, and not within a call.
    """

    name: str
    cores: float
    source: str
    function: str
    in_python_ratio: float


@dataclass(frozen=True, slots=True)
class ThreadUseSignal:
    """CPU time by thread while steps ran, which one thread runs: the first of the process.

    `steps_cores` is the part of the time in which that thread ran, `delay_ratio` the part in which
    it was ready to run and had no CPU; `is_alone`: neither other processes nor the hypervisor can
    have taken that. `others`
    are Python's, the one that used most first.
    """

    steps_cores: float
    delay_ratio: float
    is_alone: bool
    others: tuple[PythonThread, ...]

    @property
    def had_ratio(self) -> float:
        """Return which part of the CPU time that the thread of the steps wanted it had."""
        wanted = self.steps_cores + self.delay_ratio
        return self.steps_cores / wanted if wanted else 1.0


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """The most that an accelerator's memory held, and what there is of it."""

    device: str
    peak_bytes: int
    capacity_bytes: int


@dataclass(frozen=True, slots=True)
class ProcessSignals:
    """What is known of one process. `group` is the Process's: others of it work on the same job.

    `release` has the first two numbers of TensorFlow's version, `account` what its wall time went
    to. `functions` are those whose calls are steps. `own_profiler` is the job's own, left open.
    """

    subject: Subject
    overhead_ns: int | Missing
    wall_ns: int
    settings: Mapping[str, Any] | Missing
    activities: tuple[ActivitySignal, ...]
    machine: MachineSignal | Missing
    device_memory: tuple[DeviceMemory, ...] = ()
    has_accelerator: bool = False
    loop_ns: int = 0
    group: int = 0
    release: Release | Missing = NOT_GATHERED
    account: Account | Missing = NOT_GATHERED
    functions: frozenset[str] = frozenset()
    own_profiler: OwnProfiler | None = None
    threads: ThreadUseSignal | Missing = NOT_GATHERED

    def of_wall(self, high_ns: int, low_ns: int) -> Gain:
        """Return a gain of the whole process, of its wall time from exec to exit."""
        wall_ns = self.wall_ns if isinstance(self.account, Missing) else self.account.wall_ns
        high = min(high_ns, wall_ns)
        return Gain(min(low_ns, high), high, wall_ns)

    @property
    def has_steps_per_execution(self) -> bool:
        """Say whether its Keras takes that argument, in other than graph mode."""
        return not is_before(self.release, STEPS_PER_EXECUTION)

    @property
    def has_parallel_batch(self) -> bool:
        """Say whether Dataset.batch of its TensorFlow takes num_parallel_calls."""
        return not is_before(self.release, PARALLEL_BATCH)


@dataclass(frozen=True, slots=True)
class LoopSignals:
    """What is known of one loop. `is_main`: it takes most time of its process.

    `nodes` are those of its graph that compute something. `turns` are known where other ranks take
    the same collectives. `double` are ops of the host in 64 bits, `dense` those on whole tables
    of which few rows are looked up, `one_hot` one-hot vectors and products with them.
    `ops_source` is the line of the job that made most of its ops.
    `save_source` is the line of the job that was seen saving between its steps, `called_at` the one
    that ran the traced steps. `is_pytorch`: its ops are PyTorch's. `layout` and `precision` are
    None without an accelerator.
    """

    subject: Subject
    process: ProcessSignals
    timing: LoopTiming
    is_main: bool = True
    samples: tuple[WaitSample, ...] = ()
    outliers: OutlierSignal | Missing = NOT_GATHERED
    parts: Parts | Missing = NO_CAPTURE
    ops: Ops | Missing = NO_CAPTURE
    scopes: tuple[CodeUse, ...] | Missing = NO_CAPTURE
    lines: tuple[CodeUse, ...] | Missing = NO_CAPTURE
    syncs: Syncs | Missing = NOT_GATHERED
    python: Python | Missing = NOT_GATHERED
    double: CodeUse | Missing = NOT_GATHERED
    dense: CodeUse | Missing = NOT_GATHERED
    one_hot: CodeUse | Missing = NOT_GATHERED
    graph_loop: GraphLoop | Missing = NOT_GATHERED
    copies: tuple[CopySignal, ...] | Missing = ()
    input: Input | Missing = NOT_GATHERED
    nodes: int | Missing = NOT_GATHERED
    ops_source: str = ""
    save_source: str = ""
    called_at: str = ""
    turns: Turns | None = None
    is_pytorch: bool = False
    layout: Layout | Missing | None = None
    precision: Precision | Missing | None = None

    def gain(self, high_ns: float, low_ns: float) -> Gain:
        """Return a gain of this loop's thread; no more than all of it."""
        whole_ns = self.timing.thread_ns
        high = min(round(high_ns), whole_ns)
        return Gain(min(round(low_ns), high), high, whole_ns)

    @property
    def loop_source(self) -> str:
        """Return the line of the job that runs the steps, "" where none was seen."""
        watched = self.python.loop_source if isinstance(self.python, Python) else ""
        return watched or self.called_at

    @property
    def alone_step_ns(self) -> float:
        """Return the usual step without the part in which its thread was ready and had no CPU.

        Beside other processes a small step lasts long, and what it does for itself is no longer.
        """
        threads = self.process.threads
        delay_ratio = 0.0 if isinstance(threads, Missing) else min(threads.delay_ratio, 1.0)
        return self.timing.usual_step_ns * (1 - delay_ratio)

    @property
    def held_ns(self) -> float:
        """Return what Python that makes the input holds up all steps: they wait for its lock.

        It lasts a fifth of the cycle, and as much of the cycle lies outside of ops.
        """
        if isinstance(self.input, Missing) or isinstance(self.parts, Missing):
            return 0.0
        least_ns, outside_ns = _HELD_RATIO * self.parts.cycle_ns, self.parts.of_all_steps(*_HELD)
        if self.input.python_ns < least_ns or self.parts.ratio(*_HELD) < _HELD_RATIO:
            return 0.0
        return min(self.input.python_ns * self.timing.steps, outside_ns)

    @property
    def beside_ns(self) -> float:
        """Return what ops of the input may hold up all steps that compute on the host beside them.

        Of n CPUs an op of the input takes one, or two at most: it is that part of the time in which
        it ran, as if the step stood still for it.
        """
        machine, parts, ops = self.process.machine, self.parts, self.ops
        if isinstance(machine, Missing) or isinstance(machine.cpus, Missing):
            return 0.0
        if isinstance(parts, Missing) or isinstance(ops, Missing) or ops.has_accelerator:
            return 0.0
        beside_ns = min(ops.beside_busy_ns, _CPUS_AN_OP * ops.beside_ns / max(machine.cpus, 1.0))
        # Steps that do not compute have no use for more CPUs.
        return min(self.of_steps(beside_ns), parts.of_all_steps("host_compute", "idle"))

    def of_steps(self, ns_a_step: float) -> float:
        """Return what takes so long in a traced step, summed over all steps.

        Traced steps are slower than others: what they spend is scaled to what all steps took.
        """
        if isinstance(self.ops, Missing) or not self.ops.step_ns:
            return ns_a_step * self.timing.steps
        return ns_a_step / self.ops.step_ns * self.timing.regular_step_ns

    @property
    def is_of_session(self) -> bool:
        """Say whether its traced steps ran in a Session, as all of Keras' do in graph mode."""
        return any(sample.capture.endswith(".run_metadata.pb") for sample in self.samples)

    def sample(self) -> tuple[Evidence, ...]:
        """Return a traced step to open, where there is one."""
        if not self.samples:
            return ()
        last = self.samples[-1]
        return (Evidence("a traced step", step=last.step, capture=last.capture),)

    def shown_by(self, command: str) -> Evidence:
        """Return the command that shows more of it."""
        return Evidence("shown by", command=f"tfprobe {command}")


@dataclass(frozen=True, slots=True)
class Signals:
    """Everything rules may look at, of a whole run."""

    processes: tuple[ProcessSignals, ...]
    loops: tuple[LoopSignals, ...]

    def __iter__(self) -> Iterator[LoopSignals]:
        return iter(self.loops)
