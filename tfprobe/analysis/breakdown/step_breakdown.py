"""Divide traced steps into parts, from what each of their moments is charged to."""

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
from tfprobe.analysis.breakdown.step_parts import ON_DEVICE, ORDER, Part, PartNames
from tfprobe.analysis.breakdown.torch_phases import (
    NO_PHASES,
    Loading,
    StepPhases,
    loading,
    step_phases,
)
from tfprobe.analysis.core.intervals import Intervals, union
from tfprobe.analysis.core.names import is_pytorch
from tfprobe.errors import Missing
from tfprobe.profile.activities import COMPILING, Activity
from tfprobe.profile.capture_tables import Executions, Spans
from tfprobe.profile.profile import Capture, Loop
from tfprobe.profile.tables import Int64s, T

# Converting and copying an array runs at some GB/s, at a tenth of the memory's rate where its type
# or layout changes; an array of a few bytes takes some 10 us in Python.
_FEED_NS_A_BYTE = 2
_FEED_NS = 20_000


@dataclass(frozen=True, slots=True)
class StepBreakdown:
    """The parts of one step in ns, which sum to `duration_ns`.

    `late_ns` is how long its last kernel ran on after the call returned. `idle_before_ns` of the
    idle time passed before the first op began, the rest between ops. `collectives` are, by device,
    the moments charged to collectives, on the clock of the rows; empty where no device has any.
    `phases` are those of a step of PyTorch.
    """

    duration_ns: int
    late_ns: int
    parts: Mapping[Part, int]
    idle_before_ns: int
    collectives: tuple[Intervals, ...] = ()
    phases: StepPhases = NO_PHASES


@dataclass(frozen=True, slots=True)
class Moments:
    """The moments of a step that are charged to each part, by device, in unix ns.

    Without an accelerator there is one device, "". The sets of a device are disjoint and fill the
    `window`. `first_ns` is when the first op or driver call began. Time that recording added is not
    separated: it stays in feed, fetch or idle.
    """

    window: tuple[int, int]
    first_ns: int
    by_device: Mapping[str, Mapping[Part, Intervals]]


def divide_steps(steps: StepWindows, known: PartNames) -> tuple[StepBreakdown, ...]:
    """Return the parts of each step, as the mean of its devices.

    A step lasts until the last kernel it launched ends, which may be after the call returned.
    """
    if not steps.captures:
        return ()
    count, is_torch = len(steps.captures), is_pytorch(steps.rows)
    charged = charge_steps(steps, known)
    of_step = charged.segments.step[charged.intervals.segment]
    total = np.zeros((len(steps.captures), len(ORDER)), dtype=np.int64)
    np.add.at(total, (of_step, charged.part), charged.intervals.length_ns)
    mean = total // np.bincount(charged.segments.step)[:, None]
    return tuple(
        map(
            _inside,
            steps.captures,
            (charged.high_ns - charged.low_ns).tolist(),
            mean.tolist(),
            _idle_before_ns(charged).tolist(),
            _in_collectives(charged),
            step_phases(steps, charged) if is_torch else [NO_PHASES] * count,
            loading(steps.captures, steps.spans, range(count)) if is_torch else [None] * count,
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
    step = StepWindows((capture,), _as_first(rows), _as_first(spans), (traced,), (fed_ns,))
    charged = charge_steps(step, known)
    low_ns = int(charged.low_ns[0])
    by_device: dict[str, dict[Part, Intervals]] = {}
    for segment, name in enumerate(charged.segments.names):
        own = charged.intervals.segment == segment
        by_device[name] = {
            ORDER[number]: union(
                low_ns + charged.intervals.start_ns[own & (charged.part == number)],
                low_ns + charged.intervals.end_ns[own & (charged.part == number)],
            )
            for number in np.unique(charged.part[own]).tolist()
        }
    return Moments((low_ns, int(charged.high_ns[0])), int(charged.first_ns[0]), by_device)


def _idle_before_ns(charged: ChargedSteps) -> Int64s:
    """Return how long the first device of each step was idle before the first op."""
    intervals, segments = charged.intervals, charged.segments
    is_first = np.isin(intervals.segment, segments.first)
    chosen = np.flatnonzero((charged.part == IDLE) & is_first)
    step = segments.step[intervals.segment[chosen]]
    until_ns = np.minimum(intervals.end_ns[chosen], (charged.first_ns - charged.low_ns)[step])
    before_ns = np.zeros(len(charged.low_ns), dtype=np.int64)
    np.add.at(before_ns, step, np.maximum(until_ns - intervals.start_ns[chosen], 0))
    return before_ns


def _in_collectives(charged: ChargedSteps) -> list[tuple[Intervals, ...]]:
    """Return the moments of each step that are charged to collectives, by device."""
    intervals, step = charged.intervals, charged.segments.step
    moments: list[tuple[Intervals, ...]] = [()] * len(charged.low_ns)
    chosen = np.flatnonzero(charged.part == COLLECTIVES)
    chosen = chosen[np.argsort(intervals.segment[chosen], kind="stable")]
    segment = intervals.segment[chosen]
    base_ns = (charged.low_ns - charged.shift_ns)[step[segment]]
    start_ns, end_ns = base_ns + intervals.start_ns[chosen], base_ns + intervals.end_ns[chosen]
    for index in np.unique(step[segment]).tolist():
        devices = np.flatnonzero(step == index)
        edges = np.searchsorted(segment, [*devices, devices[-1] + 1]).tolist()
        moments[index] = tuple(
            union(start_ns[low:high], end_ns[low:high]) for low, high in itertools.pairwise(edges)
        )
    return moments


def _inside(
    capture: Capture,
    duration_ns: int,
    by_part: Sequence[int],
    idle_before_ns: int,
    collectives: tuple[Intervals, ...],
    phases: StepPhases,
    batches: Loading | None,
) -> StepBreakdown:
    parts = {part: ns for part, ns in zip(ORDER, by_part, strict=True) if ns}
    parts.pop(Part.IDLE, None)
    idle_ns = duration_ns - sum(parts.values())
    if idle_ns:
        parts[Part.IDLE] = idle_ns
    before_ns = min(idle_before_ns, idle_ns)
    before_ns -= _take_out_recording(parts, capture, idle_before_ns=before_ns)
    if batches is not None:
        _shorten_loading(parts, batches)
    # Where one part is as long as in other steps, so are the others.
    is_corrected = bool(batches and batches.traced_ns) or bool(set(ON_DEVICE) & set(parts))
    if is_corrected and not isinstance(capture.plain_ns, Missing):
        added_ns = max(duration_ns - parts.get(Part.RECORDING, 0) - capture.plain_ns, 0)
        left = _shorten_host(parts, added_ns)
        phases = phases.scaled(left)
        before_ns = int(before_ns * left.get(Part.IDLE, 1.0))
    return StepBreakdown(
        duration_ns=duration_ns,
        late_ns=duration_ns - capture.duration_ns,
        parts={part: ns for part, ns in parts.items() if ns},
        idle_before_ns=before_ns,
        collectives=collectives,
        phases=phases,
    )


def _take_out_recording(parts: dict[Part, int], capture: Capture, *, idle_before_ns: int) -> int:
    """Move to recording what a traced step took beyond the usual, before its first op or after all.

    There a Session starts and collects its trace, and the first events of a trace cost most. Return
    how much of that was idle time before the first op.
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


def _shorten_loading(parts: dict[Part, int], batches: Loading) -> None:
    """Move to recording what making batches took beyond what it takes in other steps."""
    ns = parts.get(Part.HOST_PREPROCESS, 0)
    left_ns = round(ns * batches.ratio)
    if left_ns < ns:
        parts[Part.HOST_PREPROCESS] = left_ns
        parts[Part.RECORDING] = parts.get(Part.RECORDING, 0) + ns - left_ns


# What the host does while no device works. A trace notes each op and each driver call, which makes
# the host slower and leaves kernels as they are.
_OF_HOST = (Part.HOST_COMPUTE, Part.KERNEL_LAUNCH, Part.SYNC_WAIT, Part.IDLE)


def _shorten_host(parts: dict[Part, int], added_ns: int) -> dict[Part, float]:
    """Move to recording what a traced step took beyond the usual, in proportion from the host.

    A step that usually runs beside those before it also waits for its launches when it is traced,
    which is alone. Return the share of each part that is left.
    """
    whole_ns = sum(parts.get(part, 0) for part in _OF_HOST)
    taken_ns = min(added_ns, whole_ns)
    if not taken_ns:
        return {}
    left: dict[Part, float] = {}
    for part in _OF_HOST:
        ns = parts.get(part, 0)
        if ns:
            own_ns = ns * taken_ns // whole_ns
            parts[part] = ns - own_ns
            parts[Part.RECORDING] = parts.get(Part.RECORDING, 0) + own_ns
            left[part] = (ns - own_ns) / ns
    return left


def shift_ns(capture: Capture, rows: Executions) -> int:
    """Return how far the rows of a step must be shifted to its clock, usually 0."""
    return int(shifts_ns((capture,), _as_first(rows))[0])


def _as_first(rows: T) -> T:
    return replace(rows, capture=np.zeros(len(rows), dtype=np.int32))


def traced_in(activities: Sequence[Activity], capture: Capture) -> Iterator[Activity]:
    """Yield the functions that were traced or compiled during a step, in its process."""
    end_ns = capture.start_ns + capture.duration_ns
    for activity in activities:
        overlaps = activity.start_ns < end_ns and activity.end_ns > capture.start_ns
        if activity.kind in COMPILING and activity.process == capture.process and overlaps:
            yield activity


ALIKE = Missing("all traced steps compile, or none does")


def compiling_ratio(
    loop: Loop, activities: Sequence[Activity], traced: Sequence[bool], shift_ns: int | Missing
) -> float | Missing:
    """Return the share of all steps of a loop in which a function was traced or compiled.

    `activities` are those of compiling, `traced` says of each traced step whether it compiled. The
    share is only needed if these differ. `shift_ns` turns monotonic times into unix times.
    """
    if all(traced) or not any(traced):
        return ALIKE
    steps = max(loop.executed, len(traced))
    counted = max(_recent(loop, activities, shift_ns), loop.retraces + 1, sum(traced))
    return min(counted, steps - traced.count(False)) / steps


def _recent(loop: Loop, activities: Sequence[Activity], shift_ns: int | Missing) -> int:
    """Return in how many of the latest steps something was compiled."""
    recent = loop.recent
    if isinstance(shift_ns, Missing) or not len(recent.start_ns):
        return 0
    own = [activity for activity in activities if activity.process == loop.process]
    began_ns = np.array([activity.start_ns - shift_ns for activity in own], dtype=np.int64)
    step = np.searchsorted(recent.start_ns, began_ns, side="right") - 1
    is_inside = (step >= 0) & (began_ns < recent.end_ns[np.maximum(step, 0)])
    return len(np.unique(step[is_inside]))


def fed_ns(capture: Capture, kind: str) -> int:
    """Return the longest time that feeding arrays to a step may have taken before its first op.

    Anything longer is Python and the start of the executor. Lists, whose bytes are not counted, are
    converted number by number: they may have taken all of the time.
    """
    if isinstance(capture.fed_bytes, Missing):
        return capture.duration_ns if kind in ("session_run", "callable") else 0
    return _FEED_NS + capture.fed_bytes * _FEED_NS_A_BYTE if capture.fed_bytes else 0
