"""Lay what captures show of a pipeline on one axis of time: its calls, and when steps waited.

Captures stand behind each other on it and do not touch, so that sets of moments of all of them are
handled at once. Damaged times may be too long for that; then each capture is looked at by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.core.intervals import Intervals, difference, joined, union
from tfprobe.analysis.input import stage_kinds
from tfprobe.analysis.input.stages import Pipeline
from tfprobe.profile.capture_tables import Executions, Place, SpanKind, Spans
from tfprobe.profile.tables import Flags, Int64s, having

GET_NEXT = ("IteratorGetNext", "MultiDeviceIteratorGetNext")
_LONGEST_NS = 2.0**61


@dataclass(frozen=True, slots=True)
class Seen:
    """What captures show of each stage: its calls, its function, and anything below.

    `served` are those of its calls that found their element in the buffer. `waits` is when steps
    waited for an iterator: they take an element and no kernel runs. `has_call` says of each stage
    in which captures a call of it was seen; those begin at `begins`.
    """

    begins: Int64s
    waits: Intervals
    calls: Sequence[Intervals]
    served: Sequence[Intervals]
    functions: Sequence[Intervals]
    busy: Sequence[Intervals]
    has_call: Flags

    def by_capture_ns(self, moments: Intervals) -> list[int]:
        """Return how much of some moments each capture has."""
        found = np.zeros(len(self.begins), dtype=np.int64)
        at = np.searchsorted(self.begins, moments.start_ns, side="right") - 1
        np.add.at(found, at, moments.end_ns - moments.start_ns)
        return found.tolist()


def see(
    pipeline: Pipeline, spans: Spans, executions: Executions, windows: Mapping[int, Intervals]
) -> tuple[Seen, ...]:
    """Return what these captures show; `windows` are their steps, by capture."""
    numbers = np.array(sorted(windows), dtype=np.int64)
    low_ns = np.array([windows[at].start_ns[0] for at in numbers.tolist()], dtype=np.int64)
    high_ns = np.array([windows[at].end_ns[-1] for at in numbers.tolist()], dtype=np.int64)
    steps = _Steps(numbers, low_ns, high_ns, low_ns, high_ns)
    for rows in (pipeline.calls, pipeline.functions):
        steps = steps.reaching(rows)
    return tuple(_seen(pipeline, spans, executions, each) for each in steps.on_one_axis())


@dataclass(frozen=True, slots=True)
class _Steps:
    """Captures with the windows of their steps, and from when to when anything was recorded."""

    numbers: Int64s
    from_ns: Int64s
    until_ns: Int64s
    low_ns: Int64s
    high_ns: Int64s

    def reaching(self, rows: Spans) -> _Steps:
        """Return them as long as these rows are."""
        low_ns, high_ns, at = self.low_ns.copy(), self.high_ns.copy(), self.place(rows.capture)
        there = at >= 0
        np.minimum.at(low_ns, at[there], rows.start_ns[there])
        np.maximum.at(high_ns, at[there], (rows.start_ns + rows.duration_ns)[there])
        return _Steps(self.numbers, self.from_ns, self.until_ns, low_ns, high_ns)

    def on_one_axis(self) -> Iterator[_Steps]:
        """Give all of them, or one by one where they are too long."""
        lengths = self.high_ns.astype(np.float64) - self.low_ns
        if lengths.sum() < _LONGEST_NS:
            yield self
            return
        columns = (self.numbers, self.from_ns, self.until_ns, self.low_ns, self.high_ns)
        for at in range(len(self.numbers)):
            yield _Steps(*(column[at : at + 1] for column in columns))

    @property
    def begins(self) -> Int64s:
        """Return where each capture begins on the axis."""
        lengths = self.high_ns - self.low_ns + 1
        begins: Int64s = np.cumsum(lengths) - lengths
        return begins

    def place(self, captures: npt.NDArray[np.int32]) -> Int64s:
        """Return the place of captures among these, -1 for others."""
        at = np.minimum(np.searchsorted(self.numbers, captures), len(self.numbers) - 1)
        found: Int64s = np.where(self.numbers[at] == captures, at, -1)
        return found


def _seen(pipeline: Pipeline, spans: Spans, executions: Executions, steps: _Steps) -> Seen:
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
    return Seen(
        begins=steps.begins,
        waits=_waits(steps, spans, executions),
        calls=calls,
        served=served,
        functions=running,
        busy=busy,
        has_call=_has_call(steps, pipeline, count),
    )


def _by_stage(steps: _Steps, rows: Spans, stage: Int64s, count: int) -> list[Intervals]:
    """Return for each stage when captures have spans of it."""
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
    """Return when any of these rows ran, inside of the steps."""
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
