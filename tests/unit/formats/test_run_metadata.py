"""RunMetadata becomes rows with the accounting of tfprof."""

from __future__ import annotations

import random

import pytest

from tests.support.captures import CPU, GPU, Node, run_metadata
from tests.support.golden import golden
from tests.support.rundir import UNIX_NS
from tfprobe.errors import UnreadableInput
from tfprobe.formats.run_metadata import read, rows
from tfprobe.profile.capture_tables import Place, SpanKind


def test_a_host_row_has_type_time_and_bytes():
    """The label tells the type; requested and output bytes come from the memory records."""
    node = Node("a/MatMul", 5, 20, "a/MatMul = MatMul(x, w)", requested_bytes=64, output_bytes=32)

    (row,) = rows(run_metadata({CPU: [node]}))

    assert (row.name, row.op_type, row.place) == ("a/MatMul", "MatMul", Place.HOST)
    assert (row.start_ns, row.duration_ns) == (UNIX_NS + 5_000, 20_000)
    assert (row.bytes, row.output_bytes) == (64, 32)


def test_a_kernel_counts_once():
    """`stream:all` and the stream itself show the same kernel; one of them is its time."""
    kernel = Node("c", 0, 7, "c:Conv2D regs:1")
    devices = {
        GPU: [Node("c", 0, 3, "c = Conv2D(x)")],
        "/gpu:0/stream:all": [kernel],
        "/gpu:0/stream:12": [kernel],
    }

    found = [(row.op_type, row.place, row.duration_ns) for row in rows(run_metadata(devices))]

    assert found == [("Conv2D", Place.HOST, 3_000), ("Conv2D", Place.ACCELERATOR, 7_000)]


def test_a_transfer_has_direction_and_bytes():
    """Rows of the memcpy device are transfers, told apart by their name."""
    names = ["MEMCPYHtoD", "MEMCPYDtoHAsync", "MEMCPYDtoD"]
    nodes = [Node(name, label="x:_Send num_bytes: 384 async: true") for name in names]

    found = list(rows(run_metadata({"/gpu:0/memcpy": nodes, CPU: [Node("a")]})))[:3]

    places = [Place.HOST_TO_DEVICE, Place.DEVICE_TO_HOST, Place.DEVICE_TO_DEVICE]
    assert [row.place for row in found] == places
    assert {row.bytes for row in found} == {384}


def test_a_node_belongs_to_the_first_device_it_is_seen_on():
    """As in tfprof, a later row on another canonical device is dropped."""
    found = rows(run_metadata({CPU: [Node("a")], GPU: [Node("a"), Node("b")]}))

    assert [(row.name, row.device) for row in found] == [("a", CPU), ("b", GPU)]


def test_tensors_from_other_tasks_tell_which_and_how_large():
    """Each device has rows of one name for all that came to it; how fast each was says its time."""
    worker, server = "/job:worker/replica:0/task:1", "/job:ps/replica:0/task:0"
    pulled = f"edge_9_w/read from {server}/device:CPU:0 to {worker}/device:CPU:0"
    pushed = f"edge_7_g from {worker}/device:CPU:0 to {server}/device:CPU:0"
    speeds = ("4.4Gb/s", "0.007180Mb/s")
    captured = run_metadata(
        {
            f"{worker}/device:CPU:0": [
                Node("RecvTensor", label=f"[1.0MB] [{speed}] {pulled}", output_bytes=1_100_000)
                for speed in speeds
            ],
            f"{server}/device:CPU:0": [Node("RecvTensor", label=f"[4B] {pushed}", output_bytes=4)],
        }
    )

    found = [(row.op_type, row.detail, row.output_bytes) for row in rows(captured)]

    assert found == [
        ("RecvTensor", f"[1.0MB] {pulled}", 1_100_000),
        ("RecvTensor", f"[1.0MB] {pulled}", 1_100_000),
        ("RecvTensor", f"[4B] {pushed}", 4),
    ]


def test_no_time_of_an_op_is_zero():
    """Where microseconds were recorded, less than one counts as one, as in tfprof."""
    (row,) = rows(run_metadata({CPU: [Node("a", duration_us=0)]}))

    assert row.duration_ns == 1_000


@pytest.mark.parametrize("content", [b"", b"\xff\xff\xff", b"not a proto at all"])
def test_what_is_no_run_metadata_is_refused(content):
    """A corrupt capture is named, never a traceback."""
    with pytest.raises(UnreadableInput):
        rows(content)


def test_any_damage_is_read_or_refused():
    """Random bytes in a capture give rows or an error a person can read."""
    content = run_metadata({CPU: [Node("a", label="a = MatMul()")] * 5})
    rng = random.Random(1)
    for _ in range(300):
        broken = bytearray(content[: rng.randrange(len(content))])
        for _ in range(3):
            if broken:
                broken[rng.randrange(len(broken))] = rng.randrange(256)

        try:
            found = rows(bytes(broken))
        except UnreadableInput:
            continue

        assert len(found) <= 5


def test_the_recording_of_2017_is_read():
    """A real GPU step: kernels on stream:all, one transfer each way, nothing twice."""
    path = golden("tfprof_testdata", "run_meta")

    found = rows(path.read_bytes())

    kernels = [row for row in found if row.place is Place.ACCELERATOR]
    assert (len(kernels), sum(row.duration_ns for row in kernels)) == (21, 404_000)
    assert {row.op_type for row in kernels} == {"Conv2D"}
    assert sorted(row.place for row in found if row.place > Place.ACCELERATOR) == [2, 3]


def test_an_annotated_copy_goes_where_its_stream_says():
    """From TensorFlow 1.15 on a copy is named by its op, and its stream by the direction."""
    copied = Node("x/_1:_Recv", 5, 3, "x/_1:_Recv bytes:4096 aync")
    kernels = [Node("a:MatMul", 1, 2, "void gemm<float, 4> regs:8 shm:0 grid:1,1,1@@a:MatMul")]
    content = run_metadata(
        {
            CPU: [Node("a", 0, 1)],
            "/device:GPU:0/memcpy": [copied],
            "/device:GPU:0/stream:14<MemcpyH2D>": [copied],
            "/device:GPU:0/stream:all": kernels,
        }
    )

    found = {row.place: row for row in rows(content)}

    copy = found[Place.HOST_TO_DEVICE]
    assert (copy.bytes, copy.detail) == (4096, "bytes:4096 aync")
    assert found[Place.ACCELERATOR].detail == "void gemm<float, 4>"


def test_a_wait_for_a_device_is_a_span():
    """The tracer keeps one call of the driver, in a device of its own."""
    waits = [Node("cuStreamSynchronize", 5, 300, "ThreadId 7")]
    trace = read(run_metadata({CPU: [Node("a", 0, 1)], "/device:GPU:0/sync": waits}))

    assert trace.spans.kind.tolist() == [SpanKind.SYNC]
    assert (trace.spans.start_ns.tolist(), trace.spans.duration_ns.tolist()) == (
        [UNIX_NS + 5_000],
        [300_000],
    )
