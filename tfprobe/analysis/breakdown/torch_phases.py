"""Divide what steps of PyTorch compute into forward, backward and update, and name their waits.

Say how long a DataLoader without workers takes when nothing is traced.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tfprobe.analysis.breakdown.attribution import ChargedSteps, StepWindows
from tfprobe.analysis.breakdown.step_parts import DEVICE_COMPUTE, ORDER, Part
from tfprobe.analysis.core.intervals import (
    NONE,
    Intervals,
    clipped,
    difference,
    intersection,
    joined,
    one,
    union,
)
from tfprobe.analysis.core.names import PHASES, phases
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Executions, Place, SpanKind, Spans
from tfprobe.profile.profile import Capture
from tfprobe.profile.tables import Int8s, Int64s, T

_DIVIDED = (Part.HOST_COMPUTE, *DEVICE_COMPUTE)


class PythonTime(NamedTuple):
    """A function of Python in which idle time passed, with its line as "file:line", "" unknown.

    `is_before`: before the first op of the step began.
    """

    name: str
    source: str
    is_before: bool


@dataclass(frozen=True, slots=True)
class StepPhases:
    """Of one step, the time of each part by phase, the waits for a device by op, and other idle
    time by the function of Python, in ns.
    """

    times_ns: Mapping[tuple[Part, str], int] = field(default_factory=dict)
    waits_ns: Mapping[str, int] = field(default_factory=dict)
    python_ns: Mapping[PythonTime, int] = field(default_factory=dict)

    def scaled(self, left: Mapping[Part, float]) -> StepPhases:
        """Return the times of a step of whose parts these shares are left."""
        if not left:
            return self
        idle, waits = left.get(Part.IDLE, 1.0), left.get(Part.SYNC_WAIT, 1.0)
        times_ns = self.times_ns.items()
        return StepPhases(
            {key: int(ns * left.get(key[0], 1.0)) for key, ns in times_ns},
            {name: int(ns * waits) for name, ns in self.waits_ns.items()},
            {python: int(ns * idle) for python, ns in self.python_ns.items()},
        )


NO_PHASES = StepPhases()


def step_phases(steps: StepWindows, charged: ChargedSteps) -> list[StepPhases]:
    """Return the phases of each step; all ops are PyTorch's."""
    phase = phases(steps.rows)
    numbers = np.arange(len(steps.captures) + 1)
    # The rows of a step stand together, and so do its spans, segments and intervals.
    edges = [
        np.searchsorted(column, numbers).tolist()
        for column in (steps.rows.capture, steps.spans.capture, charged.segments.step)
    ]
    of_segments = np.searchsorted(
        charged.intervals.segment, np.arange(len(charged.segments.step) + 1)
    ).tolist()
    found = []
    for step in range(len(steps.captures)):
        rows, spans, segments = (slice(edge[step], edge[step + 1]) for edge in edges)
        own = range(segments.start, segments.stop)
        found.append(
            _Step(
                rows=_between(steps.rows, rows),
                spans=_between(steps.spans, spans),
                phase=phase[rows],
                shift_ns=int(charged.shift_ns[step]),
                first_ns=int(charged.first_ns[step]),
                high_ns=int(charged.high_ns[step]),
                moments=[
                    _moments(charged, step, slice(of_segments[at], of_segments[at + 1]))
                    for at in own
                ],
            ).phases()
        )
    return found


def _between(table: T, chosen: slice) -> T:
    columns = {name: getattr(table, name)[chosen] for name in table.DTYPES}
    return type(table)(strings=table.strings, **columns)


def _moments(charged: ChargedSteps, step: int, chosen: slice) -> dict[Part, Intervals]:
    """Return the moments of a segment by part."""
    low_ns = charged.low_ns[step]
    part = charged.part[chosen]
    start_ns = low_ns + charged.intervals.start_ns[chosen]
    end_ns = low_ns + charged.intervals.end_ns[chosen]
    return {
        ORDER[number]: union(start_ns[part == number], end_ns[part == number])
        for number in np.unique(part).tolist()
    }


@dataclass(frozen=True, slots=True)
class _Step:
    """One step: its rows and spans, and what each moment is charged to on each device."""

    rows: Executions
    spans: Spans
    phase: Int8s
    shift_ns: int
    first_ns: int
    high_ns: int
    moments: list[dict[Part, Intervals]]

    def phases(self) -> StepPhases:
        """Return its phases, none if there is only one."""
        start_ns = self.rows.start_ns + self.shift_ns
        end_ns = start_ns + self.rows.duration_ns
        on_host = self.rows.place == Place.HOST
        of_step = ~self.rows.background
        times_ns: dict[tuple[Part, str], int] = defaultdict(int)
        count = len(self.moments)
        for by_part in self.moments:
            for part in _DIVIDED:
                if part not in by_part:
                    continue
                chosen = of_step & (on_host if part is Part.HOST_COMPUTE else ~on_host)
                times = (self.phase[chosen], start_ns[chosen], end_ns[chosen])
                for number, ns in _shares(by_part[part], *times):
                    times_ns[part, PHASES[number]] += ns // count
            for name, ns in self._idle(by_part.get(Part.IDLE, NONE)):
                times_ns[Part.IDLE, name] += ns // count
        several = len({name for _, name in times_ns}) > 1
        waits = self.moments[0].get(Part.SYNC_WAIT, NONE) if count else NONE
        idle = self.moments[0].get(Part.IDLE, NONE) if count else NONE
        return StepPhases(
            dict(times_ns) if several else {},
            self._waits(waits),
            dict(self._python(idle, without_phases=several)),
        )

    def _python(self, idle: Intervals, *, without_phases: bool) -> Iterator[tuple[PythonTime, int]]:
        """Yield how much of the idle time on the first device passed in functions of Python."""
        spans = self.spans
        if without_phases:
            of_phase = {at for at, text in enumerate(spans.strings.values) if text in PHASES}
            chosen = np.flatnonzero(
                (spans.kind == SpanKind.SECTION) & np.isin(spans.detail, list(of_phase))
            )
            starts_ns = spans.start_ns[chosen] + self.shift_ns
            within = union(starts_ns, starts_ns + spans.duration_ns[chosen])
            within = clipped(within, self.first_ns, max(self.high_ns, self.first_ns))
            idle = difference(idle, within)
        found: dict[PythonTime, int] = defaultdict(int)
        for at in np.flatnonzero(spans.kind == SpanKind.PYTHON_GAP).tolist():
            start_ns = int(spans.start_ns[at]) + self.shift_ns
            taken = intersection(idle, one(start_ns, start_ns + int(spans.duration_ns[at])))
            name, source = spans.strings[spans.name[at]], spans.strings[spans.detail[at]]
            before_ns = clipped(taken, 0, self.first_ns).length_ns
            found[PythonTime(name, source, is_before=True)] += before_ns
            found[PythonTime(name, source, is_before=False)] += taken.length_ns - before_ns
            idle = difference(idle, taken)
        yield from ((key, ns) for key, ns in found.items() if ns)

    def _idle(self, idle: Intervals) -> Iterator[tuple[str, int]]:
        """Yield how much of the idle time between ops passed in each phase, by its sections."""
        spans = self.spans
        idle = clipped(idle, self.first_ns, self.high_ns)
        sections = np.flatnonzero(spans.kind == SpanKind.SECTION)
        details = spans.detail[sections]
        known = {spans.strings[at]: at for at in np.unique(details).tolist()}
        for name in PHASES:
            if name not in known or not len(idle.start_ns):
                continue
            chosen = sections[details == known[name]]
            start_ns = spans.start_ns[chosen] + self.shift_ns
            taken = intersection(idle, union(start_ns, start_ns + spans.duration_ns[chosen]))
            if taken.length_ns:
                yield name, taken.length_ns
                idle = difference(idle, taken)

    def _waits(self, moments: Intervals) -> dict[str, int]:
        """Return how long the host waited for a device in each op, by the name of its row."""
        spans, rows = self.spans, self.rows
        waiting = np.flatnonzero(spans.kind == SpanKind.SYNC)
        if not len(waiting) or not len(moments.start_ns):
            return {}
        found: dict[str, list[Intervals]] = defaultdict(list)
        hosts = np.flatnonzero((rows.place == Place.HOST) & ~rows.background)
        ends_ns = rows.start_ns[hosts] + rows.duration_ns[hosts]
        for span in waiting.tolist():
            begin_ns = int(spans.start_ns[span])
            until_ns = begin_ns + int(spans.duration_ns[span])
            around = hosts[
                (rows.start_ns[hosts] <= begin_ns)
                & (ends_ns >= until_ns)
                & (rows.lane[hosts] == spans.lane[span])
            ]
            # The one that an op like `item` calls in the end says less than the outermost.
            outer = around[np.argmax(rows.duration_ns[around])] if len(around) else None
            name = "" if outer is None else rows.strings[int(rows.name[outer])]
            found[name or spans.strings[int(spans.name[span])]].append(
                one(begin_ns + self.shift_ns, until_ns + self.shift_ns)
            )
        return {
            name: intersection(joined(*sets), moments).length_ns for name, sets in found.items()
        }


def _shares(
    moments: Intervals, phase: Int8s, start_ns: Int64s, end_ns: Int64s
) -> Iterator[tuple[int, int]]:
    """Yield how much of these moments rows of each phase take; of several at once, the first."""
    for number in np.unique(phase).tolist() if len(moments.start_ns) else ():
        chosen = phase == number
        taken = intersection(moments, union(start_ns[chosen], end_ns[chosen]))
        if taken.length_ns:
            yield number, taken.length_ns
            moments = difference(moments, taken)


@dataclass(frozen=True, slots=True)
class Loading:
    """How long the batches of one traced step took, in ns, and how long they usually take.

    A trace makes Python that makes batches several times as slow, and the ops of a model hardly: of
    a step of 50 ms whose batch took 3.5 ms, a trace showed 13 ms of 63. So the agent notes how long
    batches take in other steps.
    """

    traced_ns: int
    usual_ns: int

    @property
    def ratio(self) -> float:
        """Return what is left of the traced time without what tracing added; at most 1."""
        return min(self.usual_ns / self.traced_ns, 1.0) if self.traced_ns else 1.0


def loading(
    captures: Sequence[Capture], spans: Spans, numbers: Sequence[int]
) -> tuple[Loading | None, ...]:
    """Return the loading of each of these captures, None where nothing is known of other steps.

    `numbers` are what `spans` call the captures.
    """
    found: list[Loading | None] = []
    is_loading = spans.kind == SpanKind.LOADER_WORK
    for capture, number in zip(captures, numbers, strict=True):
        if isinstance(capture.batch_ns, Missing):
            found.append(None)
            continue
        own = np.flatnonzero(is_loading & (spans.capture == number))
        own = own[np.lexsort((-spans.duration_ns[own], spans.start_ns[own]))]
        start_ns, took_ns = spans.start_ns[own], spans.duration_ns[own]
        # A batch that is taken while another one is made is part of that.
        until_ns = np.maximum.accumulate(start_ns + took_ns)
        is_outer = np.concatenate([[True], start_ns[1:] >= until_ns[:-1]])[: len(own)]
        batches = int(np.count_nonzero(is_outer))
        found.append(Loading(int(took_ns[is_outer].sum()), capture.batch_ns * batches))
    return tuple(found)
