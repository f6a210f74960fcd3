"""Draw the life of a process as a strip: equal slices, each by the category that has most of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.account.categories import Category
from tfprobe.analysis.account.ledger import Part
from tfprobe.analysis.account.timeline import Layer, Timeline
from tfprobe.analysis.core.intervals import within_ns

# A screen and a page have no more room.
SLICES = 200
# What lies between steps is drawn as what most of it went to.
_GAPS = (Layer.USUAL_GAP, Layer.TRACED_GAP, Layer.LONG_GAP)
_OF_GAPS = (
    Category.PYTHON,
    Category.CALLBACKS,
    Category.INPUT_WAIT,
    Category.CHECKPOINTS,
    Category.OTHERS,
)
# The time of steps as a whole counts as productive here: only sums divide it further.
_OF_LAYER: Mapping[Layer, Category] = {
    Layer.COLLECTION: Category.COLLECTION,
    Layer.TRACE: Category.COMPILE,
    Layer.FIRST_STEP: Category.COMPILE,
    Layer.SAVE: Category.CHECKPOINTS,
    Layer.EVALUATION: Category.EVALUATION,
    Layer.SUMMARY: Category.CALLBACKS,
    Layer.IMPORT: Category.IMPORTS,
    Layer.SINGLE_STEP: Category.PREPARATION,
    Layer.WARM_STEP: Category.WARM_UP,
    Layer.STEP: Category.PRODUCTIVE,
    Layer.CALLBACKS: Category.CALLBACKS,
    Layer.BUILD: Category.PREPARATION,
    Layer.USER: Category.PYTHON,
    Layer.SETUP: Category.PREPARATION,
    Layer.WARM_GAP: Category.WARM_UP,
    Layer.USUAL_GAP: Category.PYTHON,
    Layer.TRACED_GAP: Category.PYTHON,
    Layer.LONG_GAP: Category.PYTHON,
    Layer.EPOCH_END: Category.EPOCH_ENDS,
    Layer.BETWEEN_CALLS: Category.PYTHON,
    Layer.FORGOTTEN: Category.PRODUCTIVE,
    Layer.INTERPRETER: Category.INTERPRETER_START,
    Layer.LAST_CALL: Category.EPOCH_ENDS,
    Layer.BEFORE: Category.PREPARATION,
    Layer.AFTER: Category.IDLE,
}


@dataclass(frozen=True, slots=True)
class Strip:
    """Slices of equal length from `start_ns` to `end_ns`, unix ns, by category."""

    start_ns: int
    end_ns: int
    slices: tuple[Category, ...]


def strip_of(timeline: Timeline, parts: Sequence[Part]) -> Strip:
    """Return the strip of a process, whose account has these parts."""
    edges = np.linspace(timeline.start_ns, timeline.end_ns, SLICES + 1).astype(np.int64)
    categories, between = list(Category), _of_gaps(timeline, parts)
    spent = np.zeros((len(categories), SLICES), dtype=np.int64)
    for layer, times in timeline.layers.items():
        row = categories.index(between if layer in _GAPS else _OF_LAYER[layer])
        spent[row] += within_ns(times, edges[:-1], edges[1:])
    spent[categories.index(Category.NOT_KNOWN)] += (edges[1:] - edges[:-1]) - spent.sum(axis=0)
    return Strip(
        timeline.start_ns,
        timeline.end_ns,
        tuple(categories[at] for at in spent.argmax(axis=0).tolist()),
    )


def _of_gaps(timeline: Timeline, parts: Sequence[Part]) -> Category:
    """Return what most of the time between steps went to: what no layer of its own explains."""
    left_ns = {part.category: part.ns for part in parts}
    for layer, category in _OF_LAYER.items():
        if layer not in _GAPS and layer in timeline.layers:
            left_ns[category] = left_ns.get(category, 0) - timeline.total_ns(layer)
    return max(_OF_GAPS, key=lambda category: left_ns.get(category, 0))
