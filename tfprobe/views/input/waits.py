"""Say which stages of a pipeline steps waited for: each instant of waiting goes to one of them.

From the outermost call inwards: a stage that calls the one below on its own thread hands the
instants of that call down; the rest is its own work. A stage that takes from a buffer works in its
own function, if one runs then; else it hands down the instants at which anything below it is at
work, on whatever thread. What a buffer held already was ready before the step waited, so none of
those instants go to what made it.

A call that began before the recorded step is not recorded, and neither is one that ended after it.
Instants at which a step waits and nothing is seen to work are those of such calls. They are shared
as the rest of what the stages there did to waiting steps; where there is nothing to go by, they go
to the outermost stage below whose calls are missing while those of what it takes from are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfprobe.model.spans import Spans
from tfprobe.model.tables import Int64s
from tfprobe.views.input import kinds
from tfprobe.views.input.order import rows_of
from tfprobe.views.input.stages import Pipeline
from tfprobe.views.intervals import (
    NONE,
    Intervals,
    difference,
    intersection,
    joined,
    lasting,
    union,
)

# Until a thread that waits for a buffer runs again; nothing has to have been at work meanwhile.
HANDOVER_NS = 100_000
# Less than this of what is not seen says nothing about the rest.
_TELLING_RATIO = 0.2


@dataclass(frozen=True, slots=True)
class Share:
    """What a stage had of the time that steps waited, in ns.

    `own_ns` in its own work, `function_ns` in the function it runs, `unseen_ns` in calls that the
    recording does not hold.
    """

    own_ns: int = 0
    function_ns: int = 0
    unseen_ns: int = 0

    @property
    def total_ns(self) -> int:
        return self.own_ns + self.function_ns + self.unseen_ns

    def plus(self, own_ns: int, function_ns: int, unseen_ns: int) -> Share:
        """Return this with more of each."""
        return Share(
            self.own_ns + own_ns, self.function_ns + function_ns, self.unseen_ns + unseen_ns
        )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one capture shows of each stage: its calls, its function, and anything below."""

    calls: Sequence[Intervals]
    functions: Sequence[Intervals]
    busy: Sequence[Intervals]


def share(pipeline: Pipeline, waits: Mapping[int, Intervals]) -> tuple[Share, ...]:
    """Return the share of each stage; `waits` are those of the steps, by capture."""
    shares = [Share()] * len(pipeline.stages)
    for capture, wait in waits.items():
        seen = _seen(pipeline, capture)
        for root in pipeline.roots:
            _follow(pipeline, seen, root, intersection(wait, seen.calls[root]), shares)
    return tuple(_without_unknown(pipeline, shares))


def active_ns(pipeline: Pipeline, captures: Iterable[int]) -> tuple[int, ...]:
    """Return how long each stage was at work itself, whether or not a step waited."""
    active = [0] * len(pipeline.stages)
    for capture in captures:
        seen = _seen(pipeline, capture)
        for at, stage in enumerate(pipeline.stages):
            own = NONE if stage.is_async else seen.calls[at]
            for child in stage.children:
                own = difference(own, seen.calls[child])
            active[at] += joined(own, seen.functions[at]).length_ns
    return tuple(active)


def _seen(pipeline: Pipeline, capture: int) -> _Seen:
    count = len(pipeline.stages)
    calls = _moments(pipeline.calls, pipeline.call_stage, capture, count)
    running = _moments(pipeline.functions, pipeline.function_stage, capture, count)
    busy = [joined(call, run) for call, run in zip(calls, running, strict=True)]
    for at in reversed(range(count)):
        parent = pipeline.stages[at].parent
        if parent is not None:
            busy[parent] = joined(busy[parent], busy[at])
    return _Seen(calls, running, busy)


def _moments(spans: Spans, stage: Int64s, capture: int, count: int) -> list[Intervals]:
    """Return for each stage when a capture has spans of it."""
    rows = rows_of(spans, capture)
    start_ns, mine = spans.start_ns[rows], stage[rows]
    end_ns = start_ns + spans.duration_ns[rows]
    return [union(start_ns[mine == at], end_ns[mine == at]) for at in range(count)]


def _follow(
    pipeline: Pipeline, seen: _Seen, root: int, wait: Intervals, shares: list[Share]
) -> None:
    """Hand the instants of a wait down from a root, and note at each stage those that stay."""
    pending = [(root, wait)]
    while pending:
        at, instants = pending.pop()
        if not len(instants.start_ns):
            continue
        calls, stage = seen.calls[at], pipeline.stages[at]
        called = NONE if stage.is_async else intersection(instants, calls)
        hidden = difference(instants, called)
        for child in stage.children:
            pending.append((child, intersection(called, seen.calls[child])))
            called = difference(called, seen.calls[child])
        in_function = joined(called, hidden)
        in_function = intersection(in_function, seen.functions[at])
        called, hidden = difference(called, in_function), difference(hidden, in_function)
        for child in stage.children:
            pending.append((child, intersection(hidden, seen.busy[child])))
            hidden = difference(hidden, seen.busy[child])
        unseen_ns = lasting(hidden, HANDOVER_NS).length_ns
        own_ns = called.length_ns + hidden.length_ns - unseen_ns
        shares[at] = shares[at].plus(own_ns, in_function.length_ns, unseen_ns)


def _without_unknown(pipeline: Pipeline, shares: Sequence[Share]) -> list[Share]:
    """Give the unseen part of each stage to those below it that it most likely was."""
    final = [replace(each, unseen_ns=0) for each in shares]
    for at, each in enumerate(shares):
        if not each.unseen_ns:
            continue
        below = pipeline.below(at)
        known_ns = np.array([shares[i].own_ns + shares[i].function_ns for i in below])
        known_ns[0] *= not pipeline.stages[at].is_async
        if known_ns.sum() < _TELLING_RATIO * each.unseen_ns:
            below, known_ns = (_suspect(pipeline, at),), np.ones(1)
        parts = np.floor(known_ns / known_ns.sum() * each.unseen_ns).astype(np.int64)
        parts[int(known_ns.argmax())] += each.unseen_ns - parts.sum()
        for i, part in zip(below, parts.tolist(), strict=True):
            final[i] = replace(final[i], unseen_ns=final[i].unseen_ns + part)
    return final


def _suspect(pipeline: Pipeline, at: int) -> int:
    """Return the stage at or below this one in whose calls nobody looked, by elimination."""
    first = at
    while True:
        missing = [i for i in pipeline.stages[at].children if not pipeline.stages[i].calls]
        if not missing:
            break
        at = missing[0]
    stage = pipeline.stages[at]
    only_takes = stage.is_async and not kinds.has_function(stage.kind)
    return stage.children[0] if at == first and only_takes and stage.children else at
