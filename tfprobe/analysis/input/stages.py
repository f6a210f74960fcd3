"""Build the tree of the stages of a tf.data pipeline from the calls of its iterators, with times.

Stages are identified by path, so a stage without recorded calls of its own (all began before the
traced step or ended after it) is still known from the paths of the stages below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.input import stage_kinds
from tfprobe.profile.capture_tables import SpanKind, Spans
from tfprobe.profile.tables import Flags, Int32s, Int64s, T

Path = tuple[str, ...]

# XProf's threshold: a call that takes from a full buffer is faster.
SLOW_CALL_NS = 50_000


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a pipeline, its position in the tree, and the times of its recorded calls.

    `self_ns` is the time of its calls without the calls they made on the same thread: waiting, for
    a stage that takes from a buffer, else work. `typical_ns` is the median of its calls, `captures`
    how many captures have any. `iterators` is their number: an interleave has many. `facts` are the
    attributes that TensorFlow recorded last.
    """

    path: Path
    parent: int | None
    children: tuple[int, ...]
    iterators: int
    captures: int
    calls: int
    total_ns: int
    self_ns: int
    typical_ns: int
    longest_ns: int
    slow_calls: int
    threads: tuple[str, ...]
    facts: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def kind(self) -> str:
        return stage_kinds.kind_of(self.name)

    @property
    def is_async(self) -> bool:
        return stage_kinds.is_async(self.kind)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Stages, parents first, and the stage of each span of iterators and functions.

    `is_served`: when the call began, its element was in the buffer.
    """

    stages: tuple[Stage, ...]
    calls: Spans
    call_stage: Int64s
    is_served: Flags
    functions: Spans
    function_stage: Int64s

    @property
    def roots(self) -> tuple[int, ...]:
        return tuple(at for at, stage in enumerate(self.stages) if stage.parent is None)

    def below(self, at: int) -> tuple[int, ...]:
        """Return a stage and all stages below it, parents first."""
        found = [at]
        for stage in found:
            found.extend(self.stages[stage].children)
        return tuple(found)

    def number(self, path: str) -> int | None:
        """Return the stage that an iterator with this path belongs to."""
        parts = stage_kinds.parts_of(path)
        return next((at for at, stage in enumerate(self.stages) if stage.path == parts), None)


def pipeline(spans: Spans, *, slow_call_ns: int = SLOW_CALL_NS) -> Pipeline:
    """Return the pipelines of all captures in `spans` as one tree of stages."""
    calls = in_order(spans.only(spans.kind == SpanKind.ITERATOR))
    functions = in_order(spans.only(spans.kind == SpanKind.DATASET_FUNCTION))
    paths = {
        at: stage_kinds.parts_of(spans.strings[at]) for at in _texts(calls.name, functions.name)
    }
    ordered = _with_ancestors(paths.values())
    numbers = {path: number for number, path in enumerate(ordered)}
    call_stage = _stages(calls.name, paths, numbers)
    above = np.array([numbers.get(path[:-1], -1) for path in ordered], dtype=np.int64)
    self_ns = _self_ns(calls, call_stage, above)
    below: dict[Path, list[int]] = {}
    for path, number in numbers.items():
        below.setdefault(path[:-1], []).append(number)
    stages = tuple(
        _stage(
            path,
            numbers.get(path[:-1]),
            below.get(path, ()),
            calls,
            call_stage == number,
            self_ns,
            slow_call_ns,
        )
        for number, path in enumerate(ordered)
    )
    is_served = _served(calls, call_stage, stages)
    function_stage = _stages(functions.name, paths, numbers)
    return Pipeline(stages, calls, call_stage, is_served, functions, function_stage)


def _texts(*columns: Int32s) -> list[int]:
    return [int(at) for at in np.unique(np.concatenate(columns))]


def _with_ancestors(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return all paths and their ancestors, parents first."""
    known: set[Path] = set()
    for path in paths:
        known.update(path[:depth] for depth in range(1, len(path) + 1))
    return tuple(sorted(known))


def _stages(names: Int32s, paths: Mapping[int, Path], numbers: Mapping[Path, int]) -> Int64s:
    unique, inverse = np.unique(names, return_inverse=True)
    of_unique = np.array([numbers[paths[int(at)]] for at in unique], dtype=np.int64)
    stages: Int64s = of_unique[inverse]
    return stages


def _stage(
    path: Path,
    parent: int | None,
    children: Iterable[int],
    calls: Spans,
    mine: Flags,
    self_ns: Int64s,
    slow_call_ns: int,
) -> Stage:
    durations_ns = calls.duration_ns[mine]
    last = np.flatnonzero(mine)[-1:]
    return Stage(
        path=path,
        parent=parent,
        children=tuple(children),
        iterators=len(np.unique(calls.identity[mine])),
        captures=len(np.unique(calls.capture[mine])),
        calls=len(durations_ns),
        total_ns=int(durations_ns.sum()),
        self_ns=int(self_ns[mine].sum()),
        typical_ns=int(np.median(durations_ns)) if len(durations_ns) else 0,
        longest_ns=int(durations_ns.max(initial=0)),
        slow_calls=int(np.count_nonzero(durations_ns > slow_call_ns)),
        threads=tuple(calls.strings[int(at)] for at in np.unique(calls.lane[mine])),
        facts=_facts(calls.strings[int(calls.detail[last[0]])]) if len(last) else {},
    )


def _served(calls: Spans, call_stage: Int64s, stages: Sequence[Stage]) -> Flags:
    """Return which calls found their element in the buffer."""
    pairs, inverse = np.unique(np.stack([call_stage, calls.detail]), axis=1, return_inverse=True)
    of_pair = [
        stages[stage].is_async
        and stage_kinds.has_next(stages[stage].kind, _facts(calls.strings[detail]))
        for stage, detail in pairs.T.tolist()
    ]
    served: Flags = np.array(of_pair, dtype=np.bool_)[inverse.ravel()]
    return served


def _self_ns(calls: Spans, stage: Int64s, above: Int64s) -> Int64s:
    """Return the time of each call without the calls it made on its own thread."""
    self_ns = calls.duration_ns.copy()
    for number in np.unique(above[above >= 0]).tolist():
        inner = np.flatnonzero(above[stage] == number)
        outer = np.flatnonzero(stage == number)
        holders = _holders(calls, outer, inner)
        is_inside = holders >= 0
        np.subtract.at(self_ns, holders[is_inside], calls.duration_ns[inner[is_inside]])
    return np.maximum(self_ns, 0)


def _holders(calls: Spans, outer: Int64s, inner: Int64s) -> Int64s:
    """Return for each inner row the outer row around it on the same thread, or -1."""
    rows = np.concatenate([outer, inner])
    is_inner = np.repeat([False, True], [len(outer), len(inner)])
    order = np.lexsort((is_inner, calls.start_ns[rows], calls.lane[rows], calls.capture[rows]))
    at = np.where(is_inner[order], -1, np.arange(len(rows)))
    last_outer = np.maximum.accumulate(at) if len(at) else at
    holders = np.full(len(rows), -1, dtype=np.int64)
    holders[order] = np.where(last_outer >= 0, rows[order][last_outer], -1)
    found = holders[len(outer) :]
    end_ns = calls.start_ns + calls.duration_ns
    inside = (
        (found >= 0)
        & (calls.capture[found] == calls.capture[inner])
        & (calls.lane[found] == calls.lane[inner])
        & (end_ns[found] >= end_ns[inner])
    )
    return np.where(inside, found, -1)


def _facts(detail: str) -> dict[str, str]:
    """Parse "parallelism:2 name:MapDataset:5"; a word without a colon continues the last value."""
    facts: dict[str, str] = {}
    name = ""
    for word in detail.split():
        key, colon, value = word.partition(":")
        if colon:
            name = key
            facts[name] = value
        elif name:
            facts[name] += f" {word}"
    return facts


def in_order(rows: T) -> T:
    """Return the rows sorted by capture, otherwise in their order."""
    if not (np.diff(rows.capture) < 0).any():
        return rows
    order = np.argsort(rows.capture, kind="stable")
    columns = {name: getattr(rows, name)[order] for name in rows.DTYPES}
    return type(rows)(strings=rows.strings, **columns)
