"""Choose the runs, processes and loops of a snapshot that have series. Bounded by limits.

What must hold for every answer: no two subjects have the same labels, and which loops of a process
have series of their own never changes, because a counter that loses a part goes down.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tfprobe.errors import Missing
from tfprobe.live.metrics.family import label
from tfprobe.profile.activities import DeviceSample
from tfprobe.profile.profile import Loop
from tfprobe.profile.snapshots import FleetSnapshot, ProcessSnapshot, RunSnapshot
from tfprobe.runs.liveness import LIVE

NS_PER_S = 1_000_000_000
RUN_LABELS = ("run",)
PROCESS_LABELS = ("run", "host", "process")
LOOP_LABELS = (*PROCESS_LABELS, "kind", "name")
DEVICE_LABELS = ("run", "host", "device")
Labels = tuple[str, ...]
_OTHER_LOOPS = ("other", "")
# A clock that is 2 s off has been set since: the difference of both clocks now is nearer the truth.
_CLOCK_WAS_SET_NS = 2 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may have series: a process for so long after its end, so many, so many loops."""

    finished_for_s: float = 3600.0
    most_processes: int = 256
    most_loops: int = 20


@dataclass(frozen=True, slots=True)
class LoopSubject:
    """The loops of one kind and name in all threads of a process."""

    labels: Labels
    since_unix_ns: int
    loops: tuple[Loop, ...]


@dataclass(frozen=True, slots=True)
class ProcessSubject:
    """A process. `last_step_unix_ns` is when its last step ended."""

    labels: Labels
    since_unix_ns: int
    look: ProcessSnapshot
    last_step_unix_ns: int | Missing
    loops: tuple[LoopSubject, ...]


@dataclass(frozen=True, slots=True)
class DeviceSubject:
    """An accelerator of a machine."""

    labels: Labels
    since_unix_ns: int
    sample: DeviceSample


@dataclass(frozen=True, slots=True)
class RunSubject:
    """A run with those of its processes that have series."""

    labels: Labels
    since_unix_ns: int
    look: RunSnapshot
    processes: tuple[ProcessSubject, ...]
    devices: tuple[DeviceSubject, ...]


@dataclass(frozen=True, slots=True)
class Subjects:
    """All that has series. `left_out` is how many processes have none, by the reason."""

    runs: tuple[RunSubject, ...]
    states: dict[str, int]
    left_out: dict[str, int]


def subjects(look: FleetSnapshot, limits: Limits, alive_ns: Mapping[Labels, int]) -> Subjects:
    """Return what has series. `alive_ns` is when processes were last seen to be alive.

    A process has none once it has been over for `finished_for_s`, or silent where nobody can look
    it up; of the others running ones come first, then those that started last.
    """
    left_out = {"finished": 0, "duplicate": 0, "most_processes": 0}
    recent_ns = look.at_unix_ns - round(limits.finished_for_s * NS_PER_S)
    shown: dict[Labels, tuple[RunSnapshot, ProcessSnapshot]] = {}
    for run in look.runs:
        for process in run.processes:
            labels = process_labels(run, process)
            last_ns = max(_last_sign_ns(process), alive_ns.get(labels, 0))
            # Nobody sees a process of another machine end: there its silence has to do.
            if process.process.state not in LIVE and last_ns < recent_ns:
                left_out["finished"] += 1
            elif labels in shown:
                left_out["duplicate"] += 1
            else:
                shown[labels] = (run, process)
    kept = dict(sorted(shown.items(), key=_importance)[: limits.most_processes])
    left_out["most_processes"] = len(shown) - len(kept)
    found = (_run(run, look, kept, limits, recent_ns) for run in look.runs)
    by_labels = {run.labels: run for run in found if run is not None}
    states = Counter(run.run.state for run in look.runs)
    return Subjects(tuple(by_labels.values()), dict(states), left_out)


def run_name(run: RunSnapshot) -> str:
    """Return what identifies a run: not its id, which a copy of it has, too."""
    return label(os.path.basename(os.path.normpath(run.run.directory)) or run.run.id)


def process_labels(run: RunSnapshot, each: ProcessSnapshot) -> Labels:
    return (run_name(run), label(each.process.host), label(each.process.folder))


def _importance(item: tuple[Labels, tuple[RunSnapshot, ProcessSnapshot]]) -> tuple[bool, int]:
    process = item[1][1].process
    return process.state not in LIVE, -process.started_unix_ns


def _run(
    run: RunSnapshot,
    look: FleetSnapshot,
    kept: dict[Labels, tuple[RunSnapshot, ProcessSnapshot]],
    limits: Limits,
    recent_ns: int,
) -> RunSubject | None:
    """Return a run that has a process to show, runs, or has none and is young or unreadable."""
    mine = {process_labels(run, process): process for process in run.processes}
    processes = tuple(
        _process(labels, each, look.at_unix_ns, limits)
        for labels, each in mine.items()
        if labels in kept and kept[labels][1] is each
    )
    started_ns = run.started_unix_ns
    is_young = not run.processes and (isinstance(started_ns, Missing) or started_ns >= recent_ns)
    if not processes and not is_young and run.run.state not in LIVE:
        return None
    since_ns = look.at_unix_ns if isinstance(started_ns, Missing) else started_ns
    return RunSubject((run_name(run),), since_ns, run, processes, tuple(_devices(run, since_ns)))


def _process(
    labels: Labels, each: ProcessSnapshot, at_unix_ns: int, limits: Limits
) -> ProcessSubject:
    since_ns = each.process.started_unix_ns or at_unix_ns
    loops = tuple(_loops(labels, each.loops, since_ns, limits.most_loops))
    return ProcessSubject(labels, since_ns, each, _last_step_ns(each, at_unix_ns), loops)


def _loops(
    labels: Labels, loops: Iterable[Loop], since_ns: int, most: int
) -> Iterator[LoopSubject]:
    """Give the loops by kind and name; all but the first `most` to be seen are one.

    A process only ever gets more loops, so those that are first stay first.
    """
    groups: dict[tuple[str, str], list[Loop]] = {}
    for loop in sorted(loops, key=lambda loop: loop.index):
        key = (label(loop.kind), label(loop.name))
        if key not in groups and len(groups) >= most:
            key = _OTHER_LOOPS
        groups.setdefault(key, []).append(loop)
    for key, group in groups.items():
        yield LoopSubject((*labels, *key), since_ns, tuple(group))


def _devices(run: RunSnapshot, since_ns: int) -> Iterator[DeviceSubject]:
    """Give each accelerator with its latest sample."""
    latest: dict[Labels, DeviceSample] = {}
    for resource_sample in sorted(run.machines, key=lambda resource_sample: resource_sample.at_ns):
        for device in resource_sample.devices:
            latest[run_name(run), label(resource_sample.host), str(device.index)] = device
    for labels, device in latest.items():
        yield DeviceSubject(labels, since_ns, device)


def _last_step_ns(each: ProcessSnapshot, at_unix_ns: int) -> int | Missing:
    """Return the unix time of the last step's end."""
    ends = [int(loop.recent.end_ns[-1]) for loop in each.loops if len(loop.recent.end_ns)]
    if not ends:
        return Missing("no step has ended")
    noted_ns = each.process.unix_minus_monotonic_ns
    if isinstance(each.now_mono_ns, Missing) or each.process.state not in LIVE:
        return noted_ns if isinstance(noted_ns, Missing) else noted_ns + max(ends)
    seen_ns = at_unix_ns - each.now_mono_ns
    # What was noted once does not tremble, so that the same step keeps its time.
    if isinstance(noted_ns, Missing) or abs(seen_ns - noted_ns) > _CLOCK_WAS_SET_NS:
        return seen_ns + max(ends)
    return noted_ns + max(ends)


def _last_sign_ns(each: ProcessSnapshot) -> int:
    """Return the unix time of the last sign of life that the files tell of."""
    process = each.process
    alive_ns = 0 if isinstance(process.hooks, Missing) else process.hooks.wall_ns
    ends = [int(loop.recent.end_ns[-1]) for loop in each.loops if len(loop.recent.end_ns)]
    offset_ns = process.unix_minus_monotonic_ns
    last_ns = 0 if isinstance(offset_ns, Missing) or not ends else offset_ns + max(ends)
    return max(process.started_unix_ns + alive_ns, last_ns)
