"""Gather what the cycles of all steps were spent on, and which rank comes last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from tfprobe.analysis.breakdown.cycles import LoopParts
from tfprobe.analysis.breakdown.gap_breakdown import GapCause
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.analysis.core.source_lines import is_of_library
from tfprobe.analysis.distributed import synchronization_events
from tfprobe.analysis.distributed.collectives import on_one_clock
from tfprobe.analysis.distributed.synchronization_events import (
    Met,
    SynchronizationEvents,
    SynchronizationKind,
    groups,
)
from tfprobe.errors import Missing
from tfprobe.findings.finding import Subject
from tfprobe.findings.gather.processes import subject_of
from tfprobe.findings.signals import LoopTiming, Parts, Turns, Waste
from tfprobe.profile.profile import Process, Profile
from tfprobe.profile.tables import Int64s

_Sums = dict[str, float]


def parts(item: LoopParts, timing: LoopTiming) -> Parts:
    """Return the parts of all cycles.

    Where no time between steps was watched, the cycle is the step alone.
    """
    inside = _summed(step.inside for step in item.steps)
    behind = _summed(gap.parts for gap in item.watched)
    # What recording added goes with the recording: nobody wins it by changing the job.
    inside.pop(Part.RECORDING.value, None)
    total = _scaled(inside, timing.regular_step_ns)
    # Ends of epochs and other long gaps have parts of their own: usual gaps tell nothing of them.
    between_ns = item.between_ns
    usual_ns = 0.0 if isinstance(between_ns, Missing) else between_ns * timing.steps
    for name, ns in _scaled(behind, min(timing.regular_gap_ns, usual_ns)).items():
        total[name] = total.get(name, 0.0) + ns
    total_ns = sum(total.values())
    return Parts(
        shares={name: ns / total_ns for name, ns in total.items()} if total_ns else {},
        cycle_ns=item.cycle_ns,
        total_ns=min(total_ns, timing.thread_ns),
        causes=tuple(_waste(cause) for cause in item.causes),
    )


def save_source(item: LoopParts) -> str:
    """Return the dearest line of the job that saves between its steps; "" where none was seen."""
    saves = [
        cause
        for cause in item.causes
        if cause.part is Part.CHECKPOINTS and cause.file and not is_of_library(cause.file)
    ]
    dearest = max(saves, key=lambda cause: cause.duration_ns, default=None)
    return "" if dearest is None else f"{dearest.file}:{dearest.line}"


def _summed(steps: Iterable[Mapping[Part, int]]) -> _Sums:
    total: _Sums = {}
    for step in steps:
        for part, ns in step.items():
            total[part.value] = total.get(part.value, 0.0) + ns
    return total


def _scaled(sums: _Sums, whole_ns: float) -> _Sums:
    total = sum(sums.values())
    return {name: ns / total * whole_ns for name, ns in sums.items()} if total > 0 else {}


def _waste(cause: GapCause) -> Waste:
    source = f"{cause.file}:{cause.line}" if cause.file else ""
    return Waste(cause.part.value, cause.what, source, float(cause.duration_ns))


# Of fewer, one of two equal ranks is last in nearly all by chance.
_LEAST_MATCHED = 5
_Key = tuple[int, int]
_Attending = tuple[_Key, Subject]


def turns(profile: Profile) -> dict[_Key, Turns]:
    """Return the turns of each loop of a rank, by its process and number; see `met`."""
    return met(_attending(profile), profile.processes, synchronization_events.part(profile))


def met(
    attending: Iterable[_Attending], processes: Sequence[Process], found: SynchronizationEvents
) -> dict[_Key, Turns]:
    """Return the turns of loops, each given by its process and number, and whose it is.

    Works of ranks of one job that are of one kind and name are compared. Where too few collectives
    were seen in several ranks there is nothing to compare.
    """
    loops: dict[tuple[str, int], list[_Attending]] = {}
    for key, subject in attending:
        if subject.rank is not None:
            alike = f"{subject.kind} {subject.name}", processes[key[0]].group
            loops.setdefault(alike, []).append((key, subject))
    told: dict[_Key, Turns] = {}
    for (name, _), group in loops.items():
        told |= _of_group(processes, found, name, group)
    return told


def _attending(profile: Profile) -> Iterator[_Attending]:
    for loop in profile.loops:
        owner = profile.processes[loop.process]
        yield (loop.process, loop.index), subject_of(owner, loop.kind, loop.name)


def _of_group(
    processes: Sequence[Process],
    found: SynchronizationEvents,
    name: str,
    loops: Sequence[_Attending],
) -> dict[_Key, Turns]:
    if name not in found.strings.values:
        return {}
    mine = found.loop == found.strings.values.index(name)
    own = found.only(mine & np.isin(found.process, [key[0] for key, _ in loops]))
    rows = own.only(own.kind == SynchronizationKind.COLLECTIVE)
    group = groups(np.stack((rows.step, rows.name.astype(np.int64), rows.nth)))
    process = rows.process.astype(np.int64)
    all_met, _ = on_one_clock(processes, lambda: own, group, process, rows.start_ns, rows.end_ns)
    by_process = _by_process(process, all_met, rows.end_ns - rows.start_ns)
    return {
        key: by_process[key[0]]
        for key, _ in loops
        if key[0] in by_process and by_process[key[0]].matched >= _LEAST_MATCHED
    }


def _by_process(process: Int64s, all_met: Met, took_ns: Int64s) -> dict[int, Turns]:
    told = {}
    for each in np.unique(process[all_met.is_matched]).tolist():
        mine = (process == each) & all_met.is_matched
        matched, last = int(mine.sum()), int(all_met.is_last[mine].sum())
        waiting_ns = int((took_ns - all_met.moving_ns)[mine].sum())
        told[each] = Turns(matched, last / matched, waiting_ns / matched)
    return told
