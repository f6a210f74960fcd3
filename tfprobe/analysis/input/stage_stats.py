"""Measure how a tf.data pipeline slows the steps of a loop: shares, functions, the bottleneck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.core.intervals import Intervals
from tfprobe.analysis.input import stage_kinds
from tfprobe.analysis.input.input_waits import (
    HANDOVER_NS,
    WaitShare,
    active_ns,
    timelines_of,
    wait_shares,
)
from tfprobe.analysis.input.stages import Pipeline, Stage, pipeline
from tfprobe.analysis.ops.op_stats import OpStats, by_type
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Executions, Place, Spans
from tfprobe.profile.tables import used

PYTHON_OPS = frozenset({"EagerPyFunc", "NumpyFunction", "PyFunc", "PyFuncStateless"})
# Work that is less than this share of the wait does not explain it.
_TELLING_RATIO = 0.2
# How many ops of a function are listed, the longest.
MOST_OPS = 5
# With so many elements per batch, each so short, the calls cost more than the work.
MANY_ELEMENTS = 100
TINY_CALL_NS = 10_000


@dataclass(frozen=True, slots=True)
class StageUse:
    """A stage, its share of the wait, and the work it did itself.

    `active_ns` is how long it worked, whether a step waited or not; `functions` is the number of
    calls of its function, `function_ns` their time, `ops` the longest ops in it. `served` calls
    found their element in the buffer.
    """

    stage: Stage
    share: WaitShare
    active_ns: int
    functions: int
    function_ns: int
    ops: tuple[OpStats, ...]
    served: int

    @property
    def runs_python(self) -> bool:
        """Return whether Python takes most of the time of its function."""
        python_ns = sum(op.time_ns for op in self.ops if is_python(op))
        return 2 * python_ns > sum(op.time_ns for op in self.ops)


@dataclass(frozen=True, slots=True)
class PipelineUse:
    """A pipeline in the captures of one loop.

    `wait_ns` is how long steps waited for it; 0 if they take their input elsewhere, as in a loop
    that calls the iterator itself. The bottleneck is then the stage that works most; if it was
    hardly seen working, `is_measured` is false and the bottleneck is the most likely stage.
    `is_ahead`: the bottleneck or a stage above it can buffer elements before a step takes them.
    `loose_ops` also ran for an iterator, but an unknown one, called before the capture began.
    """

    stages: tuple[StageUse, ...]
    captures: int
    wait_ns: int
    bottleneck: int | Missing
    is_ahead: bool
    is_measured: bool
    loose_ops: tuple[OpStats, ...] = ()

    @property
    def keeps_up(self) -> bool:
        """Return whether steps only waited for elements to be handed over, not to be made."""
        making_ns = sum(use.share.total_ns for use in self.stages if not _hands_over(use))
        making_ns += sum(
            use.share.function_ns + use.share.unseen_ns for use in self.stages if _hands_over(use)
        )
        return self.is_ahead and making_ns < HANDOVER_NS * self.captures

    @property
    def is_of_arrays(self) -> bool:
        """Return whether Keras built the pipeline for arrays: slices of indices, a gathering map.

        Source: keras/src/trainers/data_adapters/array_data_adapter.py.
        """
        return any(_gathers_arrays(self.stages, at) for at in range(len(self.stages)))

    @property
    def blocking_path(self) -> tuple[int, ...]:
        """Return the stages from the root down to the bottleneck."""
        if isinstance(self.bottleneck, Missing):
            return ()
        path: list[int] = []
        at: int | None = self.bottleneck
        while at is not None:
            path.append(at)
            at = self.stages[at].stage.parent
        return tuple(reversed(path))

    @property
    def unseen_ratio(self) -> float:
        """Return the share of the wait that was for calls that were not recorded."""
        total_ns = sum(use.share.total_ns for use in self.stages)
        return sum(use.share.unseen_ns for use in self.stages) / total_ns if total_ns else 0.0


def pipeline_use(
    spans: Spans,
    executions: Executions,
    windows: Mapping[int, Intervals],
    *,
    slow_call_ns: int,
    cycle_wait_ns: float = 0.0,
) -> PipelineUse | Missing:
    """Return the use of the pipeline in the spans and executions of some captures.

    `windows` are the steps by capture; `cycle_wait_ns` is how long the mean cycle waits for
    iterators, also between steps.
    """
    input_pipeline = pipeline(spans, slow_call_ns=slow_call_ns)
    if not input_pipeline.stages:
        return Missing("the recording holds no call of an iterator of tf.data")
    timelines = timelines_of(input_pipeline, spans, executions, windows)
    shares, active = wait_shares(input_pipeline, timelines), active_ns(input_pipeline, timelines)
    ops = _ops(input_pipeline, executions)
    uses = tuple(
        _use(input_pipeline, at, shares[at], active[at], ops.get(at, ()))
        for at in range(len(input_pipeline.stages))
    )
    wait_ns = sum(timeline.waits.length_ns for timeline in timelines)
    is_measured = _seen_ns(uses) >= _TELLING_RATIO * cycle_wait_ns * len(windows)
    bottleneck = _bottleneck(uses) if is_measured else _likely(uses)
    return PipelineUse(
        stages=uses,
        captures=len(windows),
        wait_ns=wait_ns,
        bottleneck=bottleneck,
        is_ahead=_is_ahead(uses, bottleneck),
        is_measured=is_measured,
        loose_ops=_loose_ops(executions),
    )


def is_python(op: OpStats) -> bool:
    """Say whether an op runs Python."""
    return op.type in PYTHON_OPS


def _loose_ops(executions: Executions) -> tuple[OpStats, ...]:
    """Return the ops that ran for an iterator without a call in the capture."""
    is_loose = (executions.place == Place.HOST) & executions.background & (executions.detail == 0)
    return by_type(executions.only(is_loose))[:MOST_OPS]


def _ops(found: Pipeline, executions: Executions) -> dict[int, tuple[OpStats, ...]]:
    """Return by stage the ops of their functions, longest first."""
    mine = executions.only((executions.place == Place.HOST) & (executions.detail > 0))
    paths_of: dict[int, list[int]] = {}
    for path in used(mine.detail):
        stage = found.number(executions.strings[path])
        if stage is not None:
            paths_of.setdefault(stage, []).append(path)
    return {
        stage: by_type(mine.only(np.isin(mine.detail, paths)))[:MOST_OPS]
        for stage, paths in paths_of.items()
    }


def _use(
    found: Pipeline, at: int, share: WaitShare, active_ns: int, ops: tuple[OpStats, ...]
) -> StageUse:
    mine = found.function_stage == at
    return StageUse(
        stage=found.stages[at],
        share=share,
        active_ns=active_ns,
        functions=int(np.count_nonzero(mine)),
        function_ns=int(found.functions.duration_ns[mine].sum()),
        ops=ops,
        served=int(np.count_nonzero(found.is_served[found.call_stage == at])),
    )


def _bottleneck(uses: Sequence[StageUse]) -> int | Missing:
    """Return the stage that steps waited for longest; if none is known, the busiest."""
    for weigh in (_waited_ns, _active_ns):
        weights = _with_tiny_elements(uses, [weigh(use) for use in uses])
        if max(weights) > 0:
            return weights.index(max(weights))
    return Missing("no stage of the pipeline was seen running")


def _seen_ns(uses: Sequence[StageUse]) -> int:
    """Return the time on which the choice of the bottleneck is based."""
    if any(_waited_ns(use) for use in uses):
        return sum(_waited_ns(use) - use.share.guessed_ns for use in uses)
    return max(_active_ns(use) for use in uses)


def _likely(uses: Sequence[StageUse]) -> int | Missing:
    """Return the stage that most likely takes the time: Python, another function, or a source.

    A stage that was guessed by elimination comes first.
    """
    guesses = [use.share.guessed_ns for use in uses]
    if max(guesses) > 0:
        return guesses.index(max(guesses))
    best = max(range(len(uses)), key=lambda at: (_suspicion(uses[at]), uses[at].active_ns))
    if _suspicion(uses[best]):
        return best
    return Missing("what takes the time in its pipeline was not seen")


def _suspicion(use: StageUse) -> int:
    """Return how likely an unseen stage is to take long; 0 if it only forwards elements."""
    kind = use.stage.kind
    if kind == "Generator" or (use.ops and use.runs_python):
        return 3
    if stage_kinds.has_function(kind):
        return 2
    return int(stage_kinds.is_source(kind))


def _waited_ns(use: StageUse) -> int:
    return use.share.total_ns


def _active_ns(use: StageUse) -> int:
    return 0 if stage_kinds.is_wrapper(use.stage.kind) else use.active_ns


def _with_tiny_elements(uses: Sequence[StageUse], weights: Sequence[int]) -> list[int]:
    """Move the weights of tiny elements to the batch that joins them."""
    merged = list(weights)
    for at, use in enumerate(uses):
        above, parent = at, use.stage.parent
        while parent is not None:
            above = parent if takes_tiny_elements(uses, parent) else above
            parent = uses[parent].stage.parent
        if above != at:
            merged[above] += merged[at]
            merged[at] = 0
    return merged


def takes_tiny_elements(uses: Sequence[StageUse], at: int) -> bool:
    """Return whether a stage joins many elements, each of next to no work.

    Judged by the median of their calls, as a few lose their core for a while.
    """
    stage = uses[at].stage
    if len(stage.children) != 1 or elements_a_batch(uses, at) < MANY_ELEMENTS:
        return False
    below = uses[stage.children[0]]
    return 0 < below.stage.typical_ns <= TINY_CALL_NS and not below.functions


def elements_a_batch(uses: Sequence[StageUse], at: int) -> int:
    """Return how many elements a batch takes: as TensorFlow recorded, else at least so many.

    If no call of the batch is entirely within a traced step, those of the stage below are counted:
    each capture has those of one batch that ends there and of one that begins.
    """
    stage = uses[at].stage
    size = stage.facts.get("batch_size", "")
    if size.isdecimal():
        return int(size)
    if not stage_kinds.joins(stage.kind) or not stage.children:
        return 0
    below = uses[stage.children[0]].stage
    return below.calls // (2 * max(below.captures, 1))


def _is_ahead(uses: Sequence[StageUse], bottleneck: int | Missing) -> bool:
    at = None if isinstance(bottleneck, Missing) else bottleneck
    while at is not None:
        if uses[at].stage.is_async:
            return True
        at = uses[at].stage.parent
    return False


def _gathers_arrays(uses: Sequence[StageUse], at: int) -> bool:
    """Return whether a stage is the outermost map, over slices of indices and repeated arrays."""
    stage = uses[at].stage
    above = [stage_kinds.kind_of(name) for name in stage.path[:-1]]
    if stage.kind != "ParallelMap" or any(
        not stage_kinds.is_wrapper(kind) and kind != "Prefetch" for kind in above
    ):
        return False
    below = [use.stage.path[len(stage.path) :] for use in uses]
    return ("Zip", "ForeverRepeat", "FromTensor") in below and ("Zip", "FlatMap") in below


def _hands_over(use: StageUse) -> bool:
    return use.stage.is_async or stage_kinds.is_wrapper(use.stage.kind)
