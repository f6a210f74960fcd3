"""Show the life of each process as bars of activities and steps, merged to fit a screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.steps.phases import EVALUATION_KINDS
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop, Process, Profile
from tfprobe.profile.tables import Int64s

STEPS, EVALUATION = "steps", "evaluation steps"
# Bars closer together than this fraction of all time are merged: less is no pixel.
_PARTS = 400
# Of all processes together; a document should not have more.
_MOST_BARS = 20_000


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """Time in which a process was in `count` intervals of a kind, in unix ns.

    `kind` is that of an activity, or STEPS or EVALUATION. `name` is "" for several names. With
    `is_estimate`, the first steps are no longer remembered, only when they began.
    """

    kind: str
    name: str
    start_ns: int
    end_ns: int
    count: int
    is_estimate: bool = False


@dataclass(frozen=True, slots=True)
class ProcessTimeline:
    """A process from its first moment to the last one that was recorded; it may still be running.

    Where bars overlap, the inner one comes later.
    """

    process: Process
    start_ns: int
    end_ns: int
    bars: tuple[TimelineBar, ...]


def process_timelines(profile: Profile) -> tuple[ProcessTimeline, ...]:
    """Return the timeline of each process whose start is known."""
    parts = max(min(_PARTS, _MOST_BARS // max(len(profile.processes), 1)), 20)
    by_process = {process.index: list(_kinds(profile, process)) for process in profile.processes}
    ends_ns = [int(kind.end_ns.max()) for kinds in by_process.values() for kind in kinds]
    starts_ns = [int(kind.start_ns.min()) for kinds in by_process.values() for kind in kinds]
    least_ns = (max(ends_ns, default=0) - min(starts_ns, default=0)) // parts
    return tuple(
        _timeline(process, by_process[process.index], least_ns)
        for process in profile.processes
        if process.started_unix_ns or by_process[process.index]
    )


@dataclass(frozen=True, slots=True)
class _Kind:
    """Intervals of one kind by start, and the names that occur among them."""

    kind: str
    names: frozenset[str]
    start_ns: Int64s
    end_ns: Int64s
    is_estimate: bool = False


def _timeline(process: Process, kinds: Sequence[_Kind], least_ns: int) -> ProcessTimeline:
    bars = [bar for kind in kinds for bar in _bars(kind, least_ns)]
    started_ns = [process.started_unix_ns] if process.started_unix_ns else []
    start_ns = min([*started_ns, *(bar.start_ns for bar in bars)])
    end_ns = max([start_ns, *(bar.end_ns for bar in bars)])
    if not isinstance(process.hooks, Missing):
        end_ns = max(end_ns, process.started_unix_ns + process.hooks.wall_ns)
    ordered = sorted(bars, key=lambda bar: (bar.start_ns, -bar.end_ns, bar.kind))
    return ProcessTimeline(process, start_ns, end_ns, tuple(ordered))


def _kinds(profile: Profile, process: Process) -> Iterator[_Kind]:
    named: dict[str, list[tuple[int, int, str]]] = {}
    for activity in profile.activities:
        if activity.process == process.index:
            named.setdefault(activity.kind, []).append(
                (activity.start_ns, activity.end_ns, activity.name)
            )
    for kind, rows in named.items():
        times_ns = np.array([row[:2] for row in sorted(rows)], dtype=np.int64).T
        names = frozenset(row[2] for row in rows)
        yield _Kind(kind, names, times_ns[0], np.maximum(times_ns[0], times_ns[1]))
    loops = [loop for loop in profile.loops if loop.process == process.index]
    for kind, evaluates in ((STEPS, False), (EVALUATION, True)):
        of_kind = [loop for loop in loops if (loop.kind in EVALUATION_KINDS) is evaluates]
        yield from _steps(kind, of_kind, process.unix_minus_monotonic_ns)


def _steps(kind: str, loops: Sequence[Loop], offset_ns: int | Missing) -> Iterator[_Kind]:
    stepped = [loop for loop in loops if len(loop.recent.start_ns)]
    if isinstance(offset_ns, Missing) or not stepped:
        return
    start_ns = np.concatenate([_starts_ns(loop, offset_ns) for loop in stepped])
    end_ns = np.concatenate([loop.recent.end_ns for loop in stepped]) + offset_ns
    order = np.argsort(start_ns, kind="stable")
    yield _Kind(
        kind=kind,
        names=frozenset(f"{loop.kind} {loop.name}" for loop in stepped),
        start_ns=start_ns[order],
        end_ns=np.maximum(start_ns, end_ns)[order],
        is_estimate=any(loop.recent.first_step for loop in stepped),
    )


def _starts_ns(loop: Loop, offset_ns: int) -> Int64s:
    """Return the starts of the remembered steps; the oldest stands for the forgotten ones, too."""
    start_ns: Int64s = loop.recent.start_ns + offset_ns
    if loop.recent.first_step and 0 < loop.first_seen_ns < start_ns[0]:
        start_ns[0] = loop.first_seen_ns
    return start_ns


def _bars(kind: _Kind, least_ns: int) -> Iterator[TimelineBar]:
    until_ns = np.maximum.accumulate(kind.end_ns)
    cuts = np.flatnonzero(kind.start_ns[1:] - until_ns[:-1] > least_ns) + 1
    name = next(iter(kind.names)) if len(kind.names) == 1 else ""
    for number, part in enumerate(np.split(np.arange(len(until_ns)), cuts)):
        yield TimelineBar(
            kind=kind.kind,
            name=name,
            start_ns=int(kind.start_ns[part[0]]),
            end_ns=int(until_ns[part[-1]]),
            count=len(part),
            is_estimate=kind.is_estimate and number == 0,
        )
