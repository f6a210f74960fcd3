"""Give each slice a category: the part of a step that it counts as, or something else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tfprobe.analysis.breakdown.step_breakdown import Moments, fed_ns, part_moments, traced_in
from tfprobe.analysis.breakdown.step_parts import GROUPS, LABELS, ORDER, Part, PartNames, parts_of
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Executions, SpanKind, Spans
from tfprobe.profile.profile import Capture, Loop, Profile
from tfprobe.profile.tables import Int8s, Int64s


class SliceCategory(NamedTuple):
    """A category of slices; `group` is before, on, after or other, or "" if it is no part of a
    step.
    """

    name: str
    label: str
    group: str


_GROUP_OF = {part: group for group, parts in GROUPS.items() for part in parts}
CATEGORIES: tuple[SliceCategory, ...] = (
    *(SliceCategory(part.value, LABELS[part], _GROUP_OF[part]) for part in ORDER),
    SliceCategory("background", "for later steps", ""),
    SliceCategory("function_call", "function, module or annotation", ""),
    SliceCategory("step", "step", ""),
    SliceCategory("between", "until the next step", ""),
    SliceCategory("activity", "activity", ""),
)
NUMBER = {category.name: number for number, category in enumerate(CATEGORIES)}
_BACKGROUND = NUMBER["background"]
_OF_SPAN = {
    SpanKind.RUNTIME: Part.KERNEL_LAUNCH,
    SpanKind.LAUNCH: Part.KERNEL_LAUNCH,
    SpanKind.COPY_CALL: Part.KERNEL_LAUNCH,
    SpanKind.SYNC: Part.SYNC_WAIT,
    SpanKind.ITERATOR: Part.INPUT_WAIT,
    SpanKind.COMPILE: Part.COMPILE,
    SpanKind.PYTHON: Part.HOST_PREPROCESS,
    SpanKind.DATASET_FUNCTION: Part.INPUT_WAIT,
    SpanKind.LOADER_WAIT: Part.INPUT_WAIT,
    SpanKind.LOADER_WORK: Part.HOST_PREPROCESS,
}


def of_rows(rows: Executions, known: PartNames) -> Int8s:
    """Return the category of each row of one capture, as a position in CATEGORIES."""
    return np.where(rows.background, np.int8(_BACKGROUND), parts_of(rows, known))


def of_spans(spans: Spans) -> Int8s:
    """Return the category of each span, as a position in CATEGORIES."""
    table = np.full(max(SpanKind) + 1, NUMBER["function_call"], dtype=np.int8)
    for kind, part in _OF_SPAN.items():
        table[kind] = NUMBER[part.value]
    return np.where(spans.background, np.int8(_BACKGROUND), table[spans.kind])


class PartBand(NamedTuple):
    """The part that each moment of a step is attributed to on a device, "" without an accelerator.

    `part` is a position in CATEGORIES; the intervals are in the order of time and fill the step.
    """

    device: str
    part: Int8s
    start_ns: Int64s
    end_ns: Int64s


def bands_of(profile: Profile, capture: Capture, known: PartNames) -> tuple[PartBand, ...]:
    """Return the bands of a capture of a profile; `known` are the names of its executions."""
    rows = profile.executions.at(np.flatnonzero(profile.executions.capture == capture.index))
    spans = profile.spans.at(np.flatnonzero(profile.spans.capture == capture.index))
    return tuple(bands(moments_of(profile, capture, rows, spans, known), capture))


def moments_of(
    profile: Profile, capture: Capture, rows: Executions, spans: Spans, known: PartNames
) -> Moments:
    """Return the part of each moment of a step; `rows` and `spans` are those of the step."""
    loop = loop_of(profile, capture)
    most_ns = fed_ns(capture, "" if loop is None else loop.kind)
    traced = list(traced_in(profile.activities, capture))
    return part_moments(capture, rows, spans, traced, known, fed_ns=most_ns)


def bands(found: Moments, capture: Capture) -> Iterator[PartBand]:
    """Yield a band for each device, with times from the start of the step."""
    for device, sets in found.by_device.items():
        parts = np.concatenate(
            [
                np.full(len(sets[category].start_ns), NUMBER[category.value], np.int8)
                for category in sets
            ]
        )
        starts_ns = np.concatenate([intervals.start_ns for intervals in sets.values()])
        ends_ns = np.concatenate([intervals.end_ns for intervals in sets.values()])
        order = np.argsort(starts_ns, kind="stable")
        zero_ns = capture.start_ns
        yield PartBand(device, parts[order], starts_ns[order] - zero_ns, ends_ns[order] - zero_ns)


def loop_of(profile: Profile, capture: Capture) -> Loop | None:
    """Return the loop of a capture, None if unknown."""
    if isinstance(capture.loop, Missing):
        return None
    key = capture.process, capture.loop
    return next((loop for loop in profile.loops if (loop.process, loop.index) == key), None)
