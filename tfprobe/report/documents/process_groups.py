"""Summarize many processes of a report: groups of like processes, and the few that stand out."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median

from tfprobe.analysis.distributed.slow_ranks import Straggler
from tfprobe.analysis.steps.recent_steps import Overhead
from tfprobe.errors import Missing
from tfprobe.profile.profile import Process
from tfprobe.report.documents.run_report import LoopReport, ProcessReport, Report

# Up to this many processes are shown one by one.
FEW = 8
# Processes named for each reason.
_MOST_NAMED = 3
# Recording costs much if it costs twice what it usually does, and more than its usual budget.
_COSTLY_RATIO = 2.0
_COSTLY_SHARE_RATIO = 0.01
_ENDED_WELL = ("finished", "terminated", "replaced", "running")


class Reason(Enum):
    """Why a process stands out."""

    STATE = "state"
    SLOW = "slow"
    RECORDING = "recording"


@dataclass(frozen=True, slots=True)
class Extent:
    """The smallest, the median and the largest of one number of many processes."""

    least: float
    median: float
    most: float


@dataclass(frozen=True, slots=True)
class LoopGroup:
    """A loop that processes of one role and program run: how many of them, and their mean steps in
    ns. `program` is "" if all processes of the run have the same.
    """

    role: str
    kind: str
    name: str
    processes: int
    steps: int
    mean_ns: Extent | Missing
    program: str = ""


@dataclass(frozen=True, slots=True)
class NotableProcess:
    """A process that stands out.

    `ratio` is how much longer a step of `loop` takes it than the median process, or the share of
    its time that recording took; 0 if its state is the reason.
    """

    report: ProcessReport
    reason: Reason
    ratio: float = 0.0
    loop: str = ""


@dataclass(frozen=True, slots=True)
class ProcessGroups:
    """Many processes in a few lines: counts by state and version, the most common first."""

    processes: int
    hosts: int
    states: tuple[tuple[str, int], ...]
    tensorflows: tuple[tuple[str, int], ...]
    loops: tuple[LoopGroup, ...]
    recording_ratio: Extent | Missing
    notable: tuple[NotableProcess, ...]


def process_groups(report: Report) -> ProcessGroups:
    """Return the summary of the processes of a report."""
    processes = report.processes
    versions = (process.process.tensorflow for process in processes)
    ratios = [ratio for ratio, _ in _recording_ratios(processes)]
    return ProcessGroups(
        processes=len(processes),
        hosts=len({process.process.host for process in processes}),
        states=_counted(process.process.state for process in processes),
        tensorflows=_counted(version for version in versions if not isinstance(version, Missing)),
        loops=_loop_groups(processes),
        recording_ratio=_extent(ratios),
        notable=(*_ended_badly(processes), *_slow(report), *_costly_to_record(processes)),
    )


_Key = tuple[str, str, str, str]


def _loop_groups(processes: Sequence[ProcessReport]) -> tuple[LoopGroup, ...]:
    """Return the loops by role and program, those that take most time first."""
    groups: dict[_Key, list[LoopReport]] = {}
    for process in processes:
        for loop in process.loops:
            groups.setdefault(_key(process.process, loop), []).append(loop)
    order = sorted(groups, key=lambda key: -_total_ns(groups[key]))
    return tuple(_loop_group(key, groups[key]) for key in order)


def _key(process: Process, item: LoopReport) -> _Key:
    program = process.program if process.title else ""
    return process.role or "", item.loop.kind, item.loop.name, program


def _total_ns(items: Sequence[LoopReport]) -> int:
    return sum(item.loop.times.sum_ns for item in items)


def _loop_group(key: _Key, items: Sequence[LoopReport]) -> LoopGroup:
    role, kind, name, program = key
    return LoopGroup(
        role=role,
        kind=kind,
        name=name,
        program=program,
        processes=len({item.loop.process for item in items}),
        steps=sum(item.loop.count for item in items),
        mean_ns=_extent([mean for item in items if (mean := _mean_ns(item))]),
    )


def _mean_ns(item: LoopReport) -> float:
    """Return the mean step, 0 if unknown."""
    return 0.0 if isinstance(item.times, Missing) else item.times.mean_ns


def _extent(values: Sequence[float]) -> Extent | Missing:
    if not values:
        return Missing("no process tells")
    return Extent(min(values), median(values), max(values))


def _counted(values: Iterator[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))


def _ended_badly(processes: Sequence[ProcessReport]) -> Iterator[NotableProcess]:
    """Yield processes that ended otherwise than most did."""
    states = _counted(process.process.state for process in processes)
    usual = {states[0][0], *_ENDED_WELL}
    others = (process for process in processes if process.process.state not in usual)
    for process in itertools.islice(others, _MOST_NAMED):
        yield NotableProcess(process, Reason.STATE)


def _slow(report: Report) -> Iterator[NotableProcess]:
    """Yield the slowest processes of the run, each for the loop in which it is slowest."""
    slowest: dict[int, Straggler] = {}
    for straggler in report.slow:
        slowest.setdefault(straggler.process, straggler)
    for straggler in itertools.islice(slowest.values(), _MOST_NAMED):
        process = report.processes[straggler.process]
        yield NotableProcess(process, Reason.SLOW, straggler.late.excess_ratio, straggler.loop)


def _costly_to_record(processes: Sequence[ProcessReport]) -> Iterator[NotableProcess]:
    """Yield the processes that cost most to record, if that is much more than usual."""
    known = _recording_ratios(processes)
    if not known:
        return
    usual = median(ratio for ratio, _ in known)
    least = max(usual * _COSTLY_RATIO, _COSTLY_SHARE_RATIO)
    costly = sorted((pair for pair in known if pair[0] > least), key=lambda pair: -pair[0])
    for ratio, process in costly[:_MOST_NAMED]:
        yield NotableProcess(process, Reason.RECORDING, ratio)


def _recording_ratios(processes: Sequence[ProcessReport]) -> list[tuple[float, ProcessReport]]:
    """Return the share of its time that recording took, of each process for which it is known."""
    return [
        (process.overhead.fraction_ratio, process)
        for process in processes
        if isinstance(process.overhead, Overhead)
    ]
