"""Put many processes of a report into groups of like ones, and pick the few that stand out."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median

from tfprobe.analysis.steps.recent_steps import Overhead
from tfprobe.errors import Missing
from tfprobe.profile.profile import Process
from tfprobe.report.documents.run_report import LoopReport, ProcessReport

# As many processes are shown one by one.
FEW = 8
# Of each reason to stand out.
_MOST_NAMED = 3
# Ranks that do the same differ by chance, by some percent.
_SLOW_RATIO = 1.05
# Recording that costs twice what it usually does, and more than its budget usually is.
_DEAR_RATIO = 2.0
_DEAR_SHARE_RATIO = 0.01
_ENDED_WELL = ("finished", "terminated", "replaced", "running")


class Why(Enum):
    """Why a process stands out."""

    STATE = "state"
    SLOW = "slow"
    RECORDING = "recording"


@dataclass(frozen=True, slots=True)
class Extent:
    """The least, the middle and the most of one number of many processes."""

    least: float
    median: float
    most: float


@dataclass(frozen=True, slots=True)
class Group:
    """A loop that processes of one role and program do: how many of them, and their mean steps in
    ns. `program` is "" where the run has one alone.
    """

    role: str
    kind: str
    name: str
    processes: int
    steps: int
    mean_ns: Extent | Missing
    program: str = ""


@dataclass(frozen=True, slots=True)
class StandsOut:
    """A process to look at. `ratio` is how much slower its mean step of `work` is than the median,
    or the share of its time that recording took; 0 where its state is the reason.
    """

    report: ProcessReport
    why: Why
    ratio: float = 0.0
    loop: str = ""


@dataclass(frozen=True, slots=True)
class Crowd:
    """Many processes in few lines: numbers of each state, host and version, most common first."""

    processes: int
    hosts: int
    states: tuple[tuple[str, int], ...]
    tensorflows: tuple[tuple[str, int], ...]
    groups: tuple[Group, ...]
    recording_ratio: Extent | Missing
    stand_out: tuple[StandsOut, ...]


def crowd(processes: Sequence[ProcessReport]) -> Crowd:
    """Return what there is to say of many processes at once."""
    versions = (process.process.tensorflow for process in processes)
    costs = [share for share, _ in _costs(processes)]
    found = [*_ended_badly(processes), *_slow(processes), *_dear(processes)]
    return Crowd(
        processes=len(processes),
        hosts=len({process.process.host for process in processes}),
        states=_counted(process.process.state for process in processes),
        tensorflows=_counted(version for version in versions if not isinstance(version, Missing)),
        groups=_groups(processes),
        recording_ratio=_extent(costs),
        stand_out=tuple(found),
    )


_Key = tuple[str, str, str, str]


def _groups(processes: Sequence[ProcessReport]) -> tuple[Group, ...]:
    """Return the works by role and program, those with most time first."""
    found: dict[_Key, list[LoopReport]] = {}
    for process in processes:
        for item in process.loops:
            found.setdefault(_key(process.process, item), []).append(item)
    order = sorted(found, key=lambda key: -_total_ns(found[key]))
    return tuple(_group(key, found[key]) for key in order)


def _key(process: Process, item: LoopReport) -> _Key:
    program = process.program if process.title else ""
    return process.role or "", item.loop.kind, item.loop.name, program


def _total_ns(items: Sequence[LoopReport]) -> int:
    return sum(item.loop.times.sum_ns for item in items)


def _group(key: _Key, items: Sequence[LoopReport]) -> Group:
    role, kind, name, program = key
    return Group(
        role=role,
        kind=kind,
        name=name,
        program=program,
        processes=len({item.loop.process for item in items}),
        steps=sum(item.loop.count for item in items),
        mean_ns=_extent([mean for item in items if (mean := _mean_ns(item))]),
    )


def _mean_ns(item: LoopReport) -> float:
    """Return the mean step, 0 where none is known."""
    return 0.0 if isinstance(item.times, Missing) else item.times.mean_ns


def _extent(values: Sequence[float]) -> Extent | Missing:
    if not values:
        return Missing("no process tells")
    return Extent(min(values), median(values), max(values))


def _counted(values: Iterator[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))


def _ended_badly(processes: Sequence[ProcessReport]) -> Iterator[StandsOut]:
    """Give processes that ended otherwise than most did."""
    states = _counted(process.process.state for process in processes)
    usual = {states[0][0], *_ENDED_WELL}
    others = (process for process in processes if process.process.state not in usual)
    yield from (StandsOut(each, Why.STATE) for each in itertools.islice(others, _MOST_NAMED))


def _slow(processes: Sequence[ProcessReport]) -> Iterator[StandsOut]:
    """Give the slowest of the loop that takes most time in processes that do it together."""
    together: dict[tuple[_Key, int], list[tuple[LoopReport, ProcessReport]]] = {}
    for process in processes:
        for item in process.loops:
            key = _key(process.process, item), process.process.group
            together.setdefault(key, []).append((item, process))
    several = [rows for rows in together.values() if len(rows) > 1]
    rows = max(several, key=lambda rows: _total_ns([item for item, _ in rows]), default=[])
    usual = _extent([mean for item, _ in rows if (mean := _mean_ns(item))])
    if isinstance(usual, Missing):
        return
    found = [(_mean_ns(item) / usual.median, item, each) for item, each in rows]
    slow = sorted((each for each in found if each[0] > _SLOW_RATIO), key=lambda each: -each[0])
    for ratio, item, report in slow[:_MOST_NAMED]:
        yield StandsOut(report, Why.SLOW, ratio, f"{item.loop.kind} {item.loop.name}")


def _dear(processes: Sequence[ProcessReport]) -> Iterator[StandsOut]:
    """Give those that recording cost most, where that is much more than it usually is."""
    known = _costs(processes)
    if not known:
        return
    usual = median(share for share, _ in known)
    least = max(usual * _DEAR_RATIO, _DEAR_SHARE_RATIO)
    dear = sorted((each for each in known if each[0] > least), key=lambda each: -each[0])
    for share, report in dear[:_MOST_NAMED]:
        yield StandsOut(report, Why.RECORDING, share)


def _costs(processes: Sequence[ProcessReport]) -> list[tuple[float, ProcessReport]]:
    """Return the share of its time that recording took of each process of which that is known."""
    known = ((process.overhead, process) for process in processes)
    return [(cost.fraction_ratio, each) for cost, each in known if isinstance(cost, Overhead)]
