"""What the host does around its ops becomes spans: iterators, tracing, driver calls, Python.

The events are as TensorFlow 2.4 to 2.21 write them on CPU; calls of the driver as the GPU tracer
does (openxla/xla, xla/backends/profiler/gpu/cupti_collector.cc): a thread's own line, or a line of
the plane /host:CUPTI with the same id, and the stats `correlation_id` and `memcpy_details`.
"""

from __future__ import annotations

import pytest

from tests.support.captures import TraceEvent, xspace
from tfprobe.formats.xspace import XSpaceReader, read
from tfprobe.profile.capture_tables import SpanKind
from tfprobe.profile.tables import Interner

HOST = "/host:CPU"
ROOT = "Iterator::Root"
MAP = "Iterator::Root::ParallelMapV2"


def spans_of(lines, **planes):
    """Return the spans of host lines, each as a dictionary with its texts."""
    spans = read(xspace({HOST: lines, **planes})).spans
    texts = ("name", "detail", "lane")
    numbers = ("start_ns", "duration_ns", "identity", "parent", "correlation", "bytes")
    return [
        {name: spans.strings[getattr(spans, name)[at]] for name in texts}
        | {name: int(getattr(spans, name)[at]) for name in numbers}
        | {"kind": SpanKind(spans.kind[at]), "background": bool(spans.background[at])}
        for at in range(len(spans))
    ]


def test_a_get_next_is_a_span_with_the_numbers_of_its_iterators():
    """Its detail is what TensorFlow says of the iterator, "key:value" by "key:value"."""
    facts = {"id": 2**63 + 5, "parent_id": 4, "name": "PrefetchDataset:7", "buffer_limit": 2}
    (span,) = spans_of(
        {"tf_data_iterator_get_next/9": [TraceEvent(f"{ROOT}::Prefetch", 3, 7, facts)]}
    )

    assert (span["kind"], span["name"]) == (SpanKind.ITERATOR, f"{ROOT}::Prefetch")
    assert (span["identity"], span["parent"]) == (5 - 2**63, 4)
    assert span["detail"] == "name:PrefetchDataset:7 buffer_limit:2"
    assert (span["start_ns"], span["duration_ns"], span["background"]) == (3_000, 7_000, False)


def test_an_iterator_on_a_thread_of_tf_data_is_background():
    """It prepares a later step."""
    (span,) = spans_of({"tf_data_iterator_resource/9": [TraceEvent(f"{ROOT}::Prefetch::Map")]})

    assert span["background"]


def test_a_function_that_is_called_says_whether_it_was_traced():
    """TensorFlow notes it on the event that has the function's own name."""
    call = TraceEvent(
        "train_step", 1, 90, {"tf_function_call": "traced-nonXla", "tracing_count": 2}
    )
    building = TraceEvent("tf.function-graph_building", 5, 60)

    called, traced = spans_of({"python": [call, building]})

    assert (called["kind"], called["name"]) == (SpanKind.FUNCTION_CALL, "train_step")
    assert called["detail"] == "traced-nonXla"
    assert (traced["kind"], traced["start_ns"]) == (SpanKind.COMPILE, 5_000)


@pytest.mark.parametrize(
    "name",
    [
        "CpuCompiler::RunBackend",
        "HLO passes through layout assignment",
        "XlaCompile:#module=jit_step#",
        "JitCompiler::Compile",
        "PjRtStreamExecutorClient::CompileInternal",
    ],
)
def test_parts_of_compiling_are_spans(name):
    """Each is a part of what XLA does with a function."""
    (span,) = spans_of({"python": [TraceEvent(name)]})

    assert span["kind"] is SpanKind.COMPILE


def test_making_a_function_ready_is_compiling():
    """Grappler has no event; the run of the function begins late."""
    lines = {
        "python": [
            TraceEvent("EagerLocalExecute: __inference_step_9", 10, 900),
            TraceEvent("EagerKernelExecute", 710, 190),
            TraceEvent("EagerLocalExecute: __inference_step_9", 2000, 100),
            TraceEvent("EagerKernelExecute", 2010, 80),
        ]
    }

    (span,) = spans_of(lines)

    assert (span["kind"], span["name"]) == (SpanKind.COMPILE, "prepare __inference_step_9")
    assert (span["start_ns"], span["duration_ns"]) == (10_000, 700_000)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cuLaunchKernel", SpanKind.LAUNCH),
        ("cuLaunchKernelEx", SpanKind.LAUNCH),
        ("cuGraphLaunch (CudaGraph:7)", SpanKind.LAUNCH),
        ("hipModuleLaunchKernel", SpanKind.LAUNCH),
        ("cuLaunchHostFunc", SpanKind.RUNTIME),
        ("cuMemcpyHtoDAsync_v2", SpanKind.COPY_CALL),
        ("cuMemsetD32Async", SpanKind.COPY_CALL),
        ("cuStreamSynchronize", SpanKind.SYNC),
        ("cudaEventSynchronize", SpanKind.SYNC),
        ("cuCtxSynchronize", SpanKind.SYNC),
        ("cuMemAlloc_v2", SpanKind.RUNTIME),
        ("cuStreamWaitEvent", SpanKind.RUNTIME),
    ],
)
def test_a_call_of_the_driver_is_told_by_its_name(name, kind):
    """What has a correlation id on a host thread is one."""
    (span,) = spans_of({"python": [TraceEvent(name, stats={"correlation_id": 77, "device_id": 0})]})

    assert (span["kind"], span["name"], span["correlation"]) == (kind, name, 77)


def test_a_copy_call_knows_what_it_moves():
    """The tracer notes the same of the call as of the copy."""
    details = "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"
    stats = {"correlation_id": 8, "memcpy_details": details}
    (span,) = spans_of({"python": [TraceEvent("cuMemcpyHtoDAsync_v2", stats=stats)]})

    assert (span["bytes"], span["detail"]) == (4096, details)


def test_calls_in_a_plane_of_their_own_belong_to_the_thread():
    """Where the driver's plane was not joined to the host's, the line's id tells the thread."""
    host = {"tf_Compute/1": [TraceEvent("a:Relu")], "python": [TraceEvent("b:Relu")]}
    calls = {
        "Host Threads/1": [],
        "Host Threads/2": [TraceEvent("cuLaunchKernel", stats={"correlation_id": 3})],
    }

    (span,) = spans_of(host, **{"/host:CUPTI": calls})

    assert span["lane"] == "python"


def test_python_code_of_an_op_is_a_span():
    """py_function, numpy_function and from_generator run as such ops."""
    (span,) = spans_of({"tf_Compute/1": [TraceEvent("m/EagerPyFunc:EagerPyFunc", 3, 4)]})

    assert (span["kind"], span["name"]) == (SpanKind.PYTHON, "m/EagerPyFunc")


def parallel_map():
    """A ParallelMap: its runner asks its input and calls the function, a pool runs that."""
    run = 2**63 + 9
    return {
        "tf_data_iterator_resource/1": [
            TraceEvent("ParallelMapProduce", 10, 50),
            TraceEvent(f"{MAP}::FlatMap[0]::Range", 11, 9, {"id": 3, "parent_id": 2}),
            TraceEvent("InstantiatedCapturedFunction::RunAsync", 30, 5, {"id": run}),
        ],
        "tf_Compute/2": [
            TraceEvent("ExecutorState::Process", 40, 100, {"id": run}),
            TraceEvent("PyFunc:PyFunc", 45, 60),
            TraceEvent("ExecutorDoneCallback", 150, 20, {"id": run}),
            TraceEvent("ExecutorState::Process", 200, 50, {"id": 1}),
            TraceEvent("m/MatMul:MatMul", 210, 20),
        ],
    }


def test_a_function_of_an_iterator_lasts_until_it_is_done_on_whatever_thread():
    """The parallel iterator is the parent of what its runner asks."""
    found = [each for each in spans_of(parallel_map()) if each["kind"] is SpanKind.DATASET_FUNCTION]

    (span,) = found
    assert (span["name"], span["parent"]) == (f"{MAP}::FlatMap", 2)
    assert (span["start_ns"], span["duration_ns"]) == (30_000, 140_000)


def test_an_op_that_an_iterator_runs_is_background_and_told_the_iterator():
    """Until TensorFlow 2.5 it shares the threads of the step's own ops."""
    trace = read(xspace({HOST: parallel_map()}))

    told = {row.op_type: (row.background, row.detail) for row in trace.rows}

    assert told == {"PyFunc": (True, f"{MAP}::FlatMap"), "MatMul": (False, "")}
    (python,) = [at for at in range(len(trace.spans)) if trace.spans.kind[at] == SpanKind.PYTHON]
    assert trace.spans.background[python]
    assert trace.spans.strings[trace.spans.detail[python]] == f"{MAP}::FlatMap"


def begun_before(*, second_iterator=False):
    """A ParallelMap of which one run was called before the recording began."""
    lines = parallel_map()
    lines["python"] = [TraceEvent("FunctionRun", 35, 1, {"id": 1})]
    lines["tf_Compute/3"] = [
        TraceEvent("ExecutorState::Process", 0, 20, {"id": 5}),
        TraceEvent("Mul:Mul", 2, 7),
        TraceEvent("ExecutorState::Process", 25, 30, {"id": 5}),
    ]
    lines["tf_Compute/4"] = [
        TraceEvent("Sum:Sum", 2, 7),
        TraceEvent("ExecutorState::Process", 90, 20, {"id": 1}),
        TraceEvent("m/Conv2D:Conv2D", 95, 7),
    ]
    if second_iterator:
        lines["tf_data_iterator_resource/4"] = [
            TraceEvent(f"{ROOT}::Map", 0, 50, {"id": 1}),
            TraceEvent("InstantiatedCapturedFunction::Run", 10, 30, {"id": 8}),
        ]
    return lines


def test_a_function_called_before_the_recording_is_that_of_the_only_iterator_that_runs_any():
    """Until TensorFlow 2.5 its ops would count as the step's own."""
    trace = read(xspace({HOST: begun_before()}))

    told = {row.op_type: (row.background, row.detail) for row in trace.rows}
    assert told["Mul"] == told["Sum"] == (True, f"{MAP}::FlatMap")
    assert told["MatMul"] == told["Conv2D"] == (False, "")
    found = [
        (start_ns, duration_ns)
        for kind, start_ns, duration_ns in zip(
            trace.spans.kind, trace.spans.start_ns, trace.spans.duration_ns, strict=True
        )
        if kind == SpanKind.DATASET_FUNCTION
    ]
    assert found == [(0, 55_000), (2_000, 7_000), (30_000, 140_000)]


def test_an_op_whose_work_ends_after_the_recording_is_known_by_its_group():
    """TensorFlow 2.4 numbers the step's own events; a function's work has no such number.

    Nor has the step's where its work was not over: only what has run for an iterator before does
    so again.
    """
    lines = parallel_map()
    lines["python"] = [TraceEvent("FunctionRun", 35, 1, {"id": 1, "group_id": 0})]
    lines["tf_Compute/2"] += [
        TraceEvent("PyFunc:PyFunc", 300, 5),
        TraceEvent("Mul:Mul", 310, 5),
        TraceEvent("m/Sum:Sum", 260, 5, {"group_id": 0}),
    ]
    lines["tf_Compute/3"] = [TraceEvent("PyFunc:PyFunc", 45, 60), TraceEvent("Cast:Cast", 120, 9)]

    rows = list(read(xspace({HOST: lines})).rows)

    assert {row.op_type for row in rows if row.background} == {"PyFunc"}
    assert [row.background for row in rows if row.op_type == "PyFunc"] == [True] * 3


def test_an_iterator_goes_on_in_a_step_that_asks_for_nothing():
    """As does the function of a Map that fetches ahead while another function is traced."""
    lines = parallel_map()
    lines["python"] = [TraceEvent("FunctionRun", 35, 1, {"id": 1, "group_id": 0})]
    lines["tf_Compute/2"] += [TraceEvent("PyFunc:PyFunc", 300, 5)]
    later = {
        "python": [TraceEvent("FunctionRun", 60, 5, {"id": 2, "group_id": 0})],
        "tf_Compute/2": [
            TraceEvent("ExecutorState::Process", 0, 50, {"id": 9}),
            TraceEvent("PyFunc:PyFunc", 2, 40),
            TraceEvent("ExecutorState::Process", 61, 4, {"id": 2, "group_id": 0}),
            TraceEvent("MatMul:MatMul", 62, 2),
        ],
    }
    reader = XSpaceReader(Interner())

    reader.read(xspace({HOST: lines}))
    rows = list(reader.read(xspace({HOST: later})).rows)

    assert {row.op_type: row.background for row in rows} == {"PyFunc": True, "MatMul": False}


def test_a_function_called_before_the_recording_is_background_whosever_it_is():
    """Of two iterators that run functions it may be either's."""
    trace = read(xspace({HOST: begun_before(second_iterator=True)}))

    (told,) = [(row.background, row.detail) for row in trace.rows if row.op_type == "Mul"]
    assert told == (True, "")


def test_a_function_called_within_a_get_next_is_that_iterators():
    """A Map without threads calls it on the thread that asks."""
    lines = {
        "tf_data_iterator_resource/1": [
            TraceEvent(f"{ROOT}::Map", 0, 50, {"id": 1}),
            TraceEvent(f"{ROOT}::Map::Range", 1, 4, {"id": 2, "parent_id": 1}),
            TraceEvent("InstantiatedCapturedFunction::Run", 10, 30, {"id": 8}),
        ]
    }

    (span,) = [each for each in spans_of(lines) if each["kind"] is SpanKind.DATASET_FUNCTION]

    assert (span["name"], span["parent"], span["identity"]) == (f"{ROOT}::Map", 1, 8)
    assert span["duration_ns"] == 30_000


def test_spans_come_by_their_start_and_only_when_asked_for():
    """Whoever needs executions alone does not wait for the rest."""
    content = xspace({HOST: {"a": [TraceEvent(ROOT, 9)], "b": [TraceEvent(f"{ROOT}::Map", 4)]}})

    assert read(content).spans.start_ns.tolist() == [4_000, 9_000]
    assert len(read(content, with_spans=False).spans) == 0


def test_constants_that_are_folded_are_no_work_of_an_iterator():
    """Grappler runs them under the number -1, on the thread that makes a function ready."""
    lines = {
        "python": [
            TraceEvent("ExecutorState::Process", 10, 9, {"id": -1}),
            TraceEvent("m/Const:Const", 12, 3),
            TraceEvent("FunctionRun", 30, 5, {"id": 4}),
        ],
        "tf_data_iterator_resource/1": [
            TraceEvent(f"{ROOT}::Map", 0, 50, {"id": 1}),
            TraceEvent("InstantiatedCapturedFunction::Run", 10, 30, {"id": 8}),
        ],
    }

    trace = read(xspace({HOST: lines}))

    assert [row.background for row in trace.rows] == [False]
    functions = trace.spans.kind == SpanKind.DATASET_FUNCTION
    assert trace.spans.identity[functions].tolist() == [8]


def test_a_step_of_which_all_ops_were_folded_away_is_a_step():
    """The function was called all the same; a trace without any is of no step."""
    call = TraceEvent("retracing", 1, 90, {"tf_function_call": "traced-nonXla"})

    for with_spans in (True, False):
        assert read(xspace({HOST: {"python": [call]}}), with_spans=with_spans).tells_of_steps
        nothing = xspace({HOST: {"python": [TraceEvent("x")]}})
        assert not read(nothing, with_spans=with_spans).tells_of_steps
