"""Charge every moment of the traced steps to one part, on each device.

Ops, driver calls, traced functions and the ends of a step claim intervals; the claim with the
highest priority gets the moment. All steps are processed at once; `step_breakdown` sums up each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tfprobe.analysis.breakdown.step_parts import (
    ORDER,
    WITH_ACCELERATOR,
    WITHOUT_ACCELERATOR,
    Part,
    PartNames,
    parts_of,
)
from tfprobe.analysis.core.intervals import NONE, Intervals, innermost, union
from tfprobe.profile.activities import Activity
from tfprobe.profile.capture_tables import Executions, Place, SpanKind, Spans
from tfprobe.profile.profile import Capture
from tfprobe.profile.tables import Flags, Int64s, used

# The rank of moments that no claim covers.
UNCLAIMED = -1
_LONGEST_NS = 2.0**61


class Claims(NamedTuple):
    """Claimed intervals, relative to the start of their segment and cut to it.

    Where several claims cover a moment, the one with the lowest `rank` gets it.
    """

    segment: Int64s
    rank: Int64s
    start_ns: Int64s
    end_ns: Int64s


class ChargedIntervals(NamedTuple):
    """The intervals that each rank got: disjoint, in order, and filling all segments."""

    segment: Int64s
    rank: Int64s
    start_ns: Int64s
    end_ns: Int64s

    @property
    def length_ns(self) -> Int64s:
        """Return the length of each interval."""
        length: Int64s = self.end_ns - self.start_ns
        return length


def charge_moments(length_ns: Int64s, claims: Claims) -> ChargedIntervals:
    """Return which rank each moment is charged to, in segments of these lengths."""
    if len(length_ns) > 1 and length_ns.sum(dtype=np.float64) > _LONGEST_NS:
        return _halved(length_ns, claims)
    # A gap of 1 ns between segments keeps claims from running on into the next one.
    ends = np.cumsum(length_ns + 1)
    offset = ends - length_ns - 1
    merged, rank = _merged(claims, length_ns, offset)
    at = np.concatenate([merged.start_ns, merged.end_ns, offset, offset + length_ns])
    order = np.argsort(at, kind="stable")
    at, count = at[order], len(rank)
    first = np.full(len(at), UNCLAIMED, dtype=np.int64)
    # Later assignments overwrite earlier ones, so the lowest rank comes last.
    for number in np.flatnonzero(np.bincount(rank))[::-1].tolist():
        begins = np.flatnonzero(rank == number)
        first[_are_open(order, begins, begins + count)] = number
    of_segments = 2 * count + np.arange(len(offset))
    lasts = _are_open(order, of_segments, of_segments + len(offset))[:-1] & (at[1:] > at[:-1])
    begins = at[:-1][lasts]
    segment = np.searchsorted(offset, begins, side="right") - 1
    return ChargedIntervals(
        segment=segment,
        rank=first[:-1][lasts],
        start_ns=begins - offset[segment],
        end_ns=at[1:][lasts] - offset[segment],
    )


def _halved(length_ns: Int64s, claims: Claims) -> ChargedIntervals:
    """Charge each half of the segments separately: damaged times may overflow a common axis."""
    half = len(length_ns) // 2
    is_first = claims.segment < half
    lower, upper = (
        Claims(*(claim[chosen] for claim in claims)) for chosen in (is_first, ~is_first)
    )
    first = charge_moments(length_ns[:half], lower)
    second = charge_moments(length_ns[half:], upper._replace(segment=upper.segment - half))
    second = second._replace(segment=second.segment + half)
    return ChargedIntervals(*map(np.concatenate, zip(first, second, strict=True)))


def _merged(claims: Claims, length_ns: Int64s, offset: Int64s) -> tuple[Intervals, Int64s]:
    """Return the union of the claims of each rank, on one axis for all segments."""
    most_ns, base = length_ns[claims.segment], offset[claims.segment]
    start_ns = base + np.clip(claims.start_ns, 0, most_ns)
    end_ns = base + np.clip(claims.end_ns, 0, most_ns)
    ranks = np.flatnonzero(np.bincount(claims.rank))
    unions = [
        union(start_ns[claimed], end_ns[claimed])
        for claimed in (claims.rank == rank for rank in ranks.tolist())
    ]
    merged = Intervals(*map(np.concatenate, zip(NONE, *unions, strict=True)))
    return merged, np.repeat(ranks, [len(intervals.start_ns) for intervals in unions])


def _are_open(order: Int64s, begins: Int64s, ends: Int64s) -> Flags:
    """Return after which events, in order, one of the intervals between these is open."""
    change = np.zeros(len(order), dtype=np.int8)
    change[begins], change[ends] = 1, -1
    is_open: Flags = np.cumsum(change[order], dtype=np.int8) > 0
    return is_open


# "…/device:GPU:1/stream:all", "/gpu:1/memcpy" and "/device:GPU:1" are the same device.
_DEVICE = re.compile(r"(?:device:)?([a-z_]+):(\d+)(?:/(?:stream|memcpy).*)?\Z", re.IGNORECASE)
_NUMBER: Mapping[Part, int] = {part: number for number, part in enumerate(ORDER)}
COLLECTIVES, IDLE = _NUMBER[Part.COLLECTIVES], _NUMBER[Part.IDLE]
# The part of each kind of span; other kinds claim nothing.
_SPAN_PARTS: Mapping[SpanKind, Part] = {
    SpanKind.RUNTIME: Part.KERNEL_LAUNCH,
    SpanKind.LAUNCH: Part.KERNEL_LAUNCH,
    SpanKind.COPY_CALL: Part.KERNEL_LAUNCH,
    SpanKind.SYNC: Part.SYNC_WAIT,
    SpanKind.COMPILE: Part.COMPILE,
    SpanKind.LOADER_WAIT: Part.INPUT_WAIT,
    SpanKind.LOADER_WORK: Part.HOST_PREPROCESS,
}
# They say nothing of when ops or driver calls began.
_AROUND_OPS = (
    SpanKind.FUNCTION_CALL,
    SpanKind.SECTION,
    SpanKind.PYTHON_GAP,
    SpanKind.PYTHON_CALLS,
    SpanKind.LOADER_CALLS,
)
_SPAN_NUMBERS = np.full(max(SpanKind) + 1, -1)
_SPAN_NUMBERS[list(_SPAN_PARTS)] = [_NUMBER[part] for part in _SPAN_PARTS.values()]
# The priority of parts, without an accelerator and with one; parts in neither are never charged.
_ORDERS = (WITHOUT_ACCELERATOR, WITH_ACCELERATOR)
_RANKS = np.full((len(_ORDERS), len(ORDER)), UNCLAIMED)
_PARTS = np.full((len(_ORDERS), len(ORDER) + 1), IDLE)
for _index, _order in enumerate(_ORDERS):
    _RANKS[_index, [_NUMBER[part] for part in _order]] = np.arange(len(_order))
    # The last column stands for UNCLAIMED, which is -1.
    _PARTS[_index, : len(_order)] = [_NUMBER[part] for part in _order]


class StepWindows(NamedTuple):
    """Traced steps and what was recorded in each; `capture` in rows and spans is an index here.

    `traced` are the functions that TensorFlow traced during each step, `fed_ns` is the longest time
    that feeding arrays may take.
    """

    captures: Sequence[Capture]
    rows: Executions
    spans: Spans
    traced: Sequence[Sequence[Activity]]
    fed_ns: Sequence[int]


@dataclass(frozen=True, slots=True)
class Segments:
    """One time segment for each device of each step, or one for a step without devices.

    Sorted by step and device name. `of_row` is the segment of each device row.
    """

    step: Int64s
    names: tuple[str, ...]
    has_device: Flags
    of_row: Int64s

    @property
    def first(self) -> Int64s:
        """Return the first segment of each step."""
        return np.flatnonzero(np.diff(self.step, prepend=-1))

    def of_steps(self, steps: Int64s) -> tuple[Int64s, Int64s]:
        """Return all segments of these steps: for each, the index in `steps` and the segment."""
        if len(self.first) == len(self.step):
            return np.arange(len(steps)), steps
        count = np.bincount(self.step)[steps]
        which = np.repeat(np.arange(len(steps)), count)
        begins = np.cumsum(count) - count
        return which, self.first[steps[which]] + np.arange(len(which)) - begins[which]


@dataclass(frozen=True, slots=True)
class ChargedSteps:
    """Steps and what their moments are charged to; intervals count from `low_ns` of their step.

    `part` is the number of the part of each interval. `shift_ns` is how far the rows of each step
    were shifted to correct for another clock.
    """

    shift_ns: Int64s
    low_ns: Int64s
    high_ns: Int64s
    first_ns: Int64s
    segments: Segments
    intervals: ChargedIntervals
    part: Int64s


def charge_steps(steps: StepWindows, known: PartNames) -> ChargedSteps:
    """Charge every moment of all steps."""
    rows = _innermost(steps.rows.only(~steps.rows.background))
    spans = steps.spans.only(~steps.spans.background)
    shift_ns = shifts_ns(steps.captures, rows)
    start_ns = rows.start_ns + shift_ns[rows.capture]
    end_ns = start_ns + rows.duration_ns
    on_device = rows.place != Place.HOST
    low_ns = np.array([capture.start_ns for capture in steps.captures], dtype=np.int64)
    high_ns = low_ns + np.array([capture.duration_ns for capture in steps.captures], dtype=np.int64)
    np.maximum.at(high_ns, rows.capture[on_device], end_ns[on_device])
    part = parts_of(rows, known).astype(np.int64)
    segments = _segments(rows, on_device, len(steps.captures))
    first_ns, last_ns = _extents(rows, start_ns, end_ns, spans, low_ns, high_ns)
    # Where a device recorded a part itself, the host's record of the same part is ignored.
    own = np.zeros((len(segments.step), len(ORDER)), dtype=np.bool_)
    own[segments.of_row, part[on_device]] = True
    host = (
        _Claimed(rows.capture.astype(np.int64), part, start_ns, end_ns)
        .only(~on_device)
        .by(segments)
    )
    claims = _joined(
        host.only(~own[host.at, host.part]),
        _Claimed(segments.of_row, part[on_device], start_ns[on_device], end_ns[on_device]),
        _of_spans(spans).by(segments),
        _of_traces(steps.traced).by(segments),
        _of_ends(steps.fed_ns, low_ns, first_ns, last_ns, high_ns).by(segments),
    )
    order = segments.has_device.astype(np.int64)
    rank = _RANKS[order[claims.at], claims.part]
    counts = rank != UNCLAIMED
    base_ns = low_ns[segments.step]
    claims, rank = claims.only(counts), rank[counts]
    from_ns = base_ns[claims.at]
    intervals = charge_moments(
        high_ns[segments.step] - base_ns,
        Claims(claims.at, rank, claims.start_ns - from_ns, claims.end_ns - from_ns),
    )
    parts = _PARTS[order[intervals.segment], intervals.rank]
    return ChargedSteps(shift_ns, low_ns, high_ns, first_ns, segments, intervals, parts)


def _innermost(rows: Executions) -> Executions:
    """Return rows for the time in which each op of a thread was the innermost, if ops nest."""
    if not rows.nested_ns.any():
        return rows
    host = np.flatnonzero(rows.place == Place.HOST)
    lanes = rows.capture[host].astype(np.int64) * len(rows.strings.values) + rows.lane[host]
    ends_ns = rows.start_ns[host] + rows.duration_ns[host]
    order = np.lexsort((-ends_ns, rows.start_ns[host], lanes))
    chosen = host[order]
    at, start_ns, end_ns = innermost(lanes[order], rows.start_ns[chosen], ends_ns[order])
    others = np.flatnonzero(rows.place != Place.HOST)
    which = np.concatenate([chosen[at], others])
    starts = np.concatenate([start_ns, rows.start_ns[others]])
    ends = np.concatenate([end_ns, rows.start_ns[others] + rows.duration_ns[others]])
    return replace(rows.at(which), start_ns=starts, duration_ns=ends - starts)


@dataclass(frozen=True, slots=True)
class _Claimed:
    """Intervals claimed by parts; `at` is the step or the segment of each."""

    at: Int64s
    part: Int64s
    start_ns: Int64s
    end_ns: Int64s

    def only(self, chosen: Flags) -> _Claimed:
        """Return the chosen claims."""
        return _Claimed(
            self.at[chosen], self.part[chosen], self.start_ns[chosen], self.end_ns[chosen]
        )

    def by(self, segments: Segments) -> _Claimed:
        """Return claims on steps as claims on all segments of these steps."""
        which, segment = segments.of_steps(self.at)
        return _Claimed(segment, self.part[which], self.start_ns[which], self.end_ns[which])


def _joined(*parts: _Claimed) -> _Claimed:
    return _Claimed(
        np.concatenate([part.at for part in parts]),
        np.concatenate([part.part for part in parts]),
        np.concatenate([part.start_ns for part in parts]),
        np.concatenate([part.end_ns for part in parts]),
    )


def _of_spans(spans: Spans) -> _Claimed:
    part = _SPAN_NUMBERS[spans.kind]
    end_ns = spans.start_ns + spans.duration_ns
    return _Claimed(spans.capture.astype(np.int64), part, spans.start_ns, end_ns).only(part >= 0)


def _of_traces(traced: Sequence[Sequence[Activity]]) -> _Claimed:
    rows = [
        (step, activity.start_ns, activity.end_ns)
        for step, activities in enumerate(traced)
        for activity in activities
    ]
    step, start_ns, end_ns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return _Claimed(step, np.full(len(rows), _NUMBER[Part.COMPILE]), start_ns, end_ns)


def _of_ends(
    fed_ns: Sequence[int], low_ns: Int64s, first_ns: Int64s, last_ns: Int64s, high_ns: Int64s
) -> _Claimed:
    """Claim the time after the last op as fetch, and the time before the first as feed.

    Feed takes no longer than feeding the arrays may take.
    """
    most_ns = np.array(fed_ns, dtype=np.int64)
    steps, fed_steps = np.arange(len(low_ns)), np.flatnonzero(most_ns)
    fed_until_ns = low_ns + np.minimum(first_ns - low_ns, most_ns)
    part = np.repeat([_NUMBER[Part.FETCH], _NUMBER[Part.FEED]], [len(steps), len(fed_steps)])
    return _Claimed(
        np.concatenate([steps, fed_steps]),
        part,
        np.concatenate([last_ns, low_ns[fed_steps]]),
        np.concatenate([high_ns, fed_until_ns[fed_steps]]),
    )


def shifts_ns(captures: Sequence[Capture], rows: Executions) -> Int64s:
    """Return how far the rows of each step must be shifted to its clock, usually 0.

    Rows that lie mostly outside the step were timed by another clock: the shift lets the first of
    them start with the step.
    """
    low = np.array([capture.start_ns for capture in captures], dtype=np.int64)
    high = low + np.array([capture.duration_ns for capture in captures], dtype=np.int64)
    at, start_ns, end_ns = rows.capture, rows.start_ns, rows.start_ns + rows.duration_ns
    on_host = rows.place == Place.HOST
    seen = on_host == (np.bincount(at[on_host], minlength=len(low)) > 0)[at]
    inside_ns = np.clip(end_ns, low[at], high[at]) - np.clip(start_ns, low[at], high[at])
    sums = np.zeros((2, len(low)), dtype=np.int64)
    np.add.at(sums[0], at[seen], inside_ns[seen])
    np.add.at(sums[1], at[seen], rows.duration_ns[seen])
    first_ns = np.full(len(low), np.iinfo(np.int64).max)
    np.minimum.at(first_ns, at, start_ns)
    shifts: Int64s = np.where(sums[0] < 0.5 * sums[1], low - first_ns, 0)
    return shifts


def _extents(
    rows: Executions,
    start_ns: Int64s,
    end_ns: Int64s,
    spans: Spans,
    low_ns: Int64s,
    high_ns: Int64s,
) -> tuple[Int64s, Int64s]:
    """Return the start of the first and the end of the last op or driver call in each step."""
    loop = ~np.isin(spans.kind, _AROUND_OPS)
    at = np.concatenate([rows.capture, spans.capture[loop]])
    starts = np.concatenate([start_ns, spans.start_ns[loop]])
    ends = np.concatenate([end_ns, (spans.start_ns + spans.duration_ns)[loop]])
    seen = (ends > low_ns[at]) & (starts < high_ns[at])
    at, starts, ends = at[seen], starts[seen], ends[seen]
    nothing = np.bincount(at, minlength=len(low_ns)) == 0
    first, last = high_ns.copy(), low_ns.copy()
    np.minimum.at(first, at, starts)
    np.maximum.at(last, at, ends)
    return np.maximum(first, low_ns), np.where(nothing, high_ns, np.minimum(last, high_ns))


def _segments(rows: Executions, on_device: Flags, steps: int) -> Segments:
    """Return the segments of all steps, with the segment of each device row."""
    positions = used(rows.device[on_device])
    keys = [_device_key(rows.strings[position]) for position in positions]
    names = ("", *sorted(set(keys)))
    numbers = np.zeros(len(rows.strings.values), dtype=np.int64)
    numbers[positions] = [names.index(key, 1) for key in keys]
    codes = rows.capture[on_device].astype(np.int64) * len(names)
    codes += numbers[rows.device[on_device]]
    with_device = np.unique(codes)
    without = np.setdiff1d(np.arange(steps), with_device // len(names)) * len(names)
    segments = np.sort(np.concatenate([with_device, without]))
    step, number = np.divmod(segments, len(names))
    return Segments(
        step=step,
        names=tuple(names[at] for at in number.tolist()),
        has_device=number > 0,
        of_row=np.searchsorted(segments, codes),
    )


def _device_key(device: str) -> str:
    match = _DEVICE.search(device)
    return f"{match[1].lower()}:{match[2]}" if match else device
