"""Divide the life of a process into layers; each moment is in exactly one.

Where several layers cover a moment, the first in `TimelineLayer` gets it: a checkpoint is saved by
a callback, and a function is traced within a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from tfprobe.analysis.account.gaps import GapKind, Gaps, LoopRoles, LoopSteps
from tfprobe.analysis.breakdown.cycles import LoopParts
from tfprobe.analysis.core.intervals import (
    NONE,
    Intervals,
    clipped,
    difference,
    joined,
    one,
    union,
    within_ns,
)
from tfprobe.analysis.steps.phases import TRACED_TIMES, is_training, step_phases
from tfprobe.errors import Missing
from tfprobe.profile.activities import Activity, Gap, ResourceSample
from tfprobe.profile.profile import Loop, Process, Profile
from tfprobe.profile.tables import Int64s


class TimelineLayer(IntEnum):
    """The layers of a process's life, the most specific first.

    Garbage collections during imports and tracing belong to these.
    """

    TRACE = 0
    FIRST_STEP = 1
    SAVE = 2
    EVALUATION = 3
    SUMMARY = 4
    IMPORT = 5
    COLLECTION = 6
    SINGLE_STEP = 7
    WARM_STEP = 8
    STEP = 9
    CALLBACKS = 10
    BUILD = 11
    USER = 12
    BETWEEN_CELLS = 13
    SETUP = 14
    WARM_GAP = 15
    USUAL_GAP = 16
    TRACED_GAP = 17
    LONG_GAP = 18
    EPOCH_END = 19
    BETWEEN_CALLS = 20
    FORGOTTEN = 21
    INTERPRETER = 22
    LAST_CALL = 23
    BEFORE = 24
    AFTER = 25


# Kind and name of a call that starts with a new graph and a new session.
TRAINS_ANEW = ("train", "Estimator.train")
# Layers that lie above the gaps.
_ABOVE_GAPS = tuple(layer for layer in TimelineLayer if layer < TimelineLayer.WARM_GAP)
_PREPARING = (
    TimelineLayer.SINGLE_STEP,
    TimelineLayer.BUILD,
    TimelineLayer.USER,
    TimelineLayer.SETUP,
    TimelineLayer.BEFORE,
)
_OF_KIND: Mapping[str, TimelineLayer] = {
    "trace": TimelineLayer.TRACE,
    "lower": TimelineLayer.TRACE,
    "xla": TimelineLayer.TRACE,
    "torch_compile": TimelineLayer.TRACE,
    "save": TimelineLayer.SAVE,
    "evaluate": TimelineLayer.EVALUATION,
    "predict": TimelineLayer.EVALUATION,
    "summary": TimelineLayer.SUMMARY,
    "import": TimelineLayer.IMPORT,
    "callbacks": TimelineLayer.CALLBACKS,
    "build": TimelineLayer.BUILD,
    "compile": TimelineLayer.BUILD,
    "data": TimelineLayer.BUILD,
    "user": TimelineLayer.USER,
    "between_cells": TimelineLayer.BETWEEN_CELLS,
}
_OF_GAP: Mapping[GapKind, TimelineLayer] = {
    GapKind.WARM_UP: TimelineLayer.WARM_GAP,
    GapKind.USUAL: TimelineLayer.USUAL_GAP,
    GapKind.TRACED: TimelineLayer.TRACED_GAP,
    GapKind.LONG: TimelineLayer.LONG_GAP,
    GapKind.EPOCH_END: TimelineLayer.EPOCH_END,
    GapKind.BETWEEN_CALLS: TimelineLayer.BETWEEN_CALLS,
    GapKind.FORGOTTEN: TimelineLayer.FORGOTTEN,
}


@dataclass(frozen=True, slots=True)
class Timeline:
    """The intervals of each layer, from the start of a process to its end, in unix ns.

    Layers are disjoint; what none of them covers is not known.
    """

    start_ns: int
    end_ns: int
    layers: Mapping[TimelineLayer, Intervals]

    @property
    def wall_ns(self) -> int:
        return self.end_ns - self.start_ns

    def total_ns(self, layer: TimelineLayer) -> int:
        """Return the total length of a layer."""
        return self.layers.get(layer, NONE).length_ns

    def prepared_ns(self, first_ns: int) -> int:
        """Return how much time of the preparing layers lies before the first step."""
        times = joined(NONE, *(self.layers.get(layer, NONE) for layer in _PREPARING))
        until = clipped(times, self.start_ns, max(first_ns, self.start_ns))
        return until.length_ns

    def left_ns(self, gaps: Gaps) -> Int64s:
        """Return how much of each gap no more specific layer covers."""
        above = joined(*(self.layers.get(layer, NONE) for layer in _ABOVE_GAPS))
        left: Int64s = gaps.end_ns - gaps.start_ns - within_ns(above, gaps.start_ns, gaps.end_ns)
        return left


@dataclass(frozen=True, slots=True)
class LifeBounds:
    """When a process began, imported, took its first and last step, and ended, in unix ns.

    `last_call_ns` is the end of the training call that took the last step, or that of the step.
    """

    start_ns: int
    booted_ns: int
    first_ns: int
    last_ns: int
    last_call_ns: int
    end_ns: int
    forgotten: tuple[int, int]


def life_timeline(
    loops: LoopRoles,
    steps: LoopSteps,
    gaps: Gaps,
    activities: Sequence[Activity],
    resource_samples: Sequence[ResourceSample],
    bounds: LifeBounds,
    shift_ns: int,
) -> Timeline:
    """Return the timeline of a process."""
    by_layer: dict[TimelineLayer, list[Intervals]] = {}
    for layer, times in (
        *_of_activities(activities, with_evaluation=is_training(loops.main) or not loops.main),
        *_of_steps(loops, steps, shift_ns),
        (TimelineLayer.SETUP, setups(activities, steps)),
        *((layer, gaps.of(kind)) for kind, layer in _OF_GAP.items()),
        *_of_rest(resource_samples, bounds),
    ):
        by_layer.setdefault(layer, []).append(times)
    layers: dict[TimelineLayer, Intervals] = {}
    covered = NONE
    for layer in TimelineLayer:
        times = clipped(joined(NONE, *by_layer.get(layer, ())), bounds.start_ns, bounds.end_ns)
        layers[layer] = difference(times, covered)
        covered = joined(covered, times)
    return Timeline(bounds.start_ns, bounds.end_ns, layers)


def _of_activities(
    activities: Sequence[Activity], *, with_evaluation: bool
) -> Iterator[tuple[TimelineLayer, Intervals]]:
    for kind, layer in _OF_KIND.items():
        if layer is TimelineLayer.EVALUATION and not with_evaluation:
            continue
        times = [(a.start_ns, a.end_ns) for a in activities if a.kind == kind]
        yield layer, _intervals(times)


def _of_steps(
    loops: LoopRoles, steps: LoopSteps, shift_ns: int
) -> Iterator[tuple[TimelineLayer, Intervals]]:
    yield TimelineLayer.FIRST_STEP, _slow_firsts(loops.main, steps)
    yield TimelineLayer.WARM_STEP, union(steps.start_ns[steps.warm], steps.end_ns[steps.warm])
    yield TimelineLayer.STEP, union(steps.start_ns[~steps.warm], steps.end_ns[~steps.warm])
    for loop in loops.single:
        recent = loop.recent
        yield TimelineLayer.SINGLE_STEP, union(recent.start_ns + shift_ns, recent.end_ns + shift_ns)
    for spans in step_phases((*loops.main, *loops.evaluating)):
        if spans.phase == "evaluation":
            yield (
                TimelineLayer.EVALUATION,
                union(spans.start_ns + shift_ns, spans.end_ns + shift_ns),
            )


def setups(activities: Sequence[Activity], steps: LoopSteps) -> Intervals:
    """Return the time from the start of each Estimator training call to its first main step.

    There it builds a graph, creates a session and restores the latest checkpoint.
    """
    calls = [activity for activity in activities if (activity.kind, activity.name) == TRAINS_ANEW]
    first_ns = np.sort(steps.start_ns[steps.loop == 0])
    spans = []
    for call in calls:
        inside = first_ns[(first_ns >= call.start_ns) & (first_ns < call.end_ns)]
        spans += [(call.start_ns, int(inside[0]))] if len(inside) else []
    return _intervals(spans)


def first_steps(loops: Sequence[Loop], steps: LoopSteps) -> Mapping[int, int]:
    """Return the length in ns of first steps that took as long as only tracing does.

    The keys are indexes of `loops`.
    """
    first_ns: dict[int, int] = {}
    for index in range(len(loops)):
        rows = np.flatnonzero(steps.loop == index)
        lengths_ns = steps.end_ns[rows] - steps.start_ns[rows]
        if len(rows) < 2 or steps.number[rows[0]]:
            continue
        if lengths_ns[0] > TRACED_TIMES * np.median(lengths_ns[1:]):
            first_ns[index] = int(lengths_ns[0])
    return first_ns


def _slow_firsts(loops: Sequence[Loop], steps: LoopSteps) -> Intervals:
    rows = [int(np.flatnonzero(steps.loop == index)[0]) for index in first_steps(loops, steps)]
    return union(steps.start_ns[rows], steps.end_ns[rows])


def _of_rest(
    resource_samples: Sequence[ResourceSample], bounds: LifeBounds
) -> Iterator[tuple[TimelineLayer, Intervals]]:
    yield (
        TimelineLayer.COLLECTION,
        _intervals([pause for sample in resource_samples for pause in sample.gc_pauses]),
    )
    yield TimelineLayer.FORGOTTEN, one(*bounds.forgotten)
    yield TimelineLayer.INTERPRETER, one(bounds.start_ns, bounds.booted_ns)
    yield TimelineLayer.BEFORE, one(bounds.booted_ns, bounds.first_ns)
    yield TimelineLayer.LAST_CALL, one(bounds.last_ns, bounds.last_call_ns)
    yield TimelineLayer.AFTER, one(bounds.last_ns, bounds.end_ns)


def _intervals(times: Sequence[tuple[int, int]]) -> Intervals:
    start_ns, end_ns = np.array(times, dtype=np.int64).reshape(-1, 2).T
    return union(start_ns, end_ns)


@dataclass(frozen=True, slots=True)
class AccountFacts:
    """What is known of one process: its loops, traced steps (`parts`), activities and samples."""

    profile: Profile
    process: Process
    loops: Sequence[Loop]
    roles: LoopRoles
    steps: LoopSteps
    gaps: Gaps
    activities: Sequence[Activity]
    resource_samples: Sequence[ResourceSample]
    parts: Sequence[LoopParts]
    bounds: LifeBounds
    timeline: Timeline
    shift_ns: int

    def parts_of(self, loop: Loop) -> LoopParts | Missing:
        """Return the traced steps of a loop."""
        for part in self.parts:
            if not isinstance(part.loop, Missing) and part.loop.index == loop.index:
                return part
        return Missing("no step of it was traced")

    def gap_of(self, watched: Gap) -> int | None:
        """Return the row of a watched gap."""
        row = int(np.searchsorted(self.gaps.start_ns, watched.start_ns, side="right")) - 1
        if row < 0 or watched.start_ns >= self.gaps.end_ns[row]:
            return None
        return row


def title(loop: Loop) -> str:
    """Return the name of a loop with its kind."""
    return f"{loop.kind} {loop.name}".strip()


def names_of(activities: Iterable[Activity], kinds: Iterable[str]) -> Mapping[tuple[str, str], int]:
    """Return the time of the activities of these kinds by name and source, in ns."""
    chosen = frozenset(kinds)
    times_ns: dict[tuple[str, str], int] = {}
    for activity in activities:
        if activity.kind in chosen:
            key = (activity.name, f"{activity.file}:{activity.line}" if activity.file else "")
            times_ns[key] = times_ns.get(key, 0) + max(activity.end_ns - activity.start_ns, 0)
    return times_ns
