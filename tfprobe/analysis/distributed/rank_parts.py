"""Extract from each process what is needed to compare it with the others of its job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.core.intervals import union
from tfprobe.analysis.distributed import synchronization_events
from tfprobe.analysis.distributed.synchronization_events import (
    SynchronizationEvents,
    SynchronizationKind,
)
from tfprobe.analysis.steps.step_window import lengthened_gaps
from tfprobe.analysis.transfers.collective_runs import collective_runs, overlap
from tfprobe.analysis.transfers.sends import task_of
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.profile import Capture, Loop, Process, Profile
from tfprobe.profile.tables import Int64s

Floats = npt.NDArray[np.float64]

# Enough to find slow ranks; the ring has 8,192, which for a thousand ranks is a gigabyte.
MOST_STEPS = 2_000
# Loops that take a smaller share of the process's time are not compared.
_LEAST_RATIO = 0.01
SERVER = "/job:ps"


@dataclass(frozen=True, slots=True)
class LatestSteps:
    """The latest steps of a loop, from `first_step` on: how long each took, and the time before it.

    In ns, NaN if a step raised or was traced, or if it is unknown. `key` is kind and name.
    """

    key: str
    executed: int
    total_ns: int
    first_step: int
    step_ns: Floats
    gap_ns: Floats


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A traced step: how long it took, and for how much of that any collective was running."""

    key: str
    step: int
    step_ns: int
    met_ns: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """How long collectives ran in the traced steps, and how much of that computation hid."""

    steps: int
    busy_ns: int
    hidden_ns: int

    @property
    def hidden_ratio(self) -> float:
        return self.hidden_ns / self.busy_ns if self.busy_ns else 0.0


@dataclass(frozen=True, slots=True)
class Served:
    """What a process recorded of a parameter server in its traced steps: how long ops ran there."""

    server: str
    steps: int
    busy_ns: int


@dataclass(frozen=True, slots=True)
class RankSteps:
    """The steps of one process: what it takes to decide whether it is slow among others."""

    process: Process
    events: SynchronizationEvents
    steps: tuple[LatestSteps, ...]
    recorded: tuple[RecordedStep, ...]


@dataclass(frozen=True, slots=True)
class RankPart(RankSteps):
    """What one process contributes to the comparison of the ranks."""

    overlap: Overlap | Missing
    served: tuple[Served, ...]


def rank_part(profile: Profile) -> RankPart:
    """Return the part of the first process of a profile, which is its only one."""
    (steps,) = rank_steps(profile)
    return RankPart(
        process=steps.process,
        events=steps.events,
        steps=steps.steps,
        recorded=steps.recorded,
        overlap=_overlap(profile),
        served=_served(profile),
    )


def rank_steps(profile: Profile) -> tuple[RankSteps, ...]:
    """Return the steps of each process of a profile, each as if it were the only one, number 0."""
    events = synchronization_events.find_events(profile)
    return tuple(_rank_steps(profile, process, events) for process in profile.processes)


def _rank_steps(profile: Profile, process: Process, events: SynchronizationEvents) -> RankSteps:
    loops = [loop for loop in profile.loops if loop.process == process.index]
    captures = [capture for capture in profile.captures if capture.process == process.index]
    own = events.only(events.process == process.index)
    return RankSteps(
        process=replace(process, index=0),
        events=replace(own, process=np.zeros_like(own.process)),
        steps=tuple(_latest(loop) for loop in _loops_to_compare(loops)),
        recorded=_recorded(loops, captures, own),
    )


def limit_to_steps(part: RankPart, first: int, last: int) -> RankPart:
    """Return a part limited to the steps from `first` to `last`, both included.

    The number of steps and the overlap of collectives stay those of all steps.
    """
    met = part.events
    return replace(
        part,
        events=met.only((met.step >= first) & (met.step <= last)),
        steps=tuple(_steps_within(step, first, last) for step in part.steps),
        recorded=tuple(each for each in part.recorded if first <= each.step <= last),
    )


def _steps_within(steps: LatestSteps, first: int, last: int) -> LatestSteps:
    begin = max(first - steps.first_step, 0)
    end = max(last + 1 - steps.first_step, 0)
    return replace(
        steps,
        first_step=steps.first_step + begin,
        step_ns=steps.step_ns[begin:end],
        gap_ns=steps.gap_ns[begin:end],
    )


def rank_parts_of(profile: Profile) -> tuple[RankPart, ...]:
    """Return the part of each process of a profile."""
    return tuple(rank_part(_alone(profile, process)) for process in profile.processes)


def _alone(profile: Profile, process: Process) -> Profile:
    own = tuple(capture for capture in profile.captures if capture.process == process.index)
    part_profile = profile.only(own)
    return replace(
        part_profile,
        processes=(replace(process, index=0),),
        loops=tuple(
            replace(loop, process=0) for loop in profile.loops if loop.process == process.index
        ),
        captures=tuple(replace(capture, process=0) for capture in part_profile.captures),
    )


def _loops_to_compare(loops: Sequence[Loop]) -> list[Loop]:
    """Return the loops that take time; of several of one name, the one that takes most."""
    whole_ns = sum(loop.times.sum_ns for loop in loops)
    longest: dict[tuple[str, str], Loop] = {}
    for loop in sorted(loops, key=lambda other: other.times.sum_ns):
        if loop.executed and loop.times.sum_ns >= _LEAST_RATIO * whole_ns:
            longest[loop.kind, loop.name] = loop
    return list(longest.values())[::-1]


def _latest(loop: Loop) -> LatestSteps:
    recent = loop.recent
    begin = max(len(recent.start_ns) - MOST_STEPS, 0)
    step_ns = (recent.end_ns - recent.start_ns).astype(np.float64)
    gap_ns = np.full(len(step_ns), np.nan)
    gap_ns[1:] = recent.start_ns[1:] - recent.end_ns[:-1]
    bad = recent.raised | recent.sampled | (step_ns < 0)
    # The gap after a traced step does not count: the agent writes the trace in it.
    bad_gap = bad | lengthened_gaps(recent) | (gap_ns < 0) | ~recent.has_gap
    step_ns[bad] = np.nan
    gap_ns[bad_gap] = np.nan
    return LatestSteps(
        key=f"{loop.kind} {loop.name}",
        executed=loop.executed,
        total_ns=loop.times.sum_ns,
        first_step=recent.first_step + begin,
        step_ns=step_ns[begin:],
        gap_ns=gap_ns[begin:],
    )


def _recorded(
    loops: Sequence[Loop], captures: Sequence[Capture], met: SynchronizationEvents
) -> tuple[RecordedStep, ...]:
    names = {loop.index: f"{loop.kind} {loop.name}" for loop in loops}
    joint = met.only(met.kind == SynchronizationKind.COLLECTIVE)
    texts = joint.strings.values
    found = []
    for capture in captures:
        key = "" if isinstance(capture.loop, Missing) else names.get(capture.loop, "")
        mine = joint.step == capture.step
        if mine.any():
            mine &= np.array([text == key for text in texts], dtype=np.bool_)[joint.loop]
        met_ns = union(joint.start_ns[mine], joint.end_ns[mine]).length_ns
        found.append(RecordedStep(key, capture.step, capture.duration_ns, met_ns))
    return tuple(found)


def _overlap(profile: Profile) -> Overlap | Missing:
    if not profile.captures:
        return Missing("no step was traced")
    runs = collective_runs(profile)
    if not len(runs):
        return Missing("the traced steps have no collective")
    busy = overlap(profile.executions, runs)
    return Overlap(len(profile.captures), busy.busy_ns, busy.hidden_ns)


def _served(profile: Profile) -> tuple[Served, ...]:
    """Return the ops that ran on parameter servers, which a worker of TensorFlow 1 also records."""
    rows = profile.executions
    tasks = [task_of(text) if SERVER in text else "" for text in rows.strings.values]
    numbers = {task: at for at, task in enumerate(sorted(set(tasks)))}
    task = np.array([numbers[name] for name in tasks], dtype=np.int64)[rows.device]
    loops = np.array([not _waits(text) for text in rows.strings.values], dtype=np.bool_)
    chosen = loops[rows.op_type] & (rows.place == Place.HOST)
    found = []
    for text, number in numbers.items():
        mine = np.flatnonzero(chosen & (task == number)) if text else np.empty(0, np.int64)
        if len(mine):
            found.append(Served(text, len(np.unique(rows.capture[mine])), _busy_ns(profile, mine)))
    return tuple(found)


def _busy_ns(profile: Profile, at: Int64s) -> int:
    rows = profile.executions
    return union(rows.start_ns[at], rows.start_ns[at] + rows.duration_ns[at]).length_ns


def _waits(op_type: str) -> bool:
    return op_type in ("RecvTensor", "_Recv", "_HostRecv", "_Send", "_HostSend")
