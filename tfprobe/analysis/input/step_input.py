"""Say which input the steps of a loop wait for: its stage, its line, and what may speed it up."""

from __future__ import annotations

from dataclasses import dataclass

from tfprobe.analysis.breakdown.gap_breakdown import gaps_before_steps
from tfprobe.analysis.breakdown.python_lines import python_lines
from tfprobe.analysis.input.input_sources import SourceKind
from tfprobe.analysis.input.input_verdict import LoopInput
from tfprobe.analysis.input.stage_kinds import is_source, is_wrapper
from tfprobe.analysis.input.stage_stats import PipelineUse, is_python
from tfprobe.errors import Missing
from tfprobe.profile.graph import is_of_library
from tfprobe.profile.profile import Profile

# The method that makes each kind of stage, as activities name it.
_METHODS = {
    "Batch": "Dataset.batch",
    "Filter": "Dataset.filter",
    "FlatMap": "Dataset.flat_map",
    "Generator": "Dataset.from_generator",
    "Interleave": "Dataset.interleave",
    "Map": "Dataset.map",
    "MapAndBatch": "Dataset.map",
    "MemoryCache": "Dataset.cache",
    "PaddedBatch": "Dataset.padded_batch",
    "Shuffle": "Dataset.shuffle",
    "TensorSlice": "Dataset.from_tensor_slices",
}
# Stages that are shown with the line that made them, whatever Python they call.
_NOT_PYTHON = frozenset(_METHODS) - {"FlatMap", "Generator"}
_FROM_MEMORY = frozenset({"MemoryCache", "Prefetch"})
_ONE_BY_ONE = frozenset({"FlatMap", "Generator", "Prefetch", "Repeat"})
_UNCHANGED = _FROM_MEMORY | {"MemoryCacheImpl", "Repeat", "Skip", "Take"}


@dataclass(frozen=True, slots=True)
class StepInput:
    """Where the input of the steps comes from, and which node of it the steps wait for.

    `nodes` are those of tf.data, the one nearest to the step first; `advice` says what helps. If it
    `keeps_up`, steps wait only for elements that are ready to be handed over. Unless it
    `is_measured`, the bottleneck is only likely. `is_whole`: all of its sources were seen.
    `may_cache`: its elements end, and no Python generator makes them. `is_ready`: its elements are
    in memory and prefetched, so that nothing makes it faster. `prefetches`: some data set of its
    process has a prefetch. `python_ns` is the time of Python code that makes the elements of a step
    while steps run.
    """

    bottleneck: str
    own_ns: float
    iterator: str
    nodes: tuple[str, ...]
    advice: str = ""
    source: str = ""
    keeps_up: bool = False
    is_measured: bool = True
    is_whole: bool = True
    may_cache: bool = True
    is_ready: bool = False
    prefetches: bool = False
    python_ns: float = 0.0


def step_input(item: LoopInput, profile: Profile, *, foreign_line: str = "") -> StepInput | Missing:
    """Return the input of a loop: of several sources, the one that takes longest.

    `foreign_line` is the most frequent line of Python in threads that TensorFlow started. A queue
    has the line that takes longest between the steps of a thread that fills it.
    """
    if not item.sources:
        return Missing("its steps take no input that is known")
    source = item.sources[0]
    pipeline = item.pipeline
    stage = _bottleneck(pipeline)
    place = f"{source.file}:{source.line}" if source.file else ""
    if source.kind is SourceKind.ITERATOR:
        own = "" if _kind(stage) in _NOT_PYTHON else foreign_line
        place = own or _line_that_made(item, stage, profile) or place
    if source.kind is SourceKind.QUEUE:
        place = _line_of_filler(item, profile)
    return StepInput(
        bottleneck=stage or source.what,
        own_ns=source.time_ns,
        iterator="" if isinstance(pipeline, Missing) else _path(pipeline),
        nodes=() if isinstance(pipeline, Missing) else _nodes(pipeline),
        advice=" ".join(item.remedies),
        source=place,
        keeps_up=item.keeps_up,
        is_measured=not stage or isinstance(pipeline, Missing) or pipeline.is_measured,
        is_whole=not isinstance(pipeline, Missing) and _is_whole(pipeline),
        may_cache=not isinstance(pipeline, Missing) and _may_cache(pipeline),
        prefetches=_prefetches(item, profile),
        python_ns=0.0 if isinstance(pipeline, Missing) else _python_ns(pipeline),
        is_ready=not isinstance(pipeline, Missing) and _is_ready(pipeline),
    )


def _prefetches(item: LoopInput, profile: Profile) -> bool:
    if isinstance(item.loop, Missing):
        return False
    key = (item.loop.process, "data", "Dataset.prefetch")
    return any(
        (activity.process, activity.kind, activity.name) == key for activity in profile.activities
    )


def _python_ns(pipeline: PipelineUse) -> float:
    """Return the time of Python for the elements of a step.

    A generator that makes one element for each step is called once per step: in few captures it is
    chance how many of the calls were traced.
    """
    of_stages = [op for use in pipeline.stages for op in use.ops]
    ops = [op for op in (*of_stages, *pipeline.loose_ops) if is_python(op)]
    calls = sum(op.runs for op in ops)
    kinds = set(_nodes(pipeline))
    is_one_by_one = "Generator" in kinds and kinds <= _ONE_BY_ONE and calls < pipeline.captures
    steps = calls if is_one_by_one else pipeline.captures
    return sum(op.time_ns for op in ops) / max(steps, 1)


def _kind(stage: str) -> str:
    return stage.removeprefix("Parallel").partition("V")[0]


def _line_that_made(item: LoopInput, stage: str, profile: Profile) -> str:
    """Return the one line of the job that made a stage of its pipeline, or its generator."""
    if isinstance(item.loop, Missing):
        return ""
    kind = _kind(stage)
    methods = [_METHODS[kind]] if kind in _METHODS else []
    methods += [_METHODS["Generator"]] if kind in ("", "FlatMap") else []
    for method in methods:
        lines = {
            f"{activity.file}:{activity.line}"
            for activity in profile.activities
            if activity.process == item.loop.process
            and (activity.kind, activity.name) == ("data", method)
            and activity.file
            and not is_of_library(activity.file)
        }
        if lines:
            return lines.pop() if len(lines) == 1 else ""
    return ""


def _line_of_filler(item: LoopInput, profile: Profile) -> str:
    threads = {(producer.thread, producer.name) for producer in item.producers}
    fillers = {
        (loop.process, loop.index)
        for loop in profile.loops
        if (loop.thread, loop.name) in threads
        and not isinstance(item.loop, Missing)
        and loop.process == item.loop.process
    }
    gaps = [gap for gap in gaps_before_steps(profile) if (gap.process, gap.loop) in fillers]
    lines = python_lines(gaps)
    return f"{lines[0].file}:{lines[0].line}" if lines else ""


def _bottleneck(pipeline: PipelineUse | Missing) -> str:
    if isinstance(pipeline, Missing) or isinstance(pipeline.bottleneck, Missing):
        return ""
    return pipeline.stages[pipeline.bottleneck].stage.name


def _is_whole(pipeline: PipelineUse) -> bool:
    leaves = (use.stage for use in pipeline.stages if not use.stage.children)
    return all(is_source(leaf.kind) for leaf in leaves)


def _may_cache(pipeline: PipelineUse) -> bool:
    names = {use.stage.name for use in pipeline.stages}
    return names.isdisjoint({"ForeverRepeat", "Generator"})


def _is_ready(pipeline: PipelineUse) -> bool:
    """Say whether elements come from memory, are prefetched, and are not changed on the way."""
    kinds = set(_nodes(pipeline))
    return _FROM_MEMORY <= kinds <= _UNCHANGED


def _path(pipeline: PipelineUse) -> str:
    if isinstance(pipeline.bottleneck, Missing):
        return ""
    return "::".join(pipeline.stages[pipeline.bottleneck].stage.path)


def _nodes(pipeline: PipelineUse) -> tuple[str, ...]:
    """Return the kinds of the stages in the code of the job, those nearer to the step first."""
    if pipeline.is_of_arrays:
        return ()
    ordered = sorted(pipeline.stages, key=lambda use: len(use.stage.path))
    written = (use.stage.kind for use in ordered if not is_wrapper(use.stage.kind))
    return tuple(written)
