"""Charge the moments of traced steps to parts: what claims them, and on which device.

All steps are looked at together; what is made of it for each of them is the business of
`step_breakdown`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from tfprobe.analysis.core.intervals import NONE, Intervals, union
from tfprobe.profile.activities import Activity
from tfprobe.profile.capture_tables import Executions, Place, SpanKind, Spans
from tfprobe.profile.profile import Capture
from tfprobe.profile.tables import Flags, Int64s, used

# The rank of moments that nobody claims.
NOBODY = -1
_LONGEST_NS = 2.0**61


class Claims(NamedTuple):
    """Intervals in segments, from the start of each; what lies outside of a segment is cut.

    Of several claims to a moment that with the least `rank` has it.
    """

    segment: Int64s
    rank: Int64s
    start_ns: Int64s
    end_ns: Int64s


class ClaimedIntervals(NamedTuple):
    """Who has what: disjoint, in order of time, and together all of the segments."""

    segment: Int64s
    rank: Int64s
    start_ns: Int64s
    end_ns: Int64s

    @property
    def length_ns(self) -> Int64s:
        """Return how long each is."""
        length: Int64s = self.end_ns - self.start_ns
        return length


def charge_claims(length_ns: Int64s, claims: Claims) -> ClaimedIntervals:
    """Return the stretches of segments of these lengths."""
    if len(length_ns) > 1 and length_ns.sum(dtype=np.float64) > _LONGEST_NS:
        return _halved(length_ns, claims)
    # Segments do not touch: what ends with one does not go on in the next.
    ends = np.cumsum(length_ns + 1)
    offset = ends - length_ns - 1
    merged, rank = _merged(claims, length_ns, offset)
    at = np.concatenate([merged.start_ns, merged.end_ns, offset, offset + length_ns])
    order = np.argsort(at, kind="stable")
    at, count = at[order], len(rank)
    first = np.full(len(at), NOBODY, dtype=np.int64)
    # The later overwrites: the one with the least rank comes last.
    for number in np.flatnonzero(np.bincount(rank))[::-1].tolist():
        mine = np.flatnonzero(rank == number)
        first[_holds(order, mine, mine + count)] = number
    of_segments = 2 * count + np.arange(len(offset))
    lasts = _holds(order, of_segments, of_segments + len(offset))[:-1] & (at[1:] > at[:-1])
    begins = at[:-1][lasts]
    segment = np.searchsorted(offset, begins, side="right") - 1
    return ClaimedIntervals(
        segment=segment,
        rank=first[:-1][lasts],
        start_ns=begins - offset[segment],
        end_ns=at[1:][lasts] - offset[segment],
    )


def _halved(length_ns: Int64s, claims: Claims) -> ClaimedIntervals:
    """Charge two halves by themselves: damaged times may be too long for one axis."""
    half = len(length_ns) // 2
    is_first = claims.segment < half
    mine, others = (
        Claims(*(claim[chosen] for claim in claims)) for chosen in (is_first, ~is_first)
    )
    first = charge_claims(length_ns[:half], mine)
    second = charge_claims(length_ns[half:], others._replace(segment=others.segment - half))
    second = second._replace(segment=second.segment + half)
    return ClaimedIntervals(*map(np.concatenate, zip(first, second, strict=True)))


def _merged(claims: Claims, length_ns: Int64s, offset: Int64s) -> tuple[Intervals, Int64s]:
    """Return what is claimed at each rank, on the axis of all segments."""
    most_ns, base = length_ns[claims.segment], offset[claims.segment]
    start_ns = base + np.clip(claims.start_ns, 0, most_ns)
    end_ns = base + np.clip(claims.end_ns, 0, most_ns)
    ranks = np.flatnonzero(np.bincount(claims.rank))
    found = [
        union(start_ns[mine], end_ns[mine])
        for mine in (np.flatnonzero(claims.rank == rank) for rank in ranks.tolist())
    ]
    merged = Intervals(*map(np.concatenate, zip(NONE, *found, strict=True)))
    return merged, np.repeat(ranks, [len(each.start_ns) for each in found])


def _holds(order: Int64s, begins: Int64s, ends: Int64s) -> Flags:
    """Say after which events, in order, one that began at some of them has not ended."""
    change = np.zeros(len(order), dtype=np.int8)
    change[begins], change[ends] = 1, -1
    held: Flags = np.cumsum(change[order], dtype=np.int8) > 0
    return held


# "…/device:GPU:1/stream:all", "/gpu:1/memcpy" and "/device:GPU:1" are one device.
_DEVICE = re.compile(r"(?:device:)?([a-z_]+):(\d+)(?:/(?:stream|memcpy).*)?\Z", re.IGNORECASE)
_NUMBER: Mapping[Part, int] = {part: number for number, part in enumerate(ORDER)}
COLLECTIVES, IDLE = _NUMBER[Part.COLLECTIVES], _NUMBER[Part.IDLE]
# By the kind of a span; those of none are no part of their own.
_SPAN_PARTS: Mapping[SpanKind, Part] = {
    SpanKind.RUNTIME: Part.KERNEL_LAUNCH,
    SpanKind.LAUNCH: Part.KERNEL_LAUNCH,
    SpanKind.COPY_CALL: Part.KERNEL_LAUNCH,
    SpanKind.SYNC: Part.SYNC_WAIT,
    SpanKind.COMPILE: Part.COMPILE,
}
_SPAN_NUMBERS = np.full(max(SpanKind) + 1, -1)
_SPAN_NUMBERS[list(_SPAN_PARTS)] = [_NUMBER[part] for part in _SPAN_PARTS.values()]
# Which part goes first, without an accelerator and with one; parts that are in neither never do.
_ORDERS = (WITHOUT_ACCELERATOR, WITH_ACCELERATOR)
_RANKS = np.full((len(_ORDERS), len(ORDER)), NOBODY)
_PARTS = np.full((len(_ORDERS), len(ORDER) + 1), IDLE)
for _at, _order in enumerate(_ORDERS):
    _RANKS[_at, [_NUMBER[part] for part in _order]] = np.arange(len(_order))
    # The last is that of NOBODY.
    _PARTS[_at, : len(_order)] = [_NUMBER[part] for part in _order]


class StepWindows(NamedTuple):
    """Traced steps with what was told of each; `capture` in rows and spans is its place here.

    `traced` are functions traced in its process, `fed_ns` how long handing over arrays may take.
    """

    captures: Sequence[Capture]
    rows: Executions
    spans: Spans
    traced: Sequence[Sequence[Activity]]
    fed_ns: Sequence[int]


@dataclass(frozen=True, slots=True)
class Segments:
    """A segment of time for each device of each step, or one where it has none; by step and name.

    `of_row` is that of each row of a device.
    """

    step: Int64s
    names: tuple[str, ...]
    has_device: Flags
    of_row: Int64s

    @property
    def first(self) -> Int64s:
        """Return the first segment of each step."""
        return np.flatnonzero(np.diff(self.step, prepend=-1))

    def each(self, steps: Int64s) -> tuple[Int64s, Int64s]:
        """Return for every segment of these steps which of them it is of, and the segment."""
        if len(self.first) == len(self.step):
            return np.arange(len(steps)), steps
        count = np.bincount(self.step)[steps]
        which = np.repeat(np.arange(len(steps)), count)
        begins = np.cumsum(count) - count
        return which, self.first[steps[which]] + np.arange(len(which)) - begins[which]


@dataclass(frozen=True, slots=True)
class ChargedSteps:
    """Steps with their stretches: `part` is a number, times of both count from `low_ns`.

    `shift_ns` is by how much the rows of a step were moved for its clock.
    """

    shift_ns: Int64s
    low_ns: Int64s
    high_ns: Int64s
    first_ns: Int64s
    segments: Segments
    stretches: ClaimedIntervals
    part: Int64s


def charge_steps(steps: StepWindows, known: PartNames) -> ChargedSteps:
    """Return the stretches of all steps."""
    rows = steps.rows.only(~steps.rows.background)
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
    # What a device did itself stands for what the host says of it.
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
    counts = rank != NOBODY
    base_ns = low_ns[segments.step]
    claims, rank = claims.only(counts), rank[counts]
    from_ns = base_ns[claims.at]
    stretches = charge_claims(
        high_ns[segments.step] - base_ns,
        Claims(claims.at, rank, claims.start_ns - from_ns, claims.end_ns - from_ns),
    )
    parts = _PARTS[order[stretches.segment], stretches.rank]
    return ChargedSteps(shift_ns, low_ns, high_ns, first_ns, segments, stretches, parts)


@dataclass(frozen=True, slots=True)
class _Claimed:
    """Intervals of parts, at steps or at segments."""

    at: Int64s
    part: Int64s
    start_ns: Int64s
    end_ns: Int64s

    def only(self, chosen: Flags) -> _Claimed:
        """Return those that are chosen."""
        return _Claimed(
            self.at[chosen], self.part[chosen], self.start_ns[chosen], self.end_ns[chosen]
        )

    def by(self, segments: Segments) -> _Claimed:
        """Return what is claimed at steps as claimed at all of their segments."""
        which, segment = segments.each(self.at)
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
    told = [(at, each.start_ns, each.end_ns) for at, some in enumerate(traced) for each in some]
    columns = np.array(told, dtype=np.int64).reshape(-1, 3).T
    return _Claimed(columns[0], np.full(len(told), _NUMBER[Part.COMPILE]), columns[1], columns[2])


def _of_ends(
    fed_ns: Sequence[int], low_ns: Int64s, first_ns: Int64s, last_ns: Int64s, high_ns: Int64s
) -> _Claimed:
    """Return what lies before the first op, as far as arrays were fed, and after the last."""
    most_ns = np.array(fed_ns, dtype=np.int64)
    every, fed_ones = np.arange(len(low_ns)), np.flatnonzero(most_ns)
    handed_ns = low_ns + np.minimum(first_ns - low_ns, most_ns)
    part = np.repeat([_NUMBER[Part.FETCH], _NUMBER[Part.FEED]], [len(every), len(fed_ones)])
    return _Claimed(
        np.concatenate([every, fed_ones]),
        part,
        np.concatenate([last_ns, low_ns[fed_ones]]),
        np.concatenate([high_ns, handed_ns[fed_ones]]),
    )


def shifts_ns(captures: Sequence[Capture], rows: Executions) -> Int64s:
    """Return by how much the rows of each step are to be moved for its clock, mostly 0.

    Those that lie mostly outside the step came by another clock: the first starts with the step.
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
    """Return when the first op or driver call began and when the last ended, inside each step."""
    loop = spans.kind != SpanKind.FUNCTION_CALL
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
    """Return the segments of steps, and of which of them each row of a device is."""
    positions = used(rows.device[on_device])
    keys = [_device_key(rows.strings[at]) for at in positions]
    names = ("", *sorted(set(keys)))
    numbers = np.zeros(len(rows.strings.values), dtype=np.int64)
    numbers[positions] = [names.index(key, 1) for key in keys]
    codes = rows.capture[on_device].astype(np.int64) * len(names)
    codes += numbers[rows.device[on_device]]
    there = np.unique(codes)
    bare = np.setdiff1d(np.arange(steps), there // len(names)) * len(names)
    segments = np.sort(np.concatenate([there, bare]))
    step, number = np.divmod(segments, len(names))
    return Segments(
        step=step,
        names=tuple(names[at] for at in number.tolist()),
        has_device=number > 0,
        of_row=np.searchsorted(segments, codes),
    )


def _device_key(device: str) -> str:
    found = _DEVICE.search(device)
    return f"{found[1].lower()}:{found[2]}" if found else device
