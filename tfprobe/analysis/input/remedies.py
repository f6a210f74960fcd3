"""Suggest what to change in a loop that waits for its input, one sentence per suggestion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tfprobe.analysis.input import stage_kinds
from tfprobe.analysis.input.input_sources import (
    LOADER,
    LOADER_WORKERS,
    InputSource,
    Producer,
    SourceKind,
)
from tfprobe.analysis.input.stage_stats import (
    PipelineUse,
    StageUse,
    elements_a_batch,
    takes_tiny_elements,
)
from tfprobe.errors import Missing

_FIRST = "Try map(..., num_parallel_calls=tf.data.AUTOTUNE) and .prefetch(tf.data.AUTOTUNE) first."
# An argument of the dataset in Keras 3, of fit in Keras 2.
_WORKERS = (
    "for a Keras PyDataset or Sequence, set workers=4 to make several batches at once, and "
    "use_multiprocessing=True if its Python code computes (arguments of the PyDataset; before "
    "Keras 3, of fit)"
)
_WAIT_IN_PARALLEL = (
    "Several calls can wait in parallel: map(..., num_parallel_calls=16), or as many as the "
    "storage supports."
)
_ONE_FILE = (
    "reads one file at a time: use interleave(..., num_parallel_calls=tf.data.AUTOTUNE) to read "
    "several files at once, or .cache()"
)
# They only forward elements, in another order or number.
_HAND_ON = frozenset(
    {"Batch", "PaddedBatch", "Prefetch", "Repeat", "Shuffle", "Skip", "Take", "Zip"}
)
# A source with less than this share of the cycle is not worth a suggestion.
_WORTH_RATIO = 0.02


def remedies(
    sources: Sequence[InputSource],
    pipeline: PipelineUse | Missing,
    fillers: Sequence[Producer],
    *,
    waits: bool = False,
) -> tuple[str, ...]:
    """Return suggestions, for the source with most time first.

    `waits`: the process uses so little CPU time that the stages of its input cannot be computing.
    """
    found: dict[str, None] = {}
    for source in sources:
        if source.ratio >= _WORTH_RATIO:
            for sentence in _for_source(source, pipeline, fillers, waits=waits):
                found.setdefault(sentence)
    return tuple(found)


def _for_source(
    source: InputSource,
    pipeline: PipelineUse | Missing,
    fillers: Sequence[Producer],
    *,
    waits: bool,
) -> Iterator[str]:
    if source.kind is SourceKind.ITERATOR and isinstance(pipeline, Missing):
        yield f"This kind of recording does not show which stage of the pipeline is slow. {_FIRST}"
    elif source.kind is SourceKind.ITERATOR and not isinstance(pipeline, Missing):
        yield from _for_pipeline(pipeline, waits=waits)
    elif source.what == LOADER_WORKERS:
        yield (
            "The workers make batches more slowly than steps take them: start more (num_workers=), "
            "let them work ahead and keep them from one epoch to the next (prefetch_factor=4, "
            "persistent_workers=True), and do less for each example in __getitem__."
        )
    elif source.kind is SourceKind.QUEUE:
        yield from _for_queue(source, fillers)
    elif source.kind is SourceKind.FEED:
        yield (
            "Arrays are converted and copied at each step: feed NumPy arrays with the dtype of the "
            "placeholder, keep constant data in a variable, or read the data with tf.data."
        )
    elif source.what.startswith(LOADER):
        yield (
            f"The {LOADER} makes batches in the thread of the steps and blocks them: make each "
            "item cheaper, or give it num_workers=4 and persistent_workers=True, unless a batch "
            "takes less time to make than to pass on, or the steps keep all CPUs busy. "
            "`tfprobe advise` names the stage."
        )
    else:
        yield (
            f"{source.what} runs in the thread of the steps and blocks them: run it in the "
            "background, with a tf.data pipeline that ends in prefetch, with Keras workers, or in "
            "a thread of its own that fills a queue."
        )


def _for_pipeline(pipeline: PipelineUse, *, waits: bool) -> Iterator[str]:
    if pipeline.is_of_arrays:
        yield (
            "Keras makes these batches from the arrays itself: use larger batches (batch_size=), "
            "or pass fit a tf.data.Dataset of your own that ends with .prefetch(tf.data.AUTOTUNE)."
        )
        return
    if isinstance(pipeline.bottleneck, Missing):
        yield f"The recording does not show which stage of the pipeline is slow. {_FIRST}"
        return
    at = pipeline.bottleneck
    use = pipeline.stages[at]
    if not pipeline.is_measured:
        yield _likely(use, waits=waits)
    elif takes_tiny_elements(pipeline.stages, at):
        yield _tiny_elements(pipeline, at)
    elif use.runs_python and use.ops and use.stage.kind != "Generator":
        yield from _for_python(use, pipeline, waits=waits)
    else:
        yield _BY_KIND.get(use.stage.kind, _other)(use, pipeline)
    if _reads_one_by_one(pipeline, at):
        yield (
            "The interleave reads its inputs one at a time: use "
            "interleave(..., num_parallel_calls=tf.data.AUTOTUNE) to read several at once."
        )
    if not pipeline.is_ahead:
        yield (
            "Nothing is prefetched: end the pipeline with .prefetch(tf.data.AUTOTUNE), so that the "
            "next element is made while a step computes."
        )


def _likely(use: StageUse, *, waits: bool) -> str:
    name = use.stage.name
    if waits and use.stage.kind != "Generator" and use.ops and use.runs_python:
        return f"Likely, not measured: the Python code of {name} waits. {_WAIT_IN_PARALLEL}"
    if use.stage.kind == "Generator" or (use.ops and use.runs_python):
        return (
            f"Likely, not measured: the Python code of {name} takes the time, and only one thread "
            "can run Python at a time. Write it with TensorFlow ops, or let it make whole batches."
        )
    if stage_kinds.has_function(use.stage.kind):
        more = "map whole batches"
        if not use.stage.is_async:
            more = "run it for several elements at once with num_parallel_calls=tf.data.AUTOTUNE"
        what = f"the function of {name} takes the time"
        return f"Likely, not measured: {what}. Make it cheaper, or {more}."
    if not stage_kinds.is_source(use.stage.kind):
        return f"Likely, not measured: {name} takes the time. {_FIRST}"
    more = f"It {_ONE_FILE}." if stage_kinds.reads_files(use.stage.kind) else _FIRST
    return f"Likely, not measured: {name}, the source, takes the time. {more}"


def _may_cache(use: StageUse, pipeline: PipelineUse) -> bool:
    """Return whether the elements of a stage are finite and the same each time."""
    path = use.stage.path
    below = [stage.stage for stage in pipeline.stages if stage.stage.path[: len(path)] == path]
    return not any(
        stage.name == "ForeverRepeat" or stage.kind in ("Generator", "Shuffle") for stage in below
    )


def _tiny_elements(pipeline: PipelineUse, at: int) -> str:
    size = elements_a_batch(pipeline.stages, at)
    least = "" if "batch_size" in pipeline.stages[at].stage.facts else "at least "
    return (
        f"Each batch joins {least}{size:,} elements one by one, each of next to no work: let the "
        "source produce many at once, such as slices of arrays that are batches already."
    )


def _for_python(use: StageUse, pipeline: PipelineUse, *, waits: bool) -> Iterator[str]:
    if waits and not use.stage.is_async:
        name = use.stage.name
        why = "is Python code that waits, perhaps for files"
        yield f"The function of {name} {why}. {_WAIT_IN_PARALLEL}"
        return
    cached = " or with .cache()" if _may_cache(use, pipeline) else ""
    yield (
        f"The function of {use.stage.name} is Python code, and only one thread can run Python at a "
        f"time: write it with TensorFlow ops, or do that work once, before training{cached}."
    )
    if not use.stage.is_async and use.stage.kind == "Map":
        yield (
            "num_parallel_calls=tf.data.AUTOTUNE helps if that code waits, for files for example, "
            "or computes in libraries that release the GIL."
        )


def _reads_one_by_one(pipeline: PipelineUse, at: int) -> bool:
    parent = pipeline.stages[at].stage.parent
    while parent is not None:
        if pipeline.stages[parent].stage.kind in ("Interleave", "FlatMap"):
            return pipeline.stages[parent].stage.kind == "Interleave"
        parent = pipeline.stages[parent].stage.parent
    return pipeline.stages[at].stage.kind == "Interleave"


def _for_queue(source: InputSource, fillers: Sequence[Producer]) -> Iterator[str]:
    slowest = next((op.type for filler in fillers for op in filler.ops), None)
    most = f"; they spend most time in {slowest}" if slowest else ""
    yield (
        f"{source.what} takes from a queue that {len(fillers) or 'other'} "
        f"thread{'' if len(fillers) == 1 else 's'} fill{'s' if len(fillers) == 1 else ''}{most}: "
        "use more threads (num_threads=), a larger capacity, or tf.data."
    )


def _parallel(use: StageUse, pipeline: PipelineUse) -> str:
    parallelism = use.stage.facts.get("parallelism", "")
    budget = next(
        (
            stage.stage.facts["cpu_budget"]
            for stage in pipeline.stages
            if "cpu_budget" in stage.stage.facts
        ),
        "",
    )
    if parallelism == "1" and use.stage.facts.get("autotune") != "true":
        return (
            f"{use.stage.name} runs its function for one element at a time: use "
            "map(..., num_parallel_calls=tf.data.AUTOTUNE)."
        )
    busy = f", {parallelism} at a time" if parallelism.isdecimal() else ""
    room = f" on {budget} CPUs" if budget.isdecimal() else ""
    how = f"in parallel{busy}{room}"
    if parallelism == "1":
        how = f"for one element at a time, as TensorFlow chose{room}"
    cached = ", or .cache() its results" if _may_cache(use, pipeline) else ""
    return (
        f"{use.stage.name} runs its function {how}: make it cheaper, or map whole batches (batch "
        f"before map){cached}."
    )


def _map(use: StageUse, pipeline: PipelineUse) -> str:
    if any(stage.stage.kind == "ParallelInterleave" for stage in pipeline.stages):
        return _parallel(use, pipeline)
    cached = ", or .cache() its results" if _may_cache(use, pipeline) else ""
    return (
        f"{use.stage.name} runs its function for one element at a time: use "
        f"{use.stage.kind.lower()}(..., num_parallel_calls=tf.data.AUTOTUNE){cached}."
    )


def _filter(use: StageUse, pipeline: PipelineUse) -> str:  # noqa: ARG001 - as all of _BY_KIND
    return f"{use.stage.name} tests one element at a time: filter earlier, or once before training."


def _generator(use: StageUse, pipeline: PipelineUse) -> str:  # noqa: ARG001
    if not any(stage_kinds.joins(stage.stage.kind) for stage in pipeline.stages):
        return (
            "The Python generator makes one batch at a time, in one thread: "
            f"{_WORKERS}; or read the data with tf.data, which uses several threads."
        )
    return (
        "The Python generator makes one element at a time: let it yield whole batches, or read the "
        "data with tf.data, which uses several threads."
    )


def _shuffle(use: StageUse, pipeline: PipelineUse) -> str:  # noqa: ARG001
    return (
        "Shuffle moves whole elements through its buffer: shuffle file names or indices before "
        "reading, or use a smaller buffer_size."
    )


def _batch(use: StageUse, pipeline: PipelineUse) -> str:  # noqa: ARG001
    return (
        f"{use.stage.name} copies elements into one tensor: use "
        "batch(..., num_parallel_calls=tf.data.AUTOTUNE) to make several batches at once."
    )


def _interleave(use: StageUse, pipeline: PipelineUse) -> str:  # noqa: ARG001
    return f"{use.stage.name} spends its time opening inputs: use fewer and larger files."


def _data_service(use: StageUse, pipeline: PipelineUse) -> str:  # noqa: ARG001
    return "The tf.data service is slower than the steps: add workers."


def _parallel_calls(pipeline: PipelineUse) -> str:
    """Return how to make elements in parallel; current TensorFlow parallelizes maps itself."""
    if any(stage.stage.kind == "ParallelMap" for stage in pipeline.stages):
        return "a cheaper function in map"
    return "map(..., num_parallel_calls=tf.data.AUTOTUNE)"


def _other(use: StageUse, pipeline: PipelineUse) -> str:
    stage = use.stage
    if stage_kinds.reads_files(stage.kind):
        return f"{stage.name} {_ONE_FILE}."
    if stage_kinds.is_wrapper(stage.kind) or stage.kind == "Prefetch":
        return (
            "The slow part of the pipeline takes longer than a traced step; tracing more steps "
            "(`tfprobe run --every`) or longer ones may show it. First try "
            f"{_parallel_calls(pipeline)}; {_WORKERS}."
        )
    if stage.kind in _HAND_ON:
        return f"{stage.name} only forwards elements: fewer, larger elements cost less."
    return (
        f"{stage.name} takes the time: do its work once, before training or with .cache() after it."
    )


_BY_KIND: Mapping[str, Callable[[StageUse, PipelineUse], str]] = {
    "Batch": _batch,
    "DataService": _data_service,
    "Filter": _filter,
    "FlatMap": _interleave,
    "Generator": _generator,
    "Interleave": _interleave,
    "Map": _map,
    "MapAndBatch": _parallel,
    "PaddedBatch": _batch,
    "ParallelInterleave": _interleave,
    "ParallelMap": _parallel,
    "Shuffle": _shuffle,
}
