"""The state of runs at one moment: lines of a listing, snapshots, trace requests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tfprobe.errors import Missing
from tfprobe.profile.activities import ResourceSample
from tfprobe.profile.profile import LIVE_STATES, UNNAMED, Loop, Problem, Process, Run


@dataclass(frozen=True, slots=True)
class TraceRequestState:
    """The state of the latest trace request, from the control words of steps.bin.

    `sequence` is the number of the request, `seen` that of the last request the agent has read, and
    `left` how many steps the agent still has to trace for that one.
    """

    sequence: int
    seen: int
    left: int


@dataclass(frozen=True, slots=True)
class LoopShares:
    """Where the mean cycle of a process went, from its latest captures. The four ratios sum to 1.

    `captures` is the number of captures, `newest_unix_ns` when the newest of them began.
    """

    before_ratio: float
    on_ratio: float
    after_ratio: float
    other_ratio: float
    captures: int
    newest_unix_ns: int


@dataclass(frozen=True, slots=True)
class WallTime:
    """Where the wall time of a process went since its start, by the parts of docs/account.md.

    `parts_ns` has all parts in chronological order. They sum to `wall_ns`, which ends with the last
    sign of life. `goodput_ratio` is the share of productive steps.
    """

    wall_ns: int
    parts_ns: tuple[tuple[str, int], ...]
    goodput_ratio: float | Missing


@dataclass(frozen=True, slots=True)
class TimeUse:
    """Where the time of a process goes: in its recent cycles, and since its start."""

    shares: LoopShares | Missing
    wall_time: WallTime | Missing


@dataclass(frozen=True, slots=True)
class ProcessSnapshot:
    """One process at one moment.

    `process.index` is its place in `RunSnapshot.processes`, and `loop.process` that of its loops,
    whose `recent` has at most the latest 1024 steps. `now_mono_ns` is that moment on the clock of
    `recent`; `resource_samples` are the latest ones, oldest first.
    """

    process: Process
    loops: tuple[Loop, ...]
    now_mono_ns: int | Missing
    request: TraceRequestState | Missing
    shares: LoopShares | Missing
    wall_time: WallTime | Missing
    resource_samples: tuple[ResourceSample, ...] = ()


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """One run at one moment. `machines` are the latest samples of its machines' accelerators."""

    run: Run
    host: str | Missing
    user: str | Missing
    started_unix_ns: int | Missing
    processes: tuple[ProcessSnapshot, ...]
    machines: tuple[ResourceSample, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """All runs below a directory at one moment, newest first.

    `problems` are those of the directory itself; each run has its own.
    """

    directory: str
    at_unix_ns: int
    runs: tuple[RunSnapshot, ...]
    problems: tuple[Problem, ...] = ()


NOT_MEASURED = Missing("not measured: that walks the whole run")
_UNTOLD = Missing("run.json does not say")
# The clocks of machines without time synchronization differ by up to this much.
_CLOCKS_DIFFER_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class RunLine:
    """A summary of a run.

    `host` is the launcher's host; `hosts` also has those of the run's processes. `active_unix_ns`
    is the last sign of life on disk. `name` and `tags` were given at launch. `size_bytes` is the
    space the run occupies on disk.
    """

    id: str
    directory: str
    command: tuple[str, ...] | Missing
    started: str | Missing
    host: str | Missing
    processes: int
    steps: int
    state: str
    user: str | Missing = _UNTOLD
    hosts: tuple[str, ...] = ()
    active_unix_ns: int | Missing = _UNTOLD
    size_bytes: int | Missing = NOT_MEASURED
    name: str | Missing = UNNAMED
    tags: tuple[tuple[str, str], ...] = ()

    @property
    def is_live(self) -> bool:
        """Return whether the run exists: its files may still grow."""
        return self.state in LIVE_STATES

    def age_ns(self, now_unix_ns: int) -> int | Missing:
        """Return how long ago it ended or last gave a sign of life; Missing while it exists."""
        if self.state in LIVE_STATES:
            return 0
        if isinstance(self.active_unix_ns, Missing):
            return self.active_unix_ns
        # A clock that was set back must not put the run into the future.
        return max(now_unix_ns - self.active_unix_ns, 0)

    def is_ahead(self, now_unix_ns: int) -> bool:
        """Return whether its last sign of life is in the future: one of two clocks is wrong."""
        active_ns = self.active_unix_ns
        if self.state in LIVE_STATES or isinstance(active_ns, Missing):
            return False
        return active_ns - now_unix_ns > _CLOCKS_DIFFER_NS


class RequestAnswer(Enum):
    """The answer of a process to a trace request.

    TAKEN: its next steps are recorded; `captures` has those recorded so far. DECLINED: it may not
    or cannot record. SUPERSEDED: another request replaced this one. NONE: the process has not
    looked yet, and the request is pending. ENDED: it ended before taking the request. NOT_SENT: it
    could not be asked.
    """

    TAKEN = "taken"
    DECLINED = "declined"
    SUPERSEDED = "superseded"
    NONE = "no answer"
    ENDED = "ended"
    NOT_SENT = "not asked"


@dataclass(frozen=True, slots=True)
class Captured:
    """One capture on disk: a step of a loop, and the name of its file."""

    loop: int
    step: int
    file: str


@dataclass(frozen=True, slots=True)
class ProcessAnswer:
    """The state of a trace request in one process.

    `process` is the name of its folder, `program` what it runs ("" if unknown), `request` the
    number of the request in that process, `samples` how many steps were requested, and `executed`
    the number of steps of all loops when the request was made.
    """

    host: str
    pid: int | Missing
    process: str
    state: str
    answer: RequestAnswer
    why: str | Missing
    samples: int
    captures: tuple[Captured, ...]
    request: int | Missing
    executed: int | Missing
    program: str = ""

    @property
    def is_met(self) -> bool:
        """Return whether everything requested is on disk."""
        return len(self.captures) >= self.samples
