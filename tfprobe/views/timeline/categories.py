"""Name what a slice is: the part of a step that it counts to, or something beside the parts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tfprobe.model.executions import Executions
from tfprobe.model.spans import SpanKind, Spans
from tfprobe.model.tables import Int8s
from tfprobe.views.breakdown.kinds import ORDER, Names, parts_of
from tfprobe.views.breakdown.parts import GROUPS, LABELS, Part


class Category(NamedTuple):
    """What slices have in common; `group` is before, on, after or other, or "" beside the parts."""

    name: str
    label: str
    group: str


_GROUP_OF = {part: group for group, parts in GROUPS.items() for part in parts}
CATEGORIES: tuple[Category, ...] = (
    *(Category(part.value, LABELS[part], _GROUP_OF[part]) for part in ORDER),
    Category("background", "for later steps", ""),
    Category("function_call", "call of a function", ""),
    Category("step", "step", ""),
    Category("between", "until the next step", ""),
    Category("activity", "activity", ""),
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
}


def of_rows(rows: Executions, known: Names) -> Int8s:
    """Return the category of each row of one capture, as a position in CATEGORIES."""
    return np.where(rows.background, np.int8(_BACKGROUND), parts_of(rows, known))


def of_spans(spans: Spans) -> Int8s:
    """Return the category of each span, as a position in CATEGORIES."""
    table = np.full(max(SpanKind) + 1, NUMBER["function_call"], dtype=np.int8)
    for kind, part in _OF_SPAN.items():
        table[kind] = NUMBER[part.value]
    return np.where(spans.background, np.int8(_BACKGROUND), table[spans.kind])
