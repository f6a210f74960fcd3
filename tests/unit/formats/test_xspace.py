"""An XSpace becomes rows of ops and kernels; the framework's own events do not."""

from __future__ import annotations

import random

import pytest

from tests.support.captures import TraceEvent, xspace
from tests.support.golden import golden
from tests.support.rundir import UNIX_NS
from tfprobe.errors import UnreadableInput
from tfprobe.formats.xspace import read
from tfprobe.profile.capture_tables import Place

HOST = "/host:CPU"


def host_rows(*events: TraceEvent, line: str = "tf_Compute/1"):
    return read(xspace({HOST: {line: events}})).rows


def test_an_op_is_its_scope_and_type():
    """`scope/name:Type` is an op, timed in ns."""
    (row,) = host_rows(TraceEvent("StatefulPartitionedCall/m/conv2d/convolution:Conv2D", 3, 20))

    assert row.name == "StatefulPartitionedCall/m/conv2d/convolution"
    assert (row.op_type, row.place) == ("Conv2D", Place.HOST)
    assert (row.start_ns, row.duration_ns) == (3_000, 20_000)


@pytest.mark.parametrize(
    "name",
    [
        "ExecutorState::Process",
        "EagerLocalExecute: __inference_step_928",
        "Iterator::Root::Prefetch",
        "ThreadpoolListener::Record",
        "FunctionRun",
        "MakeIterator::MapAndBatchDataset",
        "TFE_Py_ExecuteCancelable",
        "train_function",
    ],
)
def test_the_frameworks_own_events_are_no_ops(name):
    """What TensorFlow traces of itself takes no part in the op table."""
    assert list(host_rows(TraceEvent(name))) == []


def test_an_asynchronous_op_lasts_from_start_to_done():
    """IteratorGetNext is started on one thread and done on another."""
    facts = {"name": "IteratorGetNext", "kernel_type": "IteratorGetNext"}
    lines = {
        "tf_Compute/1": [
            TraceEvent("ExecutorState::ProcessAsync::Start", 5, 1, {**facts, "_p": 9})
        ],
        "tf_data/2": [TraceEvent("ExecutorState::ProcessAsync::Done", 50, 1, {**facts, "_c": 9})],
    }

    (row,) = read(xspace({HOST: lines})).rows

    assert (row.op_type, row.start_ns, row.duration_ns) == ("IteratorGetNext", 5_000, 45_000)


def test_a_get_next_that_is_done_after_the_recording_lasts_until_its_work_is_done():
    """What runs after it on its thread is within its completion, which may not be recorded."""
    facts = {"name": "IteratorGetNext", "kernel_type": "IteratorGetNext"}
    lines = {
        "tf_Compute/1": [
            TraceEvent("ExecutorState::ProcessAsync::Start", 5, 1, {**facts, "_p": 9}),
            TraceEvent("ExecutorState::ProcessAsync::Start", 6, 1, {"kernel_type": "_Recv"}),
        ],
        "tf_data/2": [TraceEvent("IteratorGetNextOp::DoCompute", 8, 30)],
    }

    (row,) = read(xspace({HOST: lines})).rows

    assert (row.op_type, row.start_ns, row.duration_ns) == ("IteratorGetNext", 5_000, 33_000)


def test_a_launched_get_next_lasts_until_its_work_is_done():
    """Until TF 2.13 the op event is only the launch."""
    lines = {
        "tf_Compute/1": [TraceEvent("IteratorGetNext:IteratorGetNext", 5, 1)],
        "tf_data_iterator_get_next/2": [TraceEvent("IteratorGetNextOp::DoCompute", 8, 30)],
    }

    (row,) = read(xspace({HOST: lines})).rows

    assert (row.start_ns, row.duration_ns) == (5_000, 33_000)


def test_an_eager_op_counts_once():
    """Newer versions have only the eager event, older ones both."""
    new = host_rows(TraceEvent("EagerLocalExecute: MatMul", 0, 50))
    old = host_rows(
        TraceEvent("EagerLocalExecute: MatMul", 0, 50), TraceEvent("MatMul:MatMul", 9, 9)
    )

    assert [(row.op_type, row.duration_ns) for row in new] == [("MatMul", 50_000)]
    assert [(row.op_type, row.duration_ns) for row in old] == [("MatMul", 9_000)]


def test_ops_of_the_input_pipeline_are_background():
    """tf.data workers prepare later steps."""
    (row,) = host_rows(TraceEvent("mul:Mul"), line="tf_data_private_threadpool/-3")

    assert row.background


def test_a_kernel_belongs_to_its_op():
    """A GPU plane's event is told its op by the tf_op stat; copies by their names."""
    stats = {"tf_op": "m/dense/MatMul:MatMul", "correlation_id": 5}
    copy = {"memcpy_details": "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"}
    lines = {
        "Stream #13(Compute)": [TraceEvent("ampere_sgemm_32x32", 5, 8, stats)],
        "Stream #14(MemcpyH2D)": [TraceEvent("MemcpyH2D", 1, 2, copy)],
        "TensorFlow Ops": [TraceEvent("m/dense/MatMul", 5, 8)],
    }

    kernel, transfer = read(xspace({"/device:GPU:0": lines})).rows

    assert (kernel.name, kernel.op_type) == ("m/dense/MatMul", "MatMul")
    assert (kernel.place, kernel.device) == (Place.ACCELERATOR, "/device:GPU:0")
    assert (transfer.place, transfer.bytes) == (Place.HOST_TO_DEVICE, 4096)


def test_times_are_unix_where_the_profile_says_its_start():
    """From TF 2.15 or so on the trace says when it began; before, times count from its start."""
    planes = {HOST: {"python": [TraceEvent("a:Relu", 7)]}}

    said = read(xspace(planes, start_ns=UNIX_NS))
    not_said = read(xspace(planes))

    assert (said.is_unix, said.rows.start_ns[0]) == (True, UNIX_NS + 7_000)
    assert (not_said.is_unix, not_said.rows.start_ns[0]) == (False, 7_000)


@pytest.mark.parametrize("content", [b"", b"\xff\xff", b"no proto at all, but text"])
def test_what_is_no_xspace_is_refused(content):
    """A corrupt capture is named, never a traceback."""
    with pytest.raises(UnreadableInput):
        read(content)


def test_any_damage_is_read_or_refused():
    """Random bytes in a capture give rows or an error a person can read."""
    content = xspace({HOST: {"python": [TraceEvent("a:Relu", i) for i in range(20)]}})
    rng = random.Random(2)
    for _ in range(300):
        broken = bytearray(content[: rng.randrange(len(content))])
        for _ in range(3):
            if broken:
                broken[rng.randrange(len(broken))] = rng.randrange(256)

        try:
            trace = read(bytes(broken))
        except UnreadableInput:
            continue

        assert len(trace.rows) <= 40


def test_a_recording_without_ops_has_no_rows():
    """A TPU trace of JAX holds no TensorFlow op on the host."""
    path = golden("xprof", "tpu_inference_2.xplane.pb")

    assert len(read(path.read_bytes()).rows) == 0
