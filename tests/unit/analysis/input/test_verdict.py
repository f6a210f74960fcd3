"""Of each work is said how much of its time is waiting for input, and for what."""

from __future__ import annotations

import pytest

from tests.support.looks import resource_sample
from tests.support.profiles import Span, Step, loop, op, profile
from tests.support.rundir import UNIX_NS
from tfprobe.analysis.input.input_sources import SourceKind
from tfprobe.analysis.input.input_verdict import InputLevel, InputThresholds, LoopInput, judge
from tfprobe.analysis.input.stage_stats import PipelineUse
from tfprobe.errors import Missing
from tfprobe.profile.activities import Call, Gap
from tfprobe.profile.capture_tables import Row, SpanKind

ROOT = "Iterator::Root"


def call(path: str, start_us: float, duration_us: float, lane: str = "step", **more) -> Span:
    return Span(SpanKind.ITERATOR, path, start_us, duration_us, lane, **more)


def step(wait_us: int, *spans: Span, compute_us: int = 1000, rows: list[Row] | None = None) -> Step:
    """Return a step that takes an element, then computes."""
    own = [op("IteratorGetNext", 0, wait_us), op("MatMul", wait_us, compute_us)]
    return Step(own + (rows or []), wait_us + compute_us, spans=(call(ROOT, 0, wait_us), *spans))


def judged(*steps: Step, **changes) -> LoopInput:
    # Of few remembered steps nobody knows which time between them is usual.
    (found,) = judge(profile(steps, loops=[loop(remembered=4)], **changes))
    return found


def bottleneck(item: LoopInput) -> str:
    assert isinstance(item.pipeline, PipelineUse)
    assert isinstance(item.pipeline.bottleneck, int)
    return item.pipeline.stages[item.pipeline.bottleneck].stage.name


@pytest.mark.parametrize(
    ("wait_us", "level"),
    [(1000, InputLevel.HIGH), (100, InputLevel.MODERATE), (20, InputLevel.NONE)],
)
def test_the_classes_are_xprofs(wait_us: int, level: InputLevel) -> None:
    """A loop is highly input-bound from 20 % on, moderately from 5 %."""
    assert judged(step(wait_us, call(f"{ROOT}::Map", 0, wait_us))).level is level


def test_the_classes_are_settings() -> None:
    """Other limits can be given."""
    steps = [step(100, call(f"{ROOT}::Map", 0, 100))]

    (found,) = judge(profile(steps, loops=[loop()]), InputThresholds(high_ratio=0.01))

    assert found.level is InputLevel.HIGH


def test_a_pipeline_that_keeps_up_is_not_to_blame() -> None:
    """If elements are ready, taking them is not waiting, however short the steps are."""
    waiting = (call(f"{ROOT}::Prefetch", 0, 60), call(f"{ROOT}::Prefetch::Map", 80, 900, "b"))

    found = judged(step(60, *waiting, compute_us=100))

    assert found.ratio > 0.2
    assert found.level is InputLevel.NONE
    assert found.remedies == ()


@pytest.mark.parametrize(("between_us", "level"), [(2, InputLevel.NONE), (20, InputLevel.MODERATE)])
def test_a_pipeline_that_keeps_up_leaves_the_rest_to_judge(
    between_us: int, level: InputLevel
) -> None:
    """Other waits count on their own: a little of them is not the fault of tf.data."""
    waiting = (call(f"{ROOT}::Prefetch", 0, 60), call(f"{ROOT}::Prefetch::Map", 80, 900, "b"))
    made = Call(0, "batches", "/home/ada/train.py", 40, 12, True, 1, between_us * 1000)

    found = judged(step(60, *waiting, compute_us=100), gaps=(gap(made),))

    assert found.ratio > 0.2
    assert found.level is level


def test_steps_of_pytorch_wait_for_the_workers_of_their_loader() -> None:
    """No op waits for them; the profiler annotates the iterator that does."""
    waits = Span(SpanKind.LOADER_WAIT, "DataLoader", 0, 400)
    steps = [Step([op("aten::add", 400, 600)], 1000, spans=(waits,))]

    (found,) = judge(profile(steps, loops=[loop(remembered=4, kind="optimizer_step")]))

    assert [(each.kind, each.what) for each in found.sources] == [
        (SourceKind.QUEUE, "workers of the DataLoader")
    ]
    assert found.sources[0].time_ns == 400_000
    assert "num_workers=" in found.remedies[0]


def test_without_a_buffer_the_same_wait_counts() -> None:
    """A stage that makes an element on demand makes the step wait."""
    found = judged(step(60, call(f"{ROOT}::Map", 0, 60), compute_us=100))

    assert found.level is InputLevel.HIGH
    assert bottleneck(found) == "Map"
    assert any(".prefetch(" in each for each in found.remedies)


def test_a_batch_of_very_many_elements_is_the_bottleneck_itself() -> None:
    """Not the source, each of whose 1,000 calls does next to nothing."""
    batch = call(f"{ROOT}::Batch", 0, 1000, detail="batch_size:1000")
    source = [call(f"{ROOT}::Batch::Range", at, 0.8) for at in range(1000)]

    found = judged(step(1000, batch, *source))

    assert bottleneck(found) == "Batch"
    assert "1,000 elements" in found.remedies[0]


BATCH = f"{ROOT}::Prefetch::Map::Batch"


def tiny_elements(count: int, *more: Span, wait_us: int = 1000) -> tuple[Span, ...]:
    """Return the calls within a step that begins and ends in the middle of a batch."""
    shuffle = f"{BATCH}::Shuffle"
    calls = [call(f"{ROOT}::Prefetch", 0, wait_us), *more]
    for at in range(count):
        calls.append(call(shuffle, at, 1, "pool", background=True))
        calls.append(call(f"{shuffle}::Range", at, 0.4, "pool", background=True))
    return tuple(calls)


def test_a_batch_longer_than_a_step_is_the_bottleneck_too() -> None:
    """None of its own calls is recorded, but the many calls it makes are."""
    found = judged(step(1000, *tiny_elements(600)))

    assert bottleneck(found) == "Batch"
    assert "at least 300 elements" in found.remedies[0]


def test_an_element_that_loses_its_core_is_tiny_still() -> None:
    """One of many calls takes long if other programs run: the median decides."""
    late = call(f"{BATCH}::Shuffle", 3000, 60_000, "pool", background=True)

    found = judged(step(63_000, *tiny_elements(600, late, wait_us=63_000)))

    assert bottleneck(found) == "Batch"


def test_a_batch_of_tiny_elements_has_the_time_of_all_of_them() -> None:
    """Its work is spread over the stages below."""
    function = Span(SpanKind.DATASET_FUNCTION, f"{ROOT}::Prefetch::Map", 600, 400, "pool")

    found = judged(step(1000, *tiny_elements(600), function))

    assert bottleneck(found) == "Batch"


def test_what_is_below_a_stage_that_takes_no_time_is_likely_not_measured() -> None:
    """If a record began before the step, only its end is seen."""
    path = f"{ROOT}::Prefetch::ForeverRepeat::FlatMap"
    spans = (
        call(f"{ROOT}::Prefetch", 0, 5000),
        call(path, 5010, 30, "pool", background=True),
        call(f"{path}::TFRecord", 5020, 10, "pool", background=True),
    )

    found = judged(step(5000, *spans))

    assert isinstance(found.pipeline, PipelineUse)
    assert not found.pipeline.is_measured
    assert bottleneck(found) == "TFRecord"
    assert found.remedies[0].startswith("Likely, not measured: TFRecord, the source")
    assert "interleave(" in found.remedies[0]


def test_ops_of_a_function_are_told_by_their_iterator() -> None:
    """The longest ops of the function of a Map are shown, and marked if they run Python."""
    path = f"{ROOT}::Map"
    ran = Span(SpanKind.DATASET_FUNCTION, path, 0, 900, "pool", background=True)
    rows = [
        op("PyFunc", 0, 800, detail=path, background=True),
        op("Mul", 800, 50, detail=path, background=True),
    ]

    found = judged(step(1000, call(path, 0, 1000), ran, rows=rows))

    assert isinstance(found.pipeline, PipelineUse)
    assert [each.type for each in found.pipeline.stages[1].ops] == ["PyFunc", "Mul"]
    assert "Python" in found.remedies[0]


def test_an_element_that_comes_while_a_kernel_runs_is_not_waited_for() -> None:
    """On an accelerator, only time without a kernel is waiting."""
    from tfprobe.profile.capture_tables import Place

    rows = [op("IteratorGetNext", 0, 900), op("Conv2D", 0, 1000, Place.ACCELERATOR)]

    found = judged(Step(rows, 1000, spans=[call(ROOT, 0, 900), call(f"{ROOT}::Map", 0, 900)]))

    assert found.ratio == 0
    assert isinstance(found.pipeline, PipelineUse)
    assert found.pipeline.wait_ns == 0


def test_where_steps_take_no_element_the_busiest_stage_is_named() -> None:
    """A loop takes elements between steps: the recording has what threads did meanwhile."""
    spans = (
        call(f"{ROOT}::Prefetch::Map", 0, 900, "b", background=True),
        call(f"{ROOT}::Prefetch::Map::Range", 0, 100, "b", background=True),
    )

    found = judged(
        Step([op("MatMul", 0, 1000)], 1000, spans=spans),
        gaps=(gap(Call(0, "__next__", DATA, 1, 5, False, 1, 9_000_000)),),
    )

    assert found.level is InputLevel.HIGH
    assert found.sources[0].kind is SourceKind.ITERATOR
    assert bottleneck(found) == "Map"


def test_a_stage_hardly_seen_at_work_is_no_bottleneck() -> None:
    """A wait between steps was not recorded: a function is a more likely cause than Repeat."""
    path = f"{ROOT}::Prefetch::MapAndBatch::ForeverRepeat"
    spans = (
        call(path, 0, 67, "b", background=True),
        call(f"{path}::TensorSlice", 0, 9, "b", background=True),
    )

    found = judged(
        Step([op("MatMul", 0, 1000)], 1000, spans=spans),
        gaps=(gap(Call(0, "__next__", DATA, 1, 5, False, 1, 7_690_000)),),
    )

    assert isinstance(found.pipeline, PipelineUse)
    assert not found.pipeline.is_measured
    assert bottleneck(found) == "MapAndBatch"
    assert found.remedies[0].startswith("Likely, not measured: the function of MapAndBatch")
    assert "cache" not in " ".join(found.remedies)


@pytest.mark.parametrize("name", ["ForeverRepeat", "FiniteTake", "Shuffle", "BatchV2", "Prefetch"])
def test_what_only_hands_on_is_never_to_be_cached(name: str) -> None:
    """A cache after it saves no work, or never fills."""
    found = judged(step(1000, call(f"{ROOT}::{name}", 0, 1000)))

    assert found.level is InputLevel.HIGH
    assert "cache" not in " ".join(found.remedies)


@pytest.mark.parametrize(("repeats", "is_cached"), [("ForeverRepeat", False), ("Zip", True)])
def test_results_without_end_are_never_to_be_cached(repeats: str, is_cached: bool) -> None:
    """A map after an endless repeat would fill a cache forever."""
    path = f"{ROOT}::Map"

    found = judged(step(1000, call(path, 0, 1000), call(f"{path}::{repeats}", 0, 10)))

    assert bottleneck(found) == "Map"
    assert (".cache()" in found.remedies[0]) is is_cached


@pytest.mark.parametrize(("repeated", "is_keras"), [("FromTensor", True), ("TensorSlice", False)])
def test_what_keras_makes_around_arrays_is_not_the_users_to_change(
    repeated: str, is_keras: bool
) -> None:
    """A user who passes arrays to fit can change the batch size, but not the map of Keras."""
    path = f"{ROOT}::Prefetch::ParallelMapV2"
    spans = (
        call(f"{ROOT}::Prefetch", 0, 1000),
        call(path, 0, 1000),
        call(f"{path}::Zip[0]::FlatMap[0]::TensorSlice", 0, 500),
        call(f"{path}::Zip[1]::ForeverRepeat[0]::{repeated}", 500, 500),
    )

    found = judged(step(1000, *spans))

    assert isinstance(found.pipeline, PipelineUse)
    assert found.pipeline.is_of_arrays is is_keras
    assert found.remedies[0].startswith("Keras makes these batches") is is_keras


DATA = "/env/lib/python3.11/site-packages/tensorflow/python/data/ops/iterator_ops.py"
LOOP = Call(None, "main", "/home/ada/train.py", 1, 0, False, 1, 10_000)


def gap(*calls: Call) -> Gap:
    total_ns = sum(each.self_ns for each in (LOOP, *calls))
    return Gap(0, 0, 0, UNIX_NS + 1_000_000, total_ns, 0, False, (LOOP, *calls))


def test_a_generator_between_steps_is_named_with_its_line() -> None:
    """Python that makes the next batch in the thread of the steps is input."""
    made = Call(0, "batches", "/home/ada/train.py", 40, 12, True, 1, 4_000_000)

    found = judged(Step([op("MatMul", 0, 1000)], 1000), gaps=(gap(made),))

    (source,) = found.sources
    assert (source.kind, source.what, source.line) == (SourceKind.PYTHON, "batches", 12)
    assert source.is_between
    assert source.time_ns == 4_000_000
    assert found.level is InputLevel.HIGH


def test_feeds_are_input() -> None:
    """Arrays are converted from the call of a step to its first op."""
    rows = [op("MatMul", 600, 400)]

    found = judged(Step(rows, 1000))

    assert [(each.kind, round(each.ratio, 1)) for each in found.sources] == [(SourceKind.FEED, 0.6)]


def test_queues_are_named_with_the_threads_that_fill_them() -> None:
    """A queue runner is not a loop of its own, but what a queue waits for."""
    filler = loop(index=1, name="enqueue", thread="QueueRunnerThread-input_producer-enqueue")
    dequeue = op("QueueDequeueManyV2", 0, 900)
    steps = [Step([dequeue, op("MatMul", 900, 100)], 1000), Step([op("DecodeJpeg", 0, 90)], 90, 1)]

    (found,) = judge(profile(steps, loops=[loop(), filler]))

    assert found.sources[0].kind is SourceKind.QUEUE
    assert found.sources[0].what == "n/QueueDequeueManyV2"
    assert found.producers[0].ops[0].type == "DecodeJpeg"
    assert "DecodeJpeg" in found.remedies[0]


@pytest.mark.parametrize(("enqueue_us", "keeps_up"), [(80, True), (20, False)])
def test_a_queue_whose_fillers_wait_for_room_keeps_up(enqueue_us: int, keeps_up: bool) -> None:
    """It is full: taking a batch from it takes long because the CPUs do something else."""
    filler = loop(index=1, name="enqueue", thread="QueueRunnerThread-n/queue-n/enqueue")
    other = loop(index=2, name="names", thread="QueueRunnerThread-names/queue-names/enqueue")
    dequeue = op("QueueDequeueManyV2", 0, 900)
    steps = [
        Step([dequeue, op("MatMul", 900, 100)], 1000),
        Step([op("DecodeJpeg", 0, 10), op("QueueEnqueueV2", 10, enqueue_us)], 100, 1),
        Step([op("RandomShuffle", 0, 90)], 90, 2),
    ]

    found, *_ = judge(profile(steps, loops=[loop(), filler, other]))

    assert found.keeps_up is keeps_up
    assert (found.level is InputLevel.NONE) is keeps_up
    assert bool(found.remedies) is not keeps_up


def test_waiting_for_a_token_of_other_workers_is_no_wait_for_input() -> None:
    """SyncReplicasOptimizer gives each worker a token when all have sent their gradients."""
    token = op("QueueDequeueV2", 0, 900)._replace(name="sync_rep_local/sync_token_q_Dequeue")

    found = judged(Step([token, op("MatMul", 900, 100)], 1000))

    assert (found.sources, found.level) == ((), InputLevel.NONE)


def test_a_generator_that_yields_batches_needs_workers() -> None:
    """Like a PyDataset of Keras: no stage makes batches of its elements."""
    path = f"{ROOT}::Prefetch::FlatMap[0]::Generator"
    spans = (call(f"{ROOT}::Prefetch", 0, 1000), call(path, 0, 990, "pool", background=True))
    whole = judged(step(1000, *spans))
    batched = judged(
        step(
            1000,
            call(f"{ROOT}::Batch", 0, 1000),
            call(f"{ROOT}::Batch::FlatMap[0]::Generator", 0, 990),
        )
    )

    assert any("workers=" in each for each in whole.remedies)
    assert not any("workers=" in each for each in batched.remedies)


@pytest.mark.parametrize(("cpu_ns", "waits"), [(100_000_000, True), (900_000_000, False)])
def test_a_function_that_waits_runs_beside_itself(cpu_ns: int, waits: bool) -> None:
    """If the process hardly uses CPU time, no thread is computing."""
    path = f"{ROOT}::Map"
    function = Span(SpanKind.DATASET_FUNCTION, path, 0, 990, "step")
    row = op("PyFunc", 10, 970, detail=path, background=True)
    resource_samples = [
        resource_sample(
            at_ns=UNIX_NS + second * 10**9,
            steps=second,
            user_ns=second * cpu_ns,
            system_ns=0,
            process=0,
        )
        for second in (1, 2, 3)
    ]

    found = judged(
        step(1000, call(path, 0, 1000), function, rows=[row]),
        resource_samples=tuple(resource_samples),
    )

    assert any("num_parallel_calls=16" in each for each in found.remedies) is waits
    assert any("only one thread" in each for each in found.remedies) is not waits


def test_without_iterators_there_is_no_pipeline() -> None:
    """A step without a known input does not wait for input."""
    found = judged(Step([op("MatMul", 0, 1000)], 1000))

    assert found.level is InputLevel.NONE
    assert isinstance(found.pipeline, Missing)
    assert found.sources == ()
