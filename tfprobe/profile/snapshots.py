"""Hold what runs look like at one moment: lines of a listing, snapshots, trace requests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tfprobe.errors import Missing
from tfprobe.profile.activities import ResourceSample
from tfprobe.profile.profile import LIVE_STATES, UNNAMED, Loop, Problem, Process, Run


@dataclass(frozen=True, slots=True)
class TraceRequestState:
    """The state of the latest trace request, from the control words of steps.bin.

    `sequence` is the number of the request, `seen` the number of the one that the agent has read,
    `left` how many steps it still has to trace for that one.
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
    """What the wall time of a process went to since its start, by the parts of docs/account.md.

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
# Clocks of machines that nothing disciplines differ by as much.
_CLOCKS_DIFFER_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run at a glance.

    `host` is the launcher's, `hosts` those of its processes, too. `active_unix_ns` is the last sign
    of life on disk. `name` and `tags` are what it was called when it was launched.
    `size_bytes` is what it occupies on disk.
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
        """Say whether it is there: its files may still grow."""
        return self.state in LIVE_STATES

    def age_ns(self, now_unix_ns: int) -> int | Missing:
        """Return how long ago it ended or last gave a sign of life; nothing while it is there."""
        if self.state in LIVE_STATES:
            return 0
        if isinstance(self.active_unix_ns, Missing):
            return self.active_unix_ns
        # A clock that was set back does not make a run of the future.
        return max(now_unix_ns - self.active_unix_ns, 0)

    def is_ahead(self, now_unix_ns: int) -> bool:
        """Say whether its last sign of life is of the future: one of two clocks is wrong."""
        active_ns = self.active_unix_ns
        if self.state in LIVE_STATES or isinstance(active_ns, Missing):
            return False
        return active_ns - now_unix_ns > _CLOCKS_DIFFER_NS


class RequestAnswer(Enum):
    """What a process said to an order.

    TAKEN: its next steps are recorded; `captures` tells how many have been. DECLINED: it may not,
    or cannot. SUPERSEDED: another order took the place of this one. NONE: it has not looked yet,
    and the order stands. ENDED: it ended before it took it. NOT_SENT: it could not be asked.
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
    """Where an order stands in one process.

    `process` is the name of its folder, `program` what it runs ("" where nobody knows), `request`
    the number that the order has there, `samples` how many it was for, `executed` the steps of all
    works when it was given.
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
        """Say whether all that was ordered is on disk."""
        return len(self.captures) >= self.samples
