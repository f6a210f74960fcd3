"""Hold a whole recording: processes, their works, captures, and node executions."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tfprobe.errors import Missing
from tfprobe.profile.activities import Activity, Gap, ResourceSample, StackSamples
from tfprobe.profile.capture_tables import Allocations, Executions, Spans
from tfprobe.profile.programs import WORKERS, team
from tfprobe.profile.tables import T, empty

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

UNTOLD = Missing("not in the recording")
UNNAMED = Missing("it was given no name")
# Of what is there, whether or not something holds it still.
LIVE_STATES = ("running", "stopped")
# The kind of a loop whose steps are those that a profiler service recorded, whatever they are.
SERVICE_KIND = "service"


@dataclass(frozen=True, slots=True)
class RecentSteps:
    """The latest steps of a loop, oldest first; row i is step `first_step + i`. Monotonic ns.

    `new_thread` says which steps follow upon one of another thread, `watched` after which of them
    the gap was watched, and became longer by that; both may be left empty: none.
    """

    first_step: int
    start_ns: Int64s
    end_ns: Int64s
    sampled: Flags
    raised: Flags
    new_thread: Flags = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    watched: Flags = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    @property
    def gap_is_ours(self) -> Flags:
        """Say of each step whether the gap before it was made longer, by a trace or a watch."""
        disturbed = self.sampled | self.watched if len(self.watched) else self.sampled
        return np.concatenate([[False], disturbed[:-1]]).astype(np.bool_)[: len(disturbed)]

    @property
    def has_gap(self) -> Flags:
        """Say of each step whether the time since the one before it is a gap of a loop."""
        found = np.arange(len(self.start_ns)) > 0
        return found & ~self.new_thread if len(self.new_thread) else found


@dataclass(frozen=True, slots=True)
class Loop:
    """One kind of step in one process. `count` is completed steps: executed minus raised.

    `thread` is the first of the `threads` that ran its steps, one after the other or together.

    `first_seen_ns` is the unix time of its first step, 0 where the recording does not tell.
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

    @property
    def count(self) -> int:
        return self.executed - self.raised


def in_sum(loop: Loop) -> Loop:
    """Return a loop without its steps one by one and their histograms, which take most room."""
    none, never = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
    return replace(
        loop,
        times=replace(loop.times, buckets=none),
        gaps=replace(loop.gaps, buckets=none),
        recent=RecentSteps(loop.recent.first_step, none, none, never, never),
    )


@dataclass(frozen=True, slots=True)
class Hooks:
    """What recording cost a process, by the agent's own measurement, in ns."""

    calls_measured: int
    measured_ns: int
    fold_ns: int
    once_ns: int
    traced_ns: int
    wall_ns: int


def titled(name: str, title: str) -> str:
    """Return the name of a process, with its program where that tells it from others."""
    return f"{title} ({name})" if title else name


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception that ended a process: its message is one line, without what looks secret.

    `file` and `line` are where the program itself raised it, or called what did.
    """

    type: str
    message: str
    file: str | None
    line: int | None


@dataclass(frozen=True, slots=True)
class Ending:
    """What is known of how a process ended: its exit status, or the signal that ended it."""

    status: int | None = None
    signal: int | None = None
    exception: Raised | None = None


@dataclass(frozen=True, slots=True)
class OwnProfiler:
    """TensorFlow's profiler, open by the job itself, so that steps could not be traced.

    `declined` is how many in a row, `open_ns` from the first of them to the last. `file` and `line`
    are where the job started it, "" and 0 where nobody noted that.
    """

    declined: int
    open_ns: int
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Process:
    """One recorded process. `index` is its place in the profile, and in `Work.process`.

    `unix_minus_monotonic_ns` turns the monotonic times of RecentSteps into unix times.
    `settings` are what the job had chosen when its first step was traced, as the agent found it:
    see docs/run-directory.md, event `settings`. Any: numbers, texts and lists, whatever is there.
    `port` is that of the profiler service which recorded it, if one did; then `pid` is 0, unknown.
    `boot_id` tells the machine, since it was last started; processes of one share the monotonic
    clock, whatever their hosts are named. `world` is how many processes have a rank, if it is told.
    `is_fork` is said of a process in which another one's interpreter runs on. What it runs is in
    `program`, which is its script; in `title`, where others of the run run something else; and in
    `group`, by which it is compared with others: see `model.programs`. `serves` are further roles
    and ranks that it has. `untimed_steps` were counted and are in no work, because steps.bin could
    not grow. `exec_ns`, unix ns, is when its interpreter was started, to 10 ms: what lies between
    it and `started_unix_ns` is what Python took before any code of the job. `own_profiler` is the
    job's own, as it was open for longest.
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

    @property
    def label(self) -> str:
        """Name it among the processes of its host."""
        number = f"pid {self.pid}" if self.port is None else f"port {self.port}"
        return titled(number, self.title)

    @property
    def place(self) -> str:
        """Name it among the processes of its job: by its rank, and the role of a server."""
        if self.rank is None:
            return self.label
        role = "rank" if team(self.role) == WORKERS else self.role
        return titled(f"{role} {self.rank}", self.title)

    @property
    def shown_program(self) -> str | None:
        """Return what it runs as documents show it; None where nobody knows."""
        return self.title or self.program or None

    @property
    def number(self) -> int:
        """Return what tells it from others of its host: its pid, or the port of its service."""
        return self.pid if self.port is None else self.port


@dataclass(frozen=True, slots=True)
class Capture:
    """One traced step. Times are unix ns; `start_ns` and `duration_ns` are the step's own.

    `fed_bytes` are those of the arrays that a Session step was fed, `result_bytes` those of the
    tensors that the step returned to Python. `called_at` is "file:line", the innermost line of the
    job that ran the step; "" where it is not known.
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
    called_at: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the recording that could not be used: what, and where."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Run:
    """What there is to know of a run before its processes.

    `ending` is that of its first process; `why_unknown` says why nobody here can tell its state.
    `name` and `tags` are what it was called when it was launched.
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
        """Say whether it is there: its files may still grow."""
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
    gaps: tuple[Gap, ...] = ()
    resource_samples: tuple[ResourceSample, ...] = ()
    # Of the processes that were sampled from outside.
    stacks: tuple[StackSamples, ...] = ()

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
        """Return the profile with these of its captures alone."""
        old = [capture.index for capture in captures]
        return replace(
            self,
            captures=tuple(replace(each, index=at) for at, each in enumerate(captures)),
            executions=_renumbered(self.executions, old),
            spans=_renumbered(self.spans, old),
            allocations=_renumbered(self.allocations, old),
        )


def _renumbered(rows: T, old: Sequence[int]) -> T:
    """Return the rows of the captures of these old numbers, which become 0, 1, 2 ..."""
    kept = rows.only(np.isin(rows.capture, old))
    numbers = np.zeros(max(old, default=-1) + 1, dtype=np.int32)
    numbers[list(old)] = np.arange(len(old))
    return replace(kept, capture=numbers[kept.capture])


# 16 buckets an octave: a bucket is at most 1/16 of its lower bound wide.
BUCKETS_PER_OCTAVE = 16
BUCKET_WIDTH_RATIO = 1 / BUCKETS_PER_OCTAVE


@dataclass(frozen=True, slots=True)
class Durations:
    """Durations in ns. `min_ns` and `max_ns` mean nothing where `count` is 0."""

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
    """Return the histogram bucket of each duration in ns; below 1 ns it is that of 1 ns."""
    bits = np.maximum(durations_ns, 1).astype(np.float64).view(np.int64)
    buckets: Int64s = (bits >> 48) - (1023 << 4)
    return buckets
