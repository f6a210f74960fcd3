"""Arrange one traced step as tracks: threads, streams and other ranks, each with its slices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from tfprobe.analysis.breakdown.step_breakdown import shift_ns
from tfprobe.analysis.breakdown.step_parts import PartNames
from tfprobe.analysis.core.collective_ops import names_collective
from tfprobe.analysis.timeline import lanes
from tfprobe.analysis.timeline.slice_categories import (
    NUMBER,
    PartBand,
    bands,
    loop_of,
    moments_of,
    of_rows,
    of_spans,
)
from tfprobe.profile.capture_tables import Executions, Place, SpanKind, Spans
from tfprobe.profile.profile import Capture, Loop, Profile
from tfprobe.profile.tables import Flags, Int8s, Int64s, having

# Slices that are nested deeper are counted, not drawn.
MOST_ROWS = 64
# Of more threads, those with the fewest slices are counted, not drawn.
MOST_TRACKS = 300
MOST_RANKS = 64
_MOST_COLLECTIVES_OF_A_RANK = 500
# Times from the start of the step stay far below the largest exact integer of a browser.
_FARTHEST_NS = 2**52

_TASK = re.compile(r"(/job:[^/]*/replica:\d+/task:\d+)")
_DEVICE = re.compile(r"(?:device:)?([a-z_]+):(\d+)(?:/(stream|memcpy).*)?\Z", re.IGNORECASE)
_NUMBERED = re.compile(r"(.*?)[/ ]?(-?\d+)\Z", re.DOTALL)
# First in a group: the step above its activities, the Python thread above the others.
_FIRST_LANES = ("step", "python", "MainThread")


class TrackSource(IntEnum):
    """Which table a slice is a row of."""

    ROWS = 0
    SPANS = 1
    OTHERS = 2


class Other(NamedTuple):
    """A slice that is no row of the capture: the step itself, an activity, a step of another rank.

    Times are relative to the start of the step; those of an activity are cut to what is drawn.
    """

    track: tuple[str, str]
    category: str
    name: str
    start_ns: int
    end_ns: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Track:
    """A thread, a stream, or another row of the drawing, with the slices from `first` to `last`.

    `lane` is its name in the recording. `left_out` slices are nested too deep to be drawn.
    """

    group: str
    name: str
    lane: str
    first: int
    last: int
    rows: int
    left_out: int


class Slices(NamedTuple):
    """Columns, by track, row and start. Times are in ns from the start of the step.

    `number` is the position in the table that `source` names. `row` counts through all tracks.
    """

    source: Int8s
    number: Int64s
    category: Int8s
    row: Int64s
    start_ns: Int64s
    end_ns: Int64s


@dataclass(frozen=True, slots=True)
class StepTracks:
    """A step as it can be drawn. `tracks_left_out` counts tracks with fewer slices than these.

    `row_at` and `span_at` are the positions of its rows and spans in the tables of the profile.
    `bands` are the parts of the step by device, `window` is their range of time. `is_shifted` says
    that its rows had another clock, and were moved to the start of the step.
    """

    capture: Capture
    row_at: Int64s
    span_at: Int64s
    others: tuple[Other, ...]
    tracks: tuple[Track, ...]
    slices: Slices
    tracks_left_out: int
    bands: tuple[PartBand, ...]
    window: tuple[int, int]
    is_shifted: bool


_NOT_DRAWN = (SpanKind.PYTHON_GAP, SpanKind.PYTHON_CALLS, SpanKind.LOADER_CALLS)


def step_tracks(profile: Profile, capture: Capture, known: PartNames) -> StepTracks:
    """Return the tracks of one capture of a profile; `known` are the names of its executions."""
    row_at = np.flatnonzero(profile.executions.capture == capture.index)
    # Gaps of Python are between what is drawn, and overlap with the calls around ops.
    is_drawn = ~np.isin(profile.spans.kind, _NOT_DRAWN)
    span_at = np.flatnonzero((profile.spans.capture == capture.index) & is_drawn)
    rows, spans = profile.executions.at(row_at), profile.spans.at(span_at)
    shift = shift_ns(capture, rows)
    others = tuple(_others(profile, capture))
    keys = _Keys()
    found = (
        _of_rows(rows, keys, shift - capture.start_ns, known),
        _of_spans(spans, keys, -capture.start_ns),
        _of_others(others, keys),
    )
    for_later = np.concatenate(
        [rows.background, spans.background, np.zeros(len(others), dtype=np.bool_)]
    )
    slices = _joined(found)
    ordered, tracks = _in_order(slices, keys, for_later)
    found_moments = moments_of(profile, capture, rows, spans, known)
    return StepTracks(
        capture=capture,
        row_at=row_at,
        span_at=span_at,
        others=others,
        tracks=tracks,
        slices=ordered,
        tracks_left_out=len(keys.known) - len(tracks),
        bands=tuple(bands(found_moments, capture)),
        window=(
            found_moments.window[0] - capture.start_ns,
            found_moments.window[1] - capture.start_ns,
        ),
        is_shifted=bool(shift),
    )


def _joined(found: Sequence[Slices]) -> Slices:
    return Slices(
        source=np.concatenate([slices.source for slices in found]),
        number=np.concatenate([slices.number for slices in found]),
        category=np.concatenate([slices.category for slices in found]),
        row=np.concatenate([slices.row for slices in found]),
        start_ns=np.concatenate([slices.start_ns for slices in found]),
        end_ns=np.concatenate([slices.end_ns for slices in found]),
    )


def _of_rows(rows: Executions, keys: _Keys, add_ns: int, known: PartNames) -> Slices:
    track, category = keys.of_rows(rows), of_rows(rows, known)
    return _slices(TrackSource.ROWS, track, category, rows.start_ns + add_ns, rows.duration_ns)


def _of_spans(spans: Spans, keys: _Keys, add_ns: int) -> Slices:
    track, category = keys.of_spans(spans), of_spans(spans)
    return _slices(TrackSource.SPANS, track, category, spans.start_ns + add_ns, spans.duration_ns)


def _of_others(others: Sequence[Other], keys: _Keys) -> Slices:
    track = np.array([keys.number(*other.track) for other in others], dtype=np.int64)
    category = np.array([NUMBER[other.category] for other in others], dtype=np.int8)
    starts_ns = np.array([other.start_ns for other in others], dtype=np.int64)
    ends_ns = np.array([other.end_ns for other in others], dtype=np.int64)
    return _slices(TrackSource.OTHERS, track, category, starts_ns, ends_ns - starts_ns)


def _slices(
    source: TrackSource, track: Int64s, category: Int8s, start_ns: Int64s, duration_ns: Int64s
) -> Slices:
    start_ns = np.clip(start_ns, -_FARTHEST_NS, _FARTHEST_NS)
    return Slices(
        source=np.full(len(track), source, dtype=np.int8),
        number=np.arange(len(track)),
        category=category,
        row=track,
        start_ns=start_ns,
        end_ns=start_ns + np.clip(duration_ns, 0, _FARTHEST_NS),
    )


class _Keys:
    """The tracks so far, each with a number, by group and lane."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], int] = {}
        self._of_lane: dict[str, list[int]] = {}

    def number(self, group: str, lane: str) -> int:
        if (group, lane) not in self.known:
            self.known[group, lane] = len(self.known)
            self._of_lane.setdefault(lane, []).append(self.known[group, lane])
        return self.known[group, lane]

    def of_rows(self, rows: Executions) -> Int64s:
        many = len(rows.strings.values)
        host = rows.place == Place.HOST
        receives = host & having(rows.strings, rows.op_type, RECEIVE_OPS.__contains__)
        lane = np.where(receives, many, rows.lane.astype(np.int64))
        keys = (rows.device.astype(np.int64) * (many + 1) + lane) * 2 + host
        found, inverse = np.unique(keys, return_inverse=True)
        numbers = []
        for each in found.tolist():
            device, lane_at = divmod(each // 2, many + 1)
            group = _group(rows.strings[device], is_host=bool(each % 2))
            if lane_at == many:
                numbers.append(self.number(group.replace(HOST, RECEIVES, 1), "receives"))
            else:
                numbers.append(self.number(group, rows.strings[lane_at]))
        return np.array(numbers, dtype=np.int64)[inverse.reshape(-1)]

    def of_spans(self, spans: Spans) -> Int64s:
        """Spans only have a thread: they belong to its track if there is exactly one."""
        found, inverse = np.unique(spans.lane, return_inverse=True)
        numbers = []
        for each in found.tolist():
            same = self._of_lane.get(spans.strings[each], [])
            numbers.append(same[0] if len(same) == 1 else self.number(HOST, spans.strings[each]))
        return np.array(numbers, dtype=np.int64)[inverse.reshape(-1)]


STEP, HOST, INPUT, RECEIVES, RANKS = (
    "Step",
    "Host threads",
    "Input threads",
    "Receives",
    "Other ranks",
)
# Receives wait while their thread runs other ops, often dozens at a time: they have a track of
# their own, below the threads that work.
RECEIVE_OPS = ("RecvTensor", "Recv", "_HostRecv", "_Recv")


def _group(device: str, *, is_host: bool) -> str:
    task = _TASK.match(device)
    detail = f" of {task[1]}" if task and not task[1].endswith("localhost/replica:0/task:0") else ""
    if is_host:
        return f"{HOST}{detail}"
    match = _DEVICE.search(device)
    return f"{match[1].upper()}:{match[2]}{detail}" if match else device or "Accelerator"


def _in_order(found: Slices, keys: _Keys, for_later: Flags) -> tuple[Slices, tuple[Track, ...]]:
    """Return the slices by track, row and start, and the tracks in the order of the drawing."""
    known = list(keys.known)
    count = np.bincount(found.row, minlength=len(known))
    later = np.bincount(found.row[for_later], minlength=len(known))
    groups = [
        INPUT if group == HOST and 2 * later[at] > count[at] else group
        for at, (group, _) in enumerate(known)
    ]
    largest = sorted(range(len(known)), key=lambda at: (-int(count[at]), at))[:MOST_TRACKS]
    labels = _labels([(groups[at], known[at][1]) for at in sorted(largest)])
    kept = sorted(largest, key=lambda at: _rank(groups[at], labels[groups[at], known[at][1]]))
    by_track = np.lexsort((-found.end_ns, found.start_ns, found.row))
    ends = np.cumsum(count)
    order: list[Int64s] = []
    rows: list[Int64s] = []
    tracks: list[Track] = []
    first = base = 0
    for at in kept:
        mine = by_track[ends[at] - count[at] : ends[at]]
        row = lanes.rows(found.start_ns[mine], found.end_ns[mine], most=MOST_ROWS)
        by_row = np.argsort(row, kind="stable")
        fits = by_row[: int((row < MOST_ROWS).sum())]
        deep = int(row.max(initial=-1, where=row < MOST_ROWS)) + 1
        order.append(mine[fits])
        rows.append(row[fits] + base)
        group, lane = groups[at], known[at][1]
        last = first + len(fits)
        name = labels[group, lane]
        tracks.append(Track(group, name, lane, first, last, deep, len(mine) - len(fits)))
        first, base = last, base + deep
    chosen = np.concatenate(order)
    slices = Slices(
        source=found.source[chosen],
        number=found.number[chosen],
        category=found.category[chosen],
        row=np.concatenate(rows),
        start_ns=found.start_ns[chosen],
        end_ns=found.end_ns[chosen],
    )
    return slices, tuple(tracks)


def _rank(group: str, name: str) -> tuple[int, str, bool, str, int]:
    """Return the sort key of a track: step, host, accelerators, input, receives, other ranks."""
    places = {STEP: 0, INPUT: 3, RANKS: 5}
    of_task = 1 if group.startswith(HOST) else 4 if group.startswith(RECEIVES) else 2
    place = places.get(group, of_task)
    numbered = _NUMBERED.match(name)
    text, number = (numbered[1], int(numbered[2][:18])) if numbered else (name, 0)
    return place, group, name not in _FIRST_LANES, text, number


def _labels(tracks: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
    """Return a short name for each track: thread ids of 20 digits become 1, 2, 3."""
    found: dict[tuple[str, str], str] = {}
    met: dict[tuple[str, str], int] = {}
    for group, lane in tracks:
        numbered = _NUMBERED.match(lane)
        if numbered is None or len(numbered[2]) < 6:
            found[group, lane] = f"thread {lane}" if lane.isdecimal() else lane or "–"
            continue
        text = numbered[1] or "thread"
        met[group, text] = met.get((group, text), 0) + 1
        found[group, lane] = f"{text} {met[group, text]}"
    return found


def _others(profile: Profile, capture: Capture) -> Iterator[Other]:
    zero, length = capture.start_ns, capture.duration_ns
    loop = loop_of(profile, capture)
    kind = "step" if loop is None else loop.kind
    yield Other((STEP, "step"), "step", f"{kind} {capture.step}", 0, length)
    end_ns = length
    for gap in profile.gaps:
        if (gap.process, gap.loop, gap.step) == (capture.process, capture.loop, capture.step):
            start_ns = gap.start_ns - zero
            end_ns = max(end_ns, start_ns + gap.duration_ns)
            detail = "watched until the next step began" if not gap.cut else "its watch ended early"
            name = "until the next step"
            yield Other(
                (STEP, "step"), "between", name, start_ns, start_ns + gap.duration_ns, detail
            )
    for activity in profile.activities:
        low, high = max(activity.start_ns - zero, 0), min(activity.end_ns - zero, end_ns)
        if activity.process == capture.process and low < high:
            track = (STEP, f"activities of {activity.thread}")
            yield Other(track, "activity", activity.name, low, high, activity.kind)
    yield from _ranks(profile, capture, loop)


def _ranks(profile: Profile, capture: Capture, loop: Loop | None) -> Iterator[Other]:
    """Yield the same step of other ranks with its collectives, if it was at about the same time."""
    if loop is None:
        return
    same = {
        each.process: each
        for each in profile.captures
        if each.process != capture.process and each.step == capture.step
        if profile.processes[each.process].group == profile.processes[capture.process].group
        if _is_alike(loop_of(profile, each), loop) and _is_near(each, capture)
    }
    for each in list(same.values())[:MOST_RANKS]:
        process = profile.processes[each.process]
        rank = "no rank" if process.rank is None else f"rank {process.rank}"
        track = (RANKS, f"{rank}, {process.host} {process.label}")
        start_ns = each.start_ns - capture.start_ns
        yield Other(
            track, "step", f"{loop.kind} {each.step}", start_ns, start_ns + each.duration_ns
        )
        yield from _collectives(profile.executions, each, capture.start_ns, track)


def _collectives(
    rows: Executions, capture: Capture, zero_ns: int, track: tuple[str, str]
) -> Iterator[Other]:
    mine = np.flatnonzero(rows.capture == capture.index)
    texts = np.unique(rows.op_type[mine]).tolist()
    wanted = [at for at in texts if names_collective(rows.strings[at])]
    chosen = mine[np.isin(rows.op_type[mine], wanted)][:_MOST_COLLECTIVES_OF_A_RANK]
    shift = shift_ns(capture, rows.at(mine)) - zero_ns if len(chosen) else 0
    for at in chosen.tolist():
        start_ns = int(rows.start_ns[at]) + shift
        name, end_ns = rows.strings[rows.name[at]], start_ns + int(rows.duration_ns[at])
        yield Other(track, "collectives", name, start_ns, end_ns, rows.strings[rows.op_type[at]])


def _is_alike(loop: Loop | None, other: Loop) -> bool:
    return loop is not None and (loop.kind, loop.name) == (other.kind, other.name)


def _is_near(one: Capture, other: Capture) -> bool:
    """Say whether two steps are close enough to be seen at once."""
    far_ns = 2 * max(one.duration_ns, other.duration_ns)
    return abs(one.start_ns - other.start_ns) <= far_ns
