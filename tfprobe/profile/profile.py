"""Records of a whole recording: processes, their loops, captures, and node executions."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tfprobe.errors import Missing
from tfprobe.profile.activities import Activity, Gap, ResourceSample, StackSamples
from tfprobe.profile.capture_tables import Allocations, Executions, Spans
from tfprobe.profile.compilations import Compilation, GraphBreak
from tfprobe.profile.programs import WORKERS, team
from tfprobe.profile.tables import T, empty

if TYPE_CHECKING:
    from tfprobe.profile.graph import Node

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

UNTOLD = Missing("not in the recording")
UNNAMED = Missing("it was given no name")
# A program that waits at every step is seen to wait in some fewer, as values may be there already.
_MOST_STEPS_PER_WAIT = 1.25
# States of a process or run that exists, even if a signal or a debugger has stopped it.
LIVE_STATES = ("running", "stopped")
# The kinds of loops of JAX whose calls only queue their steps, as do those of Keras on JAX.
# GRADIENT_KIND is what the program differentiates outside of a compiled function, op by op.
GRADIENT_KIND = "grad"
JAX_KINDS = frozenset({"jit", "compiled", GRADIENT_KIND})
# The kinds of loops of PyTorch, outside Keras.
TORCH_KINDS = frozenset({"optimizer_step", "forward", "compiled_step"})
# The kind of a loop whose steps a profiler service recorded, whatever they are.
SERVICE_KIND = "service"


@dataclass(frozen=True, slots=True)
class RecentSteps:
    """The latest steps of a loop, oldest first; row i is step `first_step + i`. Monotonic ns.

    `new_thread` marks steps whose predecessor ran on another thread. `watched` marks steps after
    which the gap was watched, which made it longer. Both may be empty, which means none. `waited`
    marks steps that the program waited for, if calls of the loop only queue them; else it is empty.
    """

    first_step: int
    start_ns: Int64s
    end_ns: Int64s
    sampled: Flags
    raised: Flags
    new_thread: Flags = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    watched: Flags = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    waited: Flags = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    @property
    def gap_is_ours(self) -> Flags:
        """Mark the steps before which the gap was made longer, by a trace or by watching it."""
        disturbed = self.sampled | self.watched if len(self.watched) else self.sampled
        return np.concatenate([[False], disturbed[:-1]]).astype(np.bool_)[: len(disturbed)]

    def since(self, step: int) -> RecentSteps:
        """Return the steps from this number on."""
        skip = max(step - self.first_step, 0)
        if skip == 0:
            return self
        return RecentSteps(
            first_step=self.first_step + skip,
            start_ns=self.start_ns[skip:],
            end_ns=self.end_ns[skip:],
            sampled=self.sampled[skip:],
            raised=self.raised[skip:],
            new_thread=self.new_thread[skip:],
            watched=self.watched[skip:],
            waited=self.waited[skip:],
        )

    def until(self, step: int) -> RecentSteps:
        """Return the steps before this number."""
        count = max(step - self.first_step, 0)
        return RecentSteps(
            first_step=self.first_step,
            start_ns=self.start_ns[:count],
            end_ns=self.end_ns[:count],
            sampled=self.sampled[:count],
            raised=self.raised[:count],
            new_thread=self.new_thread[:count],
            watched=self.watched[:count],
            waited=self.waited[:count],
        )

    @property
    def has_gap(self) -> Flags:
        """Mark the steps that have a gap before them: not the first, nor one on a new thread."""
        is_later = np.arange(len(self.start_ns)) > 0
        return is_later & ~self.new_thread if len(self.new_thread) else is_later


@dataclass(frozen=True, slots=True)
class StepQueue:
    """The steps of a loop whose calls only queue them: each is over when the program has waited.

    The last `unfinished` steps were not waited for, so their times are unknown. All are unfinished
    if the program was hardly ever seen to wait for a step of this loop. Other times are those of
    runs of steps that end in a wait, in the mean `steps_per_wait` steps long, with the time of a
    run spread over its steps. `waits` counts the steps after the first whose results were not there
    when the program asked for them: it waited `wait_ns`, and their calls took `call_ns`. Of the
    time between calls, `exposed_ratio` cost the program time; for the rest, the device was busy.
    The first `undivided` steps were waited for together with those of another loop, before both had
    been traced: their times are unknown, too.
    """

    unfinished: int
    steps_per_wait: float
    waits: int
    wait_ns: int
    call_ns: int
    exposed_ratio: float = 1.0
    undivided: int = 0

    @property
    def is_one_by_one(self) -> bool:
        """Say whether the program waits at each step, a few apart."""
        return self.steps_per_wait <= _MOST_STEPS_PER_WAIT


@dataclass(frozen=True, slots=True)
class Loop:
    """One kind of step in one process. `count` is completed steps: executed minus raised.

    `process` is a position in `Profile.processes`. `thread` is the first of the `threads` threads
    that ran its steps, one after the other or concurrently. `first_seen_ns` is the unix time of its
    first step, 0 if it was not recorded.
    """

    process: int
    index: int
    kind: str
    name: str
    thread: str
    executed: int
    raised: int
    sampled: int
    retraces: int
    steps_per_execution: int
    optimizer_steps: int | Missing
    times: Durations
    gaps: Durations
    recent: RecentSteps
    first_seen_ns: int = 0
    threads: int = 1
    # None if a call returns when its step is over.
    queue: StepQueue | None = None

    @property
    def count(self) -> int:
        return self.executed - self.raised

    @property
    def is_remembered(self) -> bool:
        """Say whether each finished step is among the recent ones."""
        unfinished = self.queue.unfinished if self.queue is not None else 0
        whole = self.executed - unfinished
        return self.recent.first_step == 0 and len(self.recent.start_ns) == whole


def in_sum(loop: Loop) -> Loop:
    """Return a loop without its single steps and its histograms, which take most of the memory."""
    none, never = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
    return replace(
        loop,
        times=replace(loop.times, buckets=none),
        gaps=replace(loop.gaps, buckets=none),
        recent=RecentSteps(loop.recent.first_step, none, none, never, never),
    )


@dataclass(frozen=True, slots=True)
class Hooks:
    """What recording cost a process, measured by the agent itself, in ns."""

    calls_measured: int
    measured_ns: int
    fold_ns: int
    once_ns: int
    traced_ns: int
    wall_ns: int


def titled(name: str, title: str) -> str:
    """Return the name of a process, with its program if that distinguishes it from others."""
    return f"{title} ({name})" if title else name


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception that ended a process. Its message is one line, with secrets masked.

    `file` and `line` are where the program raised it, or called what raised it.
    """

    type: str
    message: str
    file: str | None
    line: int | None


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended, as far as that is known: its exit status, or a signal."""

    status: int | None = None
    signal: int | None = None
    exception: Raised | None = None


@dataclass(frozen=True, slots=True)
class OwnProfiler:
    """TensorFlow's profiler, opened by the job itself, so that steps could not be traced.

    `declined` is the number of consecutive steps that were not traced, `open_ns` the time from the
    first to the last of them. `file` and `line` are where the job started it; "" and 0 if unknown.
    """

    declined: int
    open_ns: int
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Process:
    """One recorded process. `index` is its position in the profile, and the value of
    `Loop.process`.

    - `unix_minus_monotonic_ns` turns the monotonic times of RecentSteps into unix times.
    - `settings` are the job's settings when its first step was traced: see docs/run-directory.md,
      event `settings`. Any: numbers, texts and lists, as recorded.
    - `port` is that of the profiler service that recorded it, if one did; `pid` is then 0, unknown.
    - `boot_id` identifies one boot of a machine. Processes with the same one share the monotonic
      clock, whatever their hosts are called.
    - `world` is how many processes have a rank, if that is known. `serves` are further roles and
      ranks of the process.
    - `is_fork` says that the interpreter of another process runs on in it.
    - `program` is its script. `title` is set if other processes of the run have another program.
      `group` is the number of the processes that it is compared with: see `profile.programs`.
    - `untimed_steps` were counted but belong to no loop, because steps.bin could not grow.
    - `exec_ns`, unix ns to within 10 ms, is when its interpreter was started. From then to
      `started_unix_ns` is the time that Python took before any code of the job.
    - `jax` is the version of JAX, None where it was not imported, or nobody noted that.
    - `own_profiler` is the profiler session of the job itself that was open for longest.
    - `untraced` is why the agent traced none of its steps, as it said last; "" if some was, or none
      was to be.
    - `restarts` is how often torchrun had started the workers again before it started this one.
    """

    index: int
    folder: str
    host: str
    pid: int
    state: str
    argv: tuple[str, ...]
    python: str | Missing
    tensorflow: str | Missing
    rank: int | None
    role: str | None
    started_unix_ns: int
    devices: tuple[str, ...] | Missing
    hooks: Hooks | Missing
    captures: int
    unix_minus_monotonic_ns: int | Missing = UNTOLD
    settings: Mapping[str, Any] | Missing = UNTOLD
    port: int | None = None
    boot_id: str | Missing = UNTOLD
    world: int | None = None
    ppid: int | None = None
    is_fork: bool = False
    program: str = ""
    title: str = ""
    group: int = 0
    serves: tuple[tuple[str, int], ...] = ()
    ending: Ending = Ending()
    untimed_steps: int = 0
    exec_ns: int | Missing = UNTOLD
    own_profiler: OwnProfiler | None = None
    untraced: str = ""
    restarts: int = 0
    jax: str | None = None
    torch: str | None = None

    @property
    def label(self) -> str:
        """Return its name among the processes of its host."""
        number = f"pid {self.pid}" if self.port is None else f"port {self.port}"
        return titled(number, self.title)

    @property
    def place(self) -> str:
        """Return its name among the processes of its job: its rank, and the role of a server."""
        if self.rank is None:
            return self.label
        role = "rank" if team(self.role) == WORKERS else self.role
        again = f", restart {self.restarts}" if self.restarts else ""
        return titled(f"{role} {self.rank}{again}", self.title)

    @property
    def shown_program(self) -> str | None:
        """Return what it runs as documents show it; None if unknown."""
        return self.title or self.program or None

    @property
    def number(self) -> int:
        """Return its number on its host: its pid, or the port of its service."""
        return self.pid if self.port is None else self.port


@dataclass(frozen=True, slots=True)
class Capture:
    """One traced step. Times are unix ns; `start_ns` and `duration_ns` are the step's own.

    `fed_bytes` is the size of the arrays that a Session step was fed, `result_bytes` that of the
    tensors that the step returned to Python. `batch_ns` is how long it usually took to take a batch
    from the DataLoader of the step while no step was traced. `called_at` is "file:line", the
    innermost line of the job that ran the step; "" if unknown. `programs` are those of XLA that ran
    in it, by the name of the module and the number of the program.
    """

    index: int
    process: int
    loop: int | Missing
    step: int
    file: str
    level: str
    start_ns: int
    duration_ns: int
    plain_ns: int | Missing
    fed_bytes: int | Missing = UNTOLD
    result_bytes: int | Missing = UNTOLD
    batch_ns: int | Missing = UNTOLD
    called_at: str = ""
    programs: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the recording that could not be used: what, and where."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Run:
    """A run without its processes.

    `ending` is that of its first process; `why_unknown` says why its state cannot be determined
    here. `name` and `tags` were given when it was launched.
    """

    id: str
    directory: str
    command: tuple[str, ...] | Missing
    started: str | Missing
    state: str
    ending: Ending = Ending()
    why_unknown: str = ""
    name: str | Missing = UNNAMED
    tags: tuple[tuple[str, str], ...] = ()

    @property
    def is_live(self) -> bool:
        """Say whether it still runs or is stopped, so that its files may grow."""
        return self.state in LIVE_STATES


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python interpreter that started with the agent on its path."""

    host: str
    pid: int
    version: str
    executable: str
    started_unix_ns: int = 0


@dataclass(frozen=True, slots=True)
class Profile:
    """A run in memory."""

    run: Run
    processes: tuple[Process, ...]
    interpreters: tuple[Interpreter, ...]
    loops: tuple[Loop, ...]
    captures: tuple[Capture, ...]
    executions: Executions
    problems: tuple[Problem, ...]
    spans: Spans = field(default_factory=lambda: empty(Spans))
    allocations: Allocations = field(default_factory=lambda: empty(Allocations))
    activities: tuple[Activity, ...] = ()
    compilations: tuple[Compilation, ...] = ()
    graph_breaks: tuple[GraphBreak, ...] = ()
    gaps: tuple[Gap, ...] = ()
    resource_samples: tuple[ResourceSample, ...] = ()
    # One for each process whose stacks were sampled from outside.
    stacks: tuple[StackSamples, ...] = ()
    # What traces say of their nodes besides executions, by process and the names of rows.
    nodes: Mapping[int, Mapping[str, Node]] = field(default_factory=dict)

    @property
    def works(self) -> tuple[Loop, ...]:
        """The former name of `loops`, deprecated."""
        warnings.warn("Profile.works is now Profile.loops", DeprecationWarning, stacklevel=2)
        return self.loops

    @property
    def pulses(self) -> tuple[ResourceSample, ...]:
        """The former name of `resource_samples`, deprecated."""
        warnings.warn(
            "Profile.pulses is now Profile.resource_samples", DeprecationWarning, stacklevel=2
        )
        return self.resource_samples

    def only(self, captures: tuple[Capture, ...]) -> Profile:
        """Return the profile with only these of its captures."""
        old = [capture.index for capture in captures]
        return replace(
            self,
            captures=tuple(replace(each, index=at) for at, each in enumerate(captures)),
            executions=_renumbered(self.executions, old),
            spans=_renumbered(self.spans, old),
            allocations=_renumbered(self.allocations, old),
        )


def _renumbered(rows: T, old: Sequence[int]) -> T:
    """Return the rows of the captures with these old numbers, renumbered 0, 1, 2 ..."""
    kept = rows.only(np.isin(rows.capture, old))
    numbers = np.zeros(max(old, default=-1) + 1, dtype=np.int32)
    numbers[list(old)] = np.arange(len(old))
    return replace(kept, capture=numbers[kept.capture])


# 16 buckets an octave: a bucket is at most 1/16 of its lower bound wide.
BUCKETS_PER_OCTAVE = 16
BUCKET_WIDTH_RATIO = 1 / BUCKETS_PER_OCTAVE


@dataclass(frozen=True, slots=True)
class Durations:
    """Durations in ns. `min_ns` and `max_ns` are meaningless if `count` is 0."""

    count: int
    sum_ns: int
    min_ns: int
    max_ns: int
    buckets: Int64s


def bucket_bounds_ns(bucket: int) -> tuple[float, float]:
    """Return the lower bound and the upper bound (exclusive) of a histogram bucket."""
    bits = (np.arange(bucket, bucket + 2, dtype=np.int64) + (1023 << 4)) << 48
    lower, upper = bits.view(np.float64)
    return float(lower), float(upper)


def bucket_of(durations_ns: Int64s) -> Int64s:
    """Return the histogram bucket of each duration in ns; less than 1 ns counts as 1 ns."""
    bits = np.maximum(durations_ns, 1).astype(np.float64).view(np.int64)
    buckets: Int64s = (bits >> 48) - (1023 << 4)
    return buckets
