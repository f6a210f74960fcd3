"""Attribute the time that steps wait for a tf.data pipeline to stages: each instant to one stage.

Attribution goes from the outermost call inwards. A stage that calls the one below it on its own
thread passes the instants of that call down; the rest is its own work. A stage that takes from a
buffer is working if its function runs; else it passes down the instants at which anything below it
runs, on any thread. Elements already in a buffer were ready before the step waited, so the stages
that made them get no instants; neither do they for a call that found its element in the buffer,
however long the call waited for a core.

Calls that began before the traced step or ended after it are not recorded. Instants at which a step
waits and no stage runs belong to such calls. They are distributed like the rest of the waiting time
of the stages below; if there is no such time, they go to the outermost stage below whose calls are
missing in that capture while those of the stage it takes from are there. If that stage only
forwards elements, it cannot be the cause, and a stage below it is taken as a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.breakdown.step_parts import GET_NEXT
from tfprobe.analysis.core.intervals import (
    NONE,
    Intervals,
    difference,
    intersection,
    joined,
    lasting,
    union,
)
from tfprobe.analysis.input import stage_kinds
from tfprobe.analysis.input.stages import Pipeline
from tfprobe.profile.capture_tables import Executions, Place, SpanKind, Spans
from tfprobe.profile.tables import Flags, Int64s, having

# How long a thread that waits for a buffer can take to run again, without any stage working.
HANDOVER_NS = 100_000
# If less than this share of the unseen time is known, it says nothing about the rest.
_TELLING_RATIO = 0.2
# A call this much shorter than a wait is not its cause, even if its thread lacked a core.
_SHORT_RATIO = 0.02


@dataclass(frozen=True, slots=True)
class WaitShare:
    """The part of the waiting time of steps attributed to a stage, in ns.

    `own_ns` is its own work, `function_ns` the function it runs, `unseen_ns` calls that were not
    recorded; `guessed_ns` is the part of `unseen_ns` without any evidence in the recording.
    """

    own_ns: int = 0
    function_ns: int = 0
    unseen_ns: int = 0
    guessed_ns: int = 0

    @property
    def total_ns(self) -> int:
        return self.own_ns + self.function_ns + self.unseen_ns

    def plus(
        self, own_ns: int = 0, function_ns: int = 0, unseen_ns: int = 0, guessed_ns: int = 0
    ) -> WaitShare:
        """Return the sum of this and the given times."""
        return WaitShare(
            self.own_ns + own_ns,
            self.function_ns + function_ns,
            self.unseen_ns + unseen_ns,
            self.guessed_ns + guessed_ns,
        )


class _Unseen(NamedTuple):
    """A time in one capture during which a stage waited and no stage below it was seen working.

    `suspect` is the cause by elimination; `is_guess` if the recording has no evidence.
    """

    at: int
    time_ns: int
    suspect: int
    is_guess: bool


def wait_shares(pipeline: Pipeline, timelines: Iterable[PipelineTimeline]) -> tuple[WaitShare, ...]:
    """Return the share of each stage in the waiting time of steps."""
    shares = [WaitShare()] * len(pipeline.stages)
    unseen: list[_Unseen] = []
    for timeline in timelines:
        for root in pipeline.roots:
            instants = intersection(timeline.waits, timeline.calls[root])
            unseen.extend(_follow(pipeline, timeline, root, instants, shares))
    return tuple(_with_unseen(pipeline, shares, unseen))


def active_ns(pipeline: Pipeline, timelines: Iterable[PipelineTimeline]) -> tuple[int, ...]:
    """Return how long each stage itself worked, whether or not a step waited."""
    active = [0] * len(pipeline.stages)
    for timeline in timelines:
        for index, stage in enumerate(pipeline.stages):
            own = NONE if stage.is_async else timeline.calls[index]
            for child in stage.children:
                own = difference(own, timeline.calls[child])
            active[index] += joined(own, timeline.functions[index]).length_ns
    return tuple(active)


def _follow(
    pipeline: Pipeline,
    timeline: PipelineTimeline,
    root: int,
    wait: Intervals,
    shares: list[WaitShare],
) -> Iterator[_Unseen]:
    """Attribute the instants of a wait from a root downwards, adding to `shares`."""
    pending = [(root, wait)]
    while pending:
        at, instants = pending.pop()
        if not len(instants.start_ns):
            continue
        stage, served = pipeline.stages[at], intersection(instants, timeline.served[at])
        instants = difference(instants, served)
        called = NONE if stage.is_async else intersection(instants, timeline.calls[at])
        hidden = difference(instants, called)
        for child in stage.children:
            pending.append((child, intersection(called, timeline.calls[child])))
            called = difference(called, timeline.calls[child])
        in_function = joined(called, hidden)
        in_function = intersection(in_function, timeline.functions[at])
        called, hidden = difference(called, in_function), difference(hidden, in_function)
        for child in stage.children:
            pending.append((child, intersection(hidden, timeline.busy[child])))
            hidden = difference(hidden, timeline.busy[child])
        long = lasting(hidden, HANDOVER_NS)
        own_ns = served.length_ns + called.length_ns + hidden.length_ns - long.length_ns
        shares[at] = shares[at].plus(own_ns, in_function.length_ns)
        for has_call, unseen_ns in zip(
            timeline.has_call.T, timeline.by_capture_ns(long), strict=True
        ):
            if unseen_ns:
                yield _Unseen(at, unseen_ns, *_suspect(pipeline, has_call, at, unseen_ns))


def _with_unseen(
    pipeline: Pipeline, shares: Sequence[WaitShare], unseen: Iterable[_Unseen]
) -> list[WaitShare]:
    """Attribute the unseen time of each stage to the stages below that most likely caused it."""
    final = list(shares)
    by_stage: dict[int, list[_Unseen]] = {}
    for wait in unseen:
        by_stage.setdefault(wait.at, []).append(wait)
    for at, found in by_stage.items():
        unseen_ns = sum(wait.time_ns for wait in found)
        below = pipeline.below(at)
        known_ns = np.array([shares[i].own_ns + shares[i].function_ns for i in below])
        known_ns[0] *= not pipeline.stages[at].is_async
        if known_ns.sum() >= _TELLING_RATIO * unseen_ns:
            for i, part_ns in zip(below, _parts(unseen_ns, known_ns), strict=True):
                final[i] = final[i].plus(unseen_ns=part_ns)
            continue
        for wait in found:
            final[wait.suspect] = final[wait.suspect].plus(
                unseen_ns=wait.time_ns, guessed_ns=wait.time_ns * wait.is_guess
            )
    return final


def _parts(whole_ns: int, weights: Int64s) -> list[int]:
    """Split a time in proportion to weights; the remainder goes to the largest."""
    parts = np.floor(weights / weights.sum() * whole_ns).astype(np.int64)
    parts[int(weights.argmax())] += whole_ns - parts.sum()
    return [int(part) for part in parts]


def _suspect(pipeline: Pipeline, has_call: Flags, at: int, unseen_ns: int) -> tuple[int, bool]:
    """Return the stage at or below this one whose calls are missing, and whether that is a guess.

    Found by elimination; a stage that only forwards elements is replaced by the one below it that
    works most. `has_call`: which stages have calls in the capture.
    """
    first, stages = at, pipeline.stages
    while True:
        missing = [i for i in stages[at].children if _may_miss(pipeline, has_call, i, unseen_ns)]
        if not missing:
            break
        at = missing[0]
    if at == first and stages[at].is_async and not stage_kinds.has_function(stages[at].kind):
        at = stages[at].children[0] if stages[at].children else at
    eliminated = at
    while stage_kinds.passes_on(stages[at].kind) and stages[at].children:
        at = max(stages[at].children, key=lambda i: stages[i].total_ns)
    return at, at != eliminated


def _may_miss(pipeline: Pipeline, has_call: Flags, at: int, unseen_ns: int) -> bool:
    """Return whether a call of this stage of that length may be missing in a capture.

    Not if the capture has one, or if others have some and all of them are short.
    """
    stage = pipeline.stages[at]
    if has_call[at]:
        return False
    return not stage.calls or stage.longest_ns >= _SHORT_RATIO * unseen_ns


_LONGEST_NS = 2.0**61


@dataclass(frozen=True, slots=True)
class PipelineTimeline:
    """When, in some captures, each stage was called, ran its function, or anything below it ran.

    `served` are the calls that found their element in the buffer. `waits` is when steps waited for
    an iterator: they take an element and no kernel runs. `has_call`: which stages have a call in
    which captures, whose positions on the time axis are `begins`.
    """

    begins: Int64s
    waits: Intervals
    calls: Sequence[Intervals]
    served: Sequence[Intervals]
    functions: Sequence[Intervals]
    busy: Sequence[Intervals]
    has_call: Flags

    def by_capture_ns(self, moments: Intervals) -> list[int]:
        """Return the length of `moments` in each capture."""
        found = np.zeros(len(self.begins), dtype=np.int64)
        at = np.searchsorted(self.begins, moments.start_ns, side="right") - 1
        np.add.at(found, at, moments.end_ns - moments.start_ns)
        return found.tolist()


def timelines_of(
    pipeline: Pipeline, spans: Spans, executions: Executions, windows: Mapping[int, Intervals]
) -> tuple[PipelineTimeline, ...]:
    """Return the timelines of some captures; `windows` are their steps, by capture."""
    numbers = np.array(sorted(windows), dtype=np.int64)
    low_ns = np.array([windows[at].start_ns[0] for at in numbers.tolist()], dtype=np.int64)
    high_ns = np.array([windows[at].end_ns[-1] for at in numbers.tolist()], dtype=np.int64)
    steps = _Steps(numbers, low_ns, high_ns, low_ns, high_ns)
    for rows in (pipeline.calls, pipeline.functions):
        steps = steps.reaching(rows)
    return tuple(_timeline(pipeline, spans, executions, part) for part in steps.on_one_axis())


@dataclass(frozen=True, slots=True)
class _Steps:
    """Captures with the windows of their steps, and the bounds of everything recorded."""

    numbers: Int64s
    from_ns: Int64s
    until_ns: Int64s
    low_ns: Int64s
    high_ns: Int64s

    def reaching(self, rows: Spans) -> _Steps:
        """Return these with bounds extended to those of `rows`."""
        low_ns, high_ns, at = self.low_ns.copy(), self.high_ns.copy(), self.place(rows.capture)
        there = at >= 0
        np.minimum.at(low_ns, at[there], rows.start_ns[there])
        np.maximum.at(high_ns, at[there], (rows.start_ns + rows.duration_ns)[there])
        return _Steps(self.numbers, self.from_ns, self.until_ns, low_ns, high_ns)

    def on_one_axis(self) -> Iterator[_Steps]:
        """Yield all captures together, or one by one if they are too long."""
        lengths = self.high_ns.astype(np.float64) - self.low_ns
        if lengths.sum() < _LONGEST_NS:
            yield self
            return
        columns = (self.numbers, self.from_ns, self.until_ns, self.low_ns, self.high_ns)
        for at in range(len(self.numbers)):
            yield _Steps(*(column[at : at + 1] for column in columns))

    @property
    def begins(self) -> Int64s:
        """Return where each capture begins on the common time axis."""
        lengths = self.high_ns - self.low_ns + 1
        begins: Int64s = np.cumsum(lengths) - lengths
        return begins

    def place(self, captures: npt.NDArray[np.int32]) -> Int64s:
        """Return the index of each capture here, -1 for others."""
        at = np.minimum(np.searchsorted(self.numbers, captures), len(self.numbers) - 1)
        found: Int64s = np.where(self.numbers[at] == captures, at, -1)
        return found


def _timeline(
    pipeline: Pipeline, spans: Spans, executions: Executions, steps: _Steps
) -> PipelineTimeline:
    count = len(pipeline.stages)
    calls = _by_stage(steps, pipeline.calls, pipeline.call_stage, count)
    served_stage = np.where(pipeline.is_served, pipeline.call_stage, -1)
    served = _by_stage(steps, pipeline.calls, served_stage, count)
    running = _by_stage(steps, pipeline.functions, pipeline.function_stage, count)
    busy = [joined(call, run) for call, run in zip(calls, running, strict=True)]
    for at in reversed(range(count)):
        parent = pipeline.stages[at].parent
        if parent is not None:
            busy[parent] = joined(busy[parent], busy[at])
    return PipelineTimeline(
        begins=steps.begins,
        waits=_waits(steps, spans, executions),
        calls=calls,
        served=served,
        functions=running,
        busy=busy,
        has_call=_has_call(steps, pipeline, count),
    )


def _by_stage(steps: _Steps, rows: Spans, stage: Int64s, count: int) -> list[Intervals]:
    """Return for each stage the intervals of its spans."""
    at = steps.place(rows.capture)
    there = np.flatnonzero(at >= 0)
    start_ns = (steps.begins - steps.low_ns)[at[there]] + rows.start_ns[there]
    end_ns, mine = start_ns + rows.duration_ns[there], stage[there]
    return [union(start_ns[mine == number], end_ns[mine == number]) for number in range(count)]


def _has_call(steps: _Steps, pipeline: Pipeline, count: int) -> Flags:
    at = steps.place(pipeline.calls.capture)
    there = (at >= 0) & (pipeline.calls.duration_ns > 0)
    found = np.zeros((count, len(steps.numbers)), dtype=np.bool_)
    found[pipeline.call_stage[there], at[there]] = True
    return found


def _waits(steps: _Steps, spans: Spans, executions: Executions) -> Intervals:
    taking = (
        _in_steps(steps, executions, _takes(executions)),
        _in_steps(steps, spans, _root_calls(spans)),
    )
    kernels = _in_steps(steps, executions, executions.place == Place.ACCELERATOR)
    return difference(joined(*taking), kernels)


def _in_steps(steps: _Steps, rows: Executions | Spans, chosen: Flags) -> Intervals:
    """Return when any of the chosen rows ran within the steps."""
    mine = np.flatnonzero(chosen)
    at = steps.place(rows.capture[mine])
    mine, at = mine[at >= 0], at[at >= 0]
    start_ns = rows.start_ns[mine]
    low_ns, high_ns = steps.from_ns[at], steps.until_ns[at]
    shift = (steps.begins - steps.low_ns)[at]
    return union(
        np.clip(start_ns, low_ns, high_ns) + shift,
        np.clip(start_ns + rows.duration_ns[mine], low_ns, high_ns) + shift,
    )


def _takes(executions: Executions) -> Flags:
    takes = having(executions.strings, executions.op_type, lambda text: text.startswith(GET_NEXT))
    chosen: Flags = takes & ~executions.background & (executions.place == Place.HOST)
    return chosen


def _root_calls(spans: Spans) -> Flags:
    is_root = having(spans.strings, spans.name, lambda text: len(stage_kinds.parts_of(text)) == 1)
    chosen: Flags = (spans.kind == SpanKind.ITERATOR) & ~spans.background & is_root
    return chosen
