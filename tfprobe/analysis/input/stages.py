"""Build the tree of a pipeline of tf.data from the calls of its iterators, and sum their times.

A stage is known by its path, so that one whose own calls all began before a traced step or ended
after it is still there: those below it name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.input import stage_kinds
from tfprobe.profile.capture_tables import SpanKind, Spans
from tfprobe.profile.tables import T

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Path = tuple[str, ...]

# XProf's: a call that takes from a full buffer is over sooner.
SLOW_CALL_NS = 50_000


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a pipeline, its place among the others, and what its recorded calls took.

    `self_ns` is the time of its calls without that of the calls they made on the same thread: of a
    stage that takes from a buffer it is waiting, of others it is work. `typical_ns` is the median
    of its calls, `captures` how many recordings have any. `iterators` is how many there were, as an
    interleave has many. `facts` are what TensorFlow said of it last.
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
    """Stages, parents first; and by row of the spans of iterators and functions, whose it is.

    `is_served`: when the call began, the element it took was in the buffer.
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
        """Return a stage and all that it takes from, parents first."""
        found = [at]
        for each in found:
            found.extend(self.stages[each].children)
        return tuple(found)

    def number(self, path: str) -> int | None:
        """Return the stage that an iterator with this path belongs to."""
        parts = stage_kinds.parts_of(path)
        return next((at for at, stage in enumerate(self.stages) if stage.path == parts), None)


def pipeline(spans: Spans, *, slow_call_ns: int = SLOW_CALL_NS) -> Pipeline:
    """Return the pipelines of all captures that these spans are of, as one tree of stages."""
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


def _texts(*columns: npt.NDArray[np.int32]) -> list[int]:
    return [int(at) for at in np.unique(np.concatenate(columns))]


def _with_ancestors(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return all paths and those above them, each before what is below it."""
    known: set[Path] = set()
    for path in paths:
        known.update(path[:depth] for depth in range(1, len(path) + 1))
    return tuple(sorted(known))


def _stages(
    names: npt.NDArray[np.int32], paths: Mapping[int, Path], numbers: Mapping[Path, int]
) -> Int64s:
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
    """Return which calls found what they took in their buffer."""
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
        held = holders >= 0
        np.subtract.at(self_ns, holders[held], calls.duration_ns[inner[held]])
    return np.maximum(self_ns, 0)


def _holders(calls: Spans, outer: Int64s, inner: Int64s) -> Int64s:
    """Return for each inner row the outer one that it ran inside, on the same thread, or -1."""
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
    """Return "parallelism:2 name:MapDataset:5" by name; words without a colon go on."""
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
    """Return the rows by capture, otherwise in the order they have."""
    if not (np.diff(rows.capture) < 0).any():
        return rows
    order = np.argsort(rows.capture, kind="stable")
    columns = {name: getattr(rows, name)[order] for name in rows.DTYPES}
    return type(rows)(strings=rows.strings, **columns)
