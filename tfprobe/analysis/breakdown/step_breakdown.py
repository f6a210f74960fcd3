"""Divide traced steps themselves: each moment is charged to the first of its active parts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfprobe.analysis.breakdown.attribution import (
    COLLECTIVES,
    IDLE,
    ChargedSteps,
    StepWindows,
    charge_steps,
    shifts_ns,
)
from tfprobe.analysis.breakdown.step_parts import ORDER, Part, PartNames
from tfprobe.analysis.core.intervals import Intervals, union
from tfprobe.errors import Missing
from tfprobe.profile.activities import Activity
from tfprobe.profile.capture_tables import Executions, Spans
from tfprobe.profile.profile import Capture
from tfprobe.profile.tables import Int64s, T

# Converting and copying an array goes at some GB/s, at a tenth of memory's rate where its type and
# layout are turned; an array of a few bytes takes some 10 us in Python.
_FEED_NS_A_BYTE = 2
_FEED_NS = 20_000


@dataclass(frozen=True, slots=True)
class StepBreakdown:
    """The parts of one step in ns, summing to `duration_ns`; in which order its idle time lay.

    `before_ns` of the idle time passed before the first op began, the rest between ops.
    `collectives` are, by device, the moments that are charged to collectives, by the clock of the
    rows; none where no device has any.
    """

    duration_ns: int
    late_ns: int
    parts: Mapping[Part, int]
    idle_before_ns: int
    collectives: tuple[Intervals, ...] = ()


@dataclass(frozen=True, slots=True)
class Moments:
    """When each part was the one that a moment of a step is charged to, by device, in unix ns.

    Without an accelerator there is one device, "". The sets of a device are disjoint and fill the
    `window`. `first_ns` is when the first op or driver call began. What recording added to a step
    stands where it was: as feed, fetch or idle time.
    """

    window: tuple[int, int]
    first_ns: int
    by_device: Mapping[str, Mapping[Part, Intervals]]


def divide_steps(steps: StepWindows, known: PartNames) -> tuple[StepBreakdown, ...]:
    """Return the parts of each step.

    A step lasts until the last kernel it launched has ended, which may be after it returned:
    `late_ns` later. Several devices are averaged.
    """
    if not steps.captures:
        return ()
    found = charge_steps(steps, known)
    of_step = found.segments.step[found.stretches.segment]
    total = np.zeros((len(steps.captures), len(ORDER)), dtype=np.int64)
    np.add.at(total, (of_step, found.part), found.stretches.length_ns)
    mean = total // np.bincount(found.segments.step)[:, None]
    return tuple(
        map(
            _inside,
            steps.captures,
            (found.high_ns - found.low_ns).tolist(),
            mean.tolist(),
            _idle_before_ns(found).tolist(),
            _in_collectives(found),
        )
    )


def part_moments(
    capture: Capture,
    rows: Executions,
    spans: Spans,
    traced: Sequence[Activity],
    known: PartNames,
    *,
    fed_ns: int,
) -> Moments:
    """Return when a step did what; `rows` and `spans` are those of its capture alone."""
    mine = StepWindows((capture,), _as_first(rows), _as_first(spans), (traced,), (fed_ns,))
    found = charge_steps(mine, known)
    low_ns = int(found.low_ns[0])
    by_device: dict[str, dict[Part, Intervals]] = {}
    for at, name in enumerate(found.segments.names):
        own = found.stretches.segment == at
        by_device[name] = {
            ORDER[number]: union(
                low_ns + found.stretches.start_ns[own & (found.part == number)],
                low_ns + found.stretches.end_ns[own & (found.part == number)],
            )
            for number in np.unique(found.part[own]).tolist()
        }
    return Moments((low_ns, int(found.high_ns[0])), int(found.first_ns[0]), by_device)


def _idle_before_ns(found: ChargedSteps) -> Int64s:
    """Return the idle time of each step, of its first device, that passed before its first op."""
    stretches, segments = found.stretches, found.segments
    is_first = np.zeros(len(segments.step), dtype=np.bool_)
    is_first[segments.first] = True
    chosen = np.flatnonzero((found.part == IDLE) & is_first[stretches.segment])
    step = segments.step[stretches.segment[chosen]]
    until_ns = np.minimum(stretches.end_ns[chosen], (found.first_ns - found.low_ns)[step])
    before_ns = np.zeros(len(found.low_ns), dtype=np.int64)
    np.add.at(before_ns, step, np.maximum(until_ns - stretches.start_ns[chosen], 0))
    return before_ns


def _in_collectives(found: ChargedSteps) -> list[tuple[Intervals, ...]]:
    """Return the moments of each step that are charged to collectives, by device."""
    stretches, step = found.stretches, found.segments.step
    moments: list[tuple[Intervals, ...]] = [()] * len(found.low_ns)
    chosen = np.flatnonzero(found.part == COLLECTIVES)
    chosen = chosen[np.argsort(stretches.segment[chosen], kind="stable")]
    segment = stretches.segment[chosen]
    base_ns = (found.low_ns - found.shift_ns)[step[segment]]
    start_ns, end_ns = base_ns + stretches.start_ns[chosen], base_ns + stretches.end_ns[chosen]
    for at in np.unique(step[segment]).tolist():
        devices = np.flatnonzero(step == at)
        edges = np.searchsorted(segment, [*devices, devices[-1] + 1]).tolist()
        moments[at] = tuple(
            union(start_ns[low:high], end_ns[low:high]) for low, high in itertools.pairwise(edges)
        )
    return moments


def _inside(
    capture: Capture,
    duration_ns: int,
    by_part: Sequence[int],
    idle_before_ns: int,
    collectives: tuple[Intervals, ...],
) -> StepBreakdown:
    parts = {part: ns for part, ns in zip(ORDER, by_part, strict=True) if ns}
    parts.pop(Part.IDLE, None)
    idle_ns = duration_ns - sum(parts.values())
    if idle_ns:
        parts[Part.IDLE] = idle_ns
    before_ns = idle_before_ns
    before_ns -= _take_out_recording(parts, capture, idle_before_ns=before_ns)
    return StepBreakdown(
        duration_ns=duration_ns,
        late_ns=duration_ns - capture.duration_ns,
        parts={part: ns for part, ns in parts.items() if ns},
        idle_before_ns=min(before_ns, idle_ns),
        collectives=collectives,
    )


def _take_out_recording(parts: dict[Part, int], capture: Capture, *, idle_before_ns: int) -> int:
    """Call recording what a traced step took beyond the usual, before its first op and after all.

    There a Session begins its trace and gathers it, and the first events of a window cost most.
    Return how much of it was idle time before the first op.
    """
    if isinstance(capture.plain_ns, Missing):
        return 0
    added_ns = max(capture.duration_ns - capture.plain_ns, 0)
    idle_ns = 0
    for part, most_ns in (
        (Part.FETCH, parts.get(Part.FETCH, 0)),
        (Part.IDLE, idle_before_ns),
        (Part.FEED, parts.get(Part.FEED, 0)),
    ):
        taken_ns = min(added_ns, most_ns)
        if not taken_ns:
            continue
        parts[part] -= taken_ns
        parts[Part.RECORDING] = parts.get(Part.RECORDING, 0) + taken_ns
        added_ns -= taken_ns
        idle_ns = taken_ns if part is Part.IDLE else idle_ns
    return idle_ns


def shift_ns(capture: Capture, rows: Executions) -> int:
    """Return by how much the rows of a step are to be moved for its clock, mostly 0."""
    return int(shifts_ns((capture,), _as_first(rows))[0])


def _as_first(rows: T) -> T:
    return replace(rows, capture=np.zeros(len(rows), dtype=np.int32))


def traced_in(activities: Sequence[Activity], capture: Capture) -> Iterator[Activity]:
    """Give the functions that were traced during a step, in its process."""
    end_ns = capture.start_ns + capture.duration_ns
    for activity in activities:
        overlaps = activity.start_ns < end_ns and activity.end_ns > capture.start_ns
        if activity.kind == "trace" and activity.process == capture.process and overlaps:
            yield activity


def fed_ns(capture: Capture, kind: str) -> int:
    """Return how long handing arrays to a step may have taken before its first op.

    What is longer than that is no feed, but Python and the start of the executor. Lists, whose
    bytes nobody counted, are converted one number at a time: they may have taken all of it.
    """
    if isinstance(capture.fed_bytes, Missing):
        return capture.duration_ns if kind in ("session_run", "callable") else 0
    return _FEED_NS + capture.fed_bytes * _FEED_NS_A_BYTE if capture.fed_bytes else 0
