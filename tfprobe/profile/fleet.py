"""Hold one look at many runs while they run: what their files said at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from tfprobe.errors import Missing
from tfprobe.profile.activities import Pulse
from tfprobe.profile.profile import Problem, Process, Run, Work


@dataclass(frozen=True, slots=True)
class Request:
    """Where the latest order for samples stands, by the control words of steps.bin.

    `sequence` numbers the orders, `seen` is the one the agent has read, `left` how many samples
    it has still to take for it.
    """

    sequence: int
    seen: int
    left: int


@dataclass(frozen=True, slots=True)
class Shares:
    """Where the mean cycle of a process went, by its latest captures. The four sum to 1.

    `captures` is how many captures that is from, `newest_unix_ns` when the newest of them began.
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

    `parts_ns` are all of them, in the order of a life; they sum to `wall_ns`, which ends with the
    last sign of life. `goodput_ratio` is the share of productive steps.
    """

    wall_ns: int
    parts_ns: tuple[tuple[str, int], ...]
    goodput_ratio: float | Missing


@dataclass(frozen=True, slots=True)
class TimeUse:
    """Where the time of a process goes: a cycle of late, and all of it since its start."""

    shares: Shares | Missing
    wall_time: WallTime | Missing


@dataclass(frozen=True, slots=True)
class ProcessLook:
    """One process at one moment.

    `process.index` is its place in `RunLook.processes`, and `work.process` that of its works, whose
    `recent` holds the latest 1024 steps at most. `now_mono_ns` is that moment on the clock of
    `recent`; `pulses` are the latest of them, oldest first.
    """

    process: Process
    works: tuple[Work, ...]
    now_mono_ns: int | Missing
    request: Request | Missing
    shares: Shares | Missing
    wall_time: WallTime | Missing
    pulses: tuple[Pulse, ...] = ()


@dataclass(frozen=True, slots=True)
class RunLook:
    """One run at one moment. `machines` are the latest pulses of its machines' accelerators."""

    run: Run
    host: str | Missing
    user: str | Missing
    started_unix_ns: int | Missing
    processes: tuple[ProcessLook, ...]
    machines: tuple[Pulse, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetLook:
    """All runs below a directory at one moment, newest first.

    `problems` are those of the directory itself; each run has its own.
    """

    directory: str
    at_unix_ns: int
    runs: tuple[RunLook, ...]
    problems: tuple[Problem, ...] = ()
