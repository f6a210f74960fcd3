"""Divide what steps of PyTorch compute into forward, backward and update, and name their waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

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
    union,
)
from tfprobe.analysis.core.names import PHASES, phases
from tfprobe.profile.capture_tables import Place, SpanKind
from tfprobe.profile.tables import Flags, Int32s, Int64s

_DIVIDED = (Part.HOST_COMPUTE, *DEVICE_COMPUTE)


@dataclass(frozen=True, slots=True)
class StepPhases:
    """Of one step, the time of each part by phase, and the waits for a device by op, in ns."""

    times_ns: Mapping[tuple[Part, str], int] = field(default_factory=dict)
    waits_ns: Mapping[str, int] = field(default_factory=dict)


NO_PHASES = StepPhases()


def step_phases(steps: StepWindows, charged: ChargedSteps) -> list[StepPhases]:
    """Return the phases of each step; all ops are PyTorch's."""
    rows = steps.rows
    count = len(steps.captures)
    phase = phases(rows)
    start_ns = rows.start_ns + charged.shift_ns[rows.capture]
    end_ns = start_ns + rows.duration_ns
    on_host = rows.place == Place.HOST
    found = []
    for step in range(count):
        mine = (rows.capture == step) & ~rows.background
        segments = np.flatnonzero(charged.segments.step == step).tolist()
        times_ns: dict[tuple[Part, str], int] = defaultdict(int)
        for segment in segments:
            for part in _DIVIDED:
                moments = _moments(charged, segment, part)
                chosen = mine & (on_host if part is Part.HOST_COMPUTE else ~on_host)
                for number, ns in _shares(moments, phase[chosen], start_ns[chosen], end_ns[chosen]):
                    times_ns[part, PHASES[number]] += ns // len(segments)
            for name, ns in _idle(steps, charged, step, segment):
                times_ns[Part.IDLE, name] += ns // len(segments)
        several = len({name for _, name in times_ns}) > 1
        waits_ns = _waits(steps, charged, step, mine & on_host, segments[0])
        found.append(StepPhases(dict(times_ns) if several else {}, waits_ns))
    return found


def _idle(
    steps: StepWindows, charged: ChargedSteps, step: int, segment: int
) -> Iterator[tuple[str, int]]:
    """Yield how much of the idle time between ops passed in each phase, by its sections."""
    spans = steps.spans
    idle = _moments(charged, segment, Part.IDLE)
    first_ns, last_ns = int(charged.first_ns[step]), int(charged.high_ns[step])
    idle = clipped(idle, first_ns, last_ns)
    sections = np.flatnonzero((spans.capture == step) & (spans.kind == SpanKind.SECTION))
    for name in PHASES:
        chosen = [at for at in sections.tolist() if spans.strings[spans.detail[at]] == name]
        if not chosen or not len(idle.start_ns):
            continue
        start_ns = spans.start_ns[chosen] + charged.shift_ns[step]
        taken = intersection(idle, union(start_ns, start_ns + spans.duration_ns[chosen]))
        if taken.length_ns:
            yield name, taken.length_ns
            idle = difference(idle, taken)


def _moments(charged: ChargedSteps, segment: int, part: Part) -> Intervals:
    own = (charged.intervals.segment == segment) & (charged.part == ORDER.index(part))
    if not own.any():
        return NONE
    low_ns = charged.low_ns[charged.segments.step[segment]]
    return union(low_ns + charged.intervals.start_ns[own], low_ns + charged.intervals.end_ns[own])


def _shares(
    moments: Intervals, phase: Int64s, start_ns: Int64s, end_ns: Int64s
) -> Iterator[tuple[int, int]]:
    """Yield how much of these moments rows of each phase take; of several at once, the first."""
    for number in np.unique(phase).tolist() if len(moments.start_ns) else ():
        chosen = phase == number
        taken = intersection(moments, union(start_ns[chosen], end_ns[chosen]))
        if taken.length_ns:
            yield number, taken.length_ns
            moments = difference(moments, taken)


def _waits(
    steps: StepWindows, charged: ChargedSteps, step: int, on_host: Flags, segment: int
) -> dict[str, int]:
    """Return how long the host waited for a device in each op, by the name of its row."""
    spans, rows = steps.spans, steps.rows
    waiting = np.flatnonzero((spans.capture == step) & (spans.kind == SpanKind.SYNC))
    moments = _moments(charged, segment, Part.SYNC_WAIT)
    if not len(waiting) or not len(moments.start_ns):
        return {}
    shift_ns = charged.shift_ns[step]
    found: dict[str, list[Intervals]] = defaultdict(list)
    hosts = np.flatnonzero(on_host)
    ends_ns = rows.start_ns[hosts] + rows.duration_ns[hosts]
    for span in waiting.tolist():
        begin_ns, until_ns = int(spans.start_ns[span]), int(spans.start_ns[span])
        until_ns += int(spans.duration_ns[span])
        around = hosts[
            (rows.start_ns[hosts] <= begin_ns)
            & (ends_ns >= until_ns)
            & (_texts(rows.strings.values, rows.lane[hosts], spans.strings[spans.lane[span]]))
        ]
        # The one that an op like `item` calls in the end says less than the outermost.
        outer = around[np.argmax(rows.duration_ns[around])] if len(around) else None
        name = "" if outer is None else rows.strings[int(rows.name[outer])]
        found[name or spans.strings[int(spans.name[span])]].append(
            Intervals(np.array([begin_ns + shift_ns]), np.array([until_ns + shift_ns]))
        )
    return {name: intersection(joined(*sets), moments).length_ns for name, sets in found.items()}


def _texts(values: Sequence[str], column: Int32s, wanted: str) -> Flags:
    numbers = np.unique(column)
    known = [number for number in numbers.tolist() if values[number] == wanted]
    chosen: Flags = np.isin(column, known)
    return chosen
