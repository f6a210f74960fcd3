"""Turn the tables and views of a profile into named signals. The only reader of tables here."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tfprobe.advice.finding import Place
from tfprobe.advice.gather import code
from tfprobe.advice.gather.loops import loops
from tfprobe.advice.gather.ops import ops
from tfprobe.advice.gather.parts import parts
from tfprobe.advice.gather.processes import process_signals
from tfprobe.advice.gather.syncs import syncs
from tfprobe.advice.signals import (
    NO_CAPTURE,
    NOT_GATHERED,
    Loop,
    Ops,
    ProcessSignals,
    Sample,
    Signals,
    WorkSignals,
)
from tfprobe.advice.thresholds import Thresholds
from tfprobe.errors import Missing
from tfprobe.model.executions import Executions
from tfprobe.model.profile import Capture, Profile, Work
from tfprobe.model.sampled import SampledWork
from tfprobe.views.breakdown.whole import WorkParts, by_work

_NS_PER_US = 1000


def gather(profile: Profile, sampled: Iterable[SampledWork], limits: Thresholds) -> Signals:
    """Return the signals of a run. `sampled` are works of it joined with graphs and code."""
    of_works = loops(profile)
    processes = tuple(
        process_signals(profile, process, _longest(of_works, process.index))
        for process in profile.processes
    )
    joined = {(each.work.process, each.work.index): each for each in sampled}
    cycles = _cycles(profile)
    works = tuple(
        _work(profile, work, of_works[work.process, work.index], processes, joined, cycles, limits)
        for work in profile.works
        if (work.process, work.index) in of_works
    )
    return Signals(processes, works)


def _cycles(profile: Profile) -> dict[tuple[int, int], WorkParts]:
    """Return the divided cycles of each work that has some."""
    return {
        (item.work.process, item.work.index): item
        for item in by_work(profile)
        if not isinstance(item.work, Missing)
    }


def _longest(of_works: dict[tuple[int, int], Loop], process: int) -> int:
    return max((loop.thread_ns for key, loop in of_works.items() if key[0] == process), default=0)


def _work(
    profile: Profile,
    work: Work,
    loop: Loop,
    processes: tuple[ProcessSignals, ...],
    joined: dict[tuple[int, int], SampledWork],
    cycles: dict[tuple[int, int], WorkParts],
    limits: Thresholds,
) -> WorkSignals:
    process = processes[work.process]
    captures = tuple(
        each
        for each in profile.captures
        if each.process == work.process and each.work == work.index
    )
    found = joined.get((work.process, work.index))
    cycle = cycles.get((work.process, work.index))
    place = process.place
    return WorkSignals(
        place=Place(place.host, place.pid, place.rank, work.kind, work.name),
        process=process,
        loop=loop,
        samples=_samples(profile, captures),
        parts=NO_CAPTURE if cycle is None else parts(cycle, loop),
        ops=_ops(profile, captures, limits),
        scopes=NOT_GATHERED if found is None else code.scopes(found),
        lines=NOT_GATHERED if found is None else code.lines(found),
        syncs=syncs(profile, work),
    )


def _samples(profile: Profile, captures: tuple[Capture, ...]) -> tuple[Sample, ...]:
    found = []
    for each in captures:
        process = profile.processes[each.process]
        file = f"{process.host}/{process.folder}/captures/{each.file}"
        found.append(Sample(each.step, file))
    return tuple(found)


def _ops(profile: Profile, captures: tuple[Capture, ...], limits: Thresholds) -> Ops | Missing:
    if not captures:
        return NO_CAPTURE
    mine = of_captures(profile.executions, captures)
    return ops(mine, captures, tiny_ns=limits.tiny_op_us * _NS_PER_US)


def of_captures(rows: Executions, captures: tuple[Capture, ...]) -> Executions:
    """Return the rows of these captures."""
    wanted = np.zeros(max((each.index for each in captures), default=0) + 1, dtype=np.bool_)
    wanted[[each.index for each in captures]] = True
    inside = rows.capture < len(wanted)
    inside[inside] = wanted[rows.capture[inside]]
    return rows.only(inside)
