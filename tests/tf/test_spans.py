"""What real TensorFlows tell beside ops: iterators, their functions, tracing, Python, memory."""

from __future__ import annotations

from tests.tf.laboratory import Laboratory
from tests.tf.requirements import need_tensorflow
from tfprobe.profile.capture_tables import SpanKind
from tfprobe.profile.profile import Profile
from tfprobe.recording import open_run

EVERY_STEP = ["--every", "1"]


def recorded(laboratory: Laboratory) -> Profile:
    """Return every step of the job."""
    outcome = laboratory.start("spans.py", record=EVERY_STEP).outcome()
    assert outcome.status == 0, outcome.stderr[-3000:]
    return open_run(outcome.run).profile()


def names(profile: Profile, kind: SpanKind, *, loop: str = "") -> list[str]:
    """Return the names of the spans of a kind in the steps of the work with this in its name."""
    wanted = {each.index for each in profile.loops if loop in each.name}
    captures = {each.index for each in profile.captures if each.loop in wanted}
    spans = profile.spans
    return [
        spans.strings[name]
        for name, capture, own in zip(
            spans.name.tolist(), spans.capture.tolist(), spans.kind.tolist(), strict=True
        )
        if own == kind and capture in captures
    ]


def test_iterators_and_what_they_run_are_told_apart(laboratory: Laboratory) -> None:
    """The Map's function is that of the Map, and so are its ops and its Python, wherever it ran."""
    need_tensorflow(laboratory, (2, 3))
    profile = recorded(laboratory)

    iterators = names(profile, SpanKind.ITERATOR, loop="train_step")
    assert any(name.endswith("::Prefetch") for name in iterators)
    functions = set(names(profile, SpanKind.DATASET_FUNCTION, loop="train_step"))
    assert functions
    # A Map before a batch is made one with it.
    assert all("Map" in name.rpartition("::")[2] for name in functions), functions
    rows = profile.executions
    python_ops = [row for row in rows if row.op_type == "PyFunc"]
    assert python_ops
    assert all(row.background for row in python_ops)
    assert {row.detail for row in python_ops} & functions
    assert len(names(profile, SpanKind.PYTHON)) == len(python_ops)


def test_ops_of_the_step_itself_are_not_the_iterators(laboratory: Laboratory) -> None:
    """They may run on the same threads."""
    need_tensorflow(laboratory, (2, 3))
    profile = recorded(laboratory)

    products = [row for row in profile.executions if row.op_type.endswith("MatMul")]
    assert len(products) >= 8
    assert not any(row.background for row in products)


def test_a_function_that_is_traced_anew_says_so(laboratory: Laboratory) -> None:
    """Each call of it is traced and made ready; a step that is not takes neither."""
    need_tensorflow(laboratory, (2, 3))
    profile = recorded(laboratory)

    compiled = names(profile, SpanKind.COMPILE, loop="retracing")
    assert compiled.count("tf.function-graph_building") >= 7
    assert sum(name.startswith("prepare __inference_retracing") for name in compiled) >= 6
    # The first step of train_step, and on a slow machine a look at a kernel that takes long.
    others = names(profile, SpanKind.COMPILE, loop="train_step")
    assert others.count("tf.function-graph_building") <= 2
    spans = profile.spans
    calls = [
        spans.strings[spans.detail[at]]
        for at in range(len(spans))
        if spans.kind[at] == SpanKind.FUNCTION_CALL and spans.strings[spans.name[at]] == "retracing"
    ]
    assert len(calls) == 8
    assert sum(each.startswith("traced-") for each in calls) >= 7


def test_a_session_tells_what_it_took_from_its_allocator(laboratory: Laboratory) -> None:
    """What a step frees of what it took is told with it."""
    # Of the CPU's allocators only oneDNN's tells; without being asked for it is used on CPUs with
    # instructions for neural networks alone.
    outcome = laboratory.start(
        "large_activation.py", record=["--every", "4"], env={"TF_ENABLE_ONEDNN_OPTS": "1"}
    ).outcome()
    assert outcome.status == 0, outcome.stderr[-3000:]
    profile = open_run(outcome.run).profile()

    allocations = profile.allocations
    if laboratory.tensorflow < (2, 13) and not len(allocations):
        need_tensorflow(laboratory, (2, 13))
    assert (allocations.bytes > 0).any()
    assert (allocations.bytes < 0).any()
    ops = {allocations.strings[at] for at in allocations.op.tolist()}
    assert any("big/" in op for op in ops), ops
