"""Divide a recorded step itself: at each moment it is charged to the first of its active parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.errors import Missing
from tfprobe.model.activities import Activity
from tfprobe.model.executions import Executions, Place
from tfprobe.model.profile import Capture
from tfprobe.model.spans import SpanKind, Spans
from tfprobe.model.tables import Flags, Int64s
from tfprobe.views.breakdown.kinds import Names, is_part, parts_of
from tfprobe.views.breakdown.parts import (
    ON_DEVICE,
    WITH_ACCELERATOR,
    WITHOUT_ACCELERATOR,
    Part,
)
from tfprobe.views.intervals import NONE, Intervals, difference, intersection, one, union

# "…/device:GPU:1/stream:all", "/gpu:1/memcpy" and "/device:GPU:1" are one device.
_DEVICE = re.compile(r"(?:device:)?([a-z_]+):(\d+)(?:/(?:stream|memcpy).*)?\Z", re.IGNORECASE)
_SPAN_PARTS: Mapping[SpanKind, Part] = {
    SpanKind.RUNTIME: Part.KERNEL_LAUNCH,
    SpanKind.LAUNCH: Part.KERNEL_LAUNCH,
    SpanKind.COPY_CALL: Part.KERNEL_LAUNCH,
    SpanKind.SYNC: Part.SYNC_WAIT,
    SpanKind.COMPILE: Part.COMPILE,
}


@dataclass(frozen=True, slots=True)
class Inside:
    """The parts of one step in ns, summing to `duration_ns`; in which order its idle time lay.

    `before_ns` of the idle time passed before the first op began, the rest between ops.
    """

    duration_ns: int
    late_ns: int
    parts: Mapping[Part, int]
    idle_before_ns: int


def divide(
    capture: Capture,
    rows: Executions,
    spans: Spans,
    traced: Sequence[Activity],
    known: Names,
    *,
    is_fed: bool,
) -> Inside:
    """Return the parts of a step; `rows` and `spans` are those of its capture alone.

    A step lasts until the last kernel it launched has ended, which may be after it returned:
    `late_ns` later. Several devices are averaged. `traced` are functions traced in its process.
    """
    found = moments(capture, rows, spans, traced, known, is_fed=is_fed)
    devices = found.by_device
    total: dict[Part, int] = {
        which: sum(sets[which].length_ns for sets in devices.values() if which in sets)
        for which in Part
        if which is not Part.IDLE
    }
    mean = {which: ns // len(devices) for which, ns in total.items()}
    idle = next(iter(devices.values())).get(Part.IDLE, NONE)
    return _inside(capture, found.window, mean, idle, found.first_ns)


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


def moments(
    capture: Capture,
    rows: Executions,
    spans: Spans,
    traced: Sequence[Activity],
    known: Names,
    *,
    is_fed: bool,
) -> Moments:
    """Return when a step did what; arguments are those of `divide`."""
    rows = rows.only(~rows.background)
    spans = spans.only(~spans.background)
    shift = shift_ns(capture, rows)
    start_ns = rows.start_ns + shift
    end_ns = start_ns + rows.duration_ns
    window = _window(capture, rows, end_ns)
    step = one(*window)
    part = parts_of(rows, known)
    sets = {
        each: _clipped(step, union(start_ns[chosen], end_ns[chosen]))
        for each in (*WITH_ACCELERATOR, Part.KERNEL_LAUNCH)
        if (chosen := is_part(part, each) & (rows.place == Place.HOST)).any()
    }
    _add(sets, _span_sets(spans, step))
    _add(sets, {Part.COMPILE: _clipped(step, _activity_moments(traced))})
    busy = _extent(step, start_ns, end_ns, spans)
    _add(sets, {Part.FETCH: one(busy[1], window[1])})
    if is_fed:
        _add(sets, {Part.FEED: one(window[0], busy[0])})
    devices = _devices(rows)
    if not devices:
        return Moments(window, busy[0], {"": _sweep(step, sets, WITHOUT_ACCELERATOR)})
    found = {}
    for name, device in devices.items():
        own = {
            which: _clipped(step, union(start_ns[chosen], end_ns[chosen]))
            for which in ON_DEVICE
            if (chosen := is_part(part, which) & device & (rows.place != Place.HOST)).any()
        }
        found[name] = _sweep(step, {**sets, **own}, WITH_ACCELERATOR)
    return Moments(window, busy[0], found)


def _inside(
    capture: Capture,
    window: tuple[int, int],
    found: Mapping[Part, int],
    idle: Intervals,
    first: int,
) -> Inside:
    duration_ns = window[1] - window[0]
    parts = {part: ns for part, ns in found.items() if ns}
    idle_ns = duration_ns - sum(parts.values())
    if idle_ns:
        parts[Part.IDLE] = idle_ns
    before_ns = intersection(idle, one(window[0], first)).length_ns
    before_ns -= _take_out_recording(parts, capture, idle_before_ns=before_ns)
    return Inside(
        duration_ns=duration_ns,
        late_ns=duration_ns - capture.duration_ns,
        parts={part: ns for part, ns in parts.items() if ns},
        idle_before_ns=min(before_ns, idle_ns),
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
        (Part.FEED, parts.get(Part.FEED, 0)),
        (Part.IDLE, idle_before_ns),
    ):
        taken_ns = min(added_ns, most_ns)
        if not taken_ns:
            continue
        parts[part] -= taken_ns
        parts[Part.RECORDING] = parts.get(Part.RECORDING, 0) + taken_ns
        added_ns -= taken_ns
        idle_ns = taken_ns if part is Part.IDLE else 0
    return idle_ns


def _sweep(
    step: Intervals, sets: Mapping[Part, Intervals], order: Sequence[Part]
) -> dict[Part, Intervals]:
    """Return when each part was the first active one, and as IDLE when none was."""
    free, found = step, {}
    for part in order:
        if part in sets:
            found[part] = intersection(free, sets[part])
            free = difference(free, sets[part])
    found[Part.IDLE] = free
    return found


def shift_ns(capture: Capture, rows: Executions) -> int:
    """Return by how much the rows of a step are to be moved for its clock, mostly 0.

    Those that lie mostly outside the step came by another clock: the first starts with the step.
    """
    start_ns, end_ns = rows.start_ns, rows.start_ns + rows.duration_ns
    on_host = rows.place == Place.HOST
    seen = on_host if on_host.any() else ~on_host
    low, high = capture.start_ns, capture.start_ns + capture.duration_ns
    inside_ns = np.clip(end_ns, low, high) - np.clip(start_ns, low, high)
    if len(rows) and inside_ns[seen].sum() < 0.5 * rows.duration_ns[seen].sum():
        return capture.start_ns - int(start_ns.min())
    return 0


def _window(capture: Capture, rows: Executions, end_ns: Int64s) -> tuple[int, int]:
    on_device = rows.place != Place.HOST
    end = capture.start_ns + capture.duration_ns
    last = int(end_ns[on_device].max()) if on_device.any() else end
    return capture.start_ns, max(end, last)


def _clipped(step: Intervals, moments: Intervals) -> Intervals:
    return intersection(step, moments)


def _add(sets: dict[Part, Intervals], more: Mapping[Part, Intervals]) -> None:
    for part, moments in more.items():
        known = sets.get(part, NONE)
        sets[part] = union(
            np.concatenate([known.start_ns, moments.start_ns]),
            np.concatenate([known.end_ns, moments.end_ns]),
        )


def _span_sets(spans: Spans, step: Intervals) -> dict[Part, Intervals]:
    found: dict[Part, Intervals] = {}
    for kind, part in _SPAN_PARTS.items():
        chosen = spans.kind == kind
        if chosen.any():
            starts = spans.start_ns[chosen]
            moments = union(starts, starts + spans.duration_ns[chosen])
            _add(found, {part: _clipped(step, moments)})
    return found


def _activity_moments(traced: Sequence[Activity]) -> Intervals:
    starts = np.array([each.start_ns for each in traced], dtype=np.int64)
    return union(starts, np.array([each.end_ns for each in traced], dtype=np.int64))


def _extent(step: Intervals, start_ns: Int64s, end_ns: Int64s, spans: Spans) -> tuple[int, int]:
    """Return when the first op or driver call began and when the last ended, inside the step."""
    low, high = int(step.start_ns[0]), int(step.end_ns[0])
    work = spans.kind != SpanKind.FUNCTION_CALL
    starts = np.concatenate([start_ns, spans.start_ns[work]])
    ends = np.concatenate([end_ns, (spans.start_ns + spans.duration_ns)[work]])
    seen = (ends > low) & (starts < high)
    if not seen.any():
        return high, high
    return max(int(starts[seen].min()), low), min(int(ends[seen].max()), high)


def _devices(rows: Executions) -> dict[str, Flags]:
    """Return for each accelerator which rows are its own."""
    on_device = np.unique(rows.device[rows.place != Place.HOST]).tolist()
    keys = {at: _device_key(rows.strings[at]) for at in on_device}
    return {
        key: np.isin(rows.device, [at for at, each in keys.items() if each == key])
        for key in sorted(set(keys.values()))
    }


def _device_key(device: str) -> str:
    found = _DEVICE.search(device)
    return f"{found[1].lower()}:{found[2]}" if found else device


def traced_in(activities: Sequence[Activity], capture: Capture) -> Iterator[Activity]:
    """Give the functions that were traced during a step, in its process."""
    end_ns = capture.start_ns + capture.duration_ns
    for each in activities:
        overlaps = each.start_ns < end_ns and each.end_ns > capture.start_ns
        if each.kind == "trace" and each.process == capture.process and overlaps:
            yield each


def fed(capture: Capture, kind: str) -> bool:
    """Say whether arrays were handed to a step before its first op."""
    if isinstance(capture.fed_bytes, Missing):
        return kind in ("session_run", "callable")
    return capture.fed_bytes > 0
