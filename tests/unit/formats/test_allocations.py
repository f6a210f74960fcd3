"""What allocators gave and took back becomes rows, from RunMetadata and from XSpace.

The records are as TensorFlow 1.14 to 2.21 write them on CPU; the sums without records as in the
recording of a GPU of 2017 that tfprof's own tests have.
"""

from __future__ import annotations

import pytest

from tests.support.captures import CPU, GPU, Node, TraceEvent, run_metadata, xspace
from tests.support.golden import golden
from tests.support.gpu_traces import allocation, gpu_trace, training_step
from tests.support.rundir import UNIX_NS
from tfprobe.formats import run_metadata as of_sessions
from tfprobe.formats import xspace as of_functions
from tfprobe.profile.tables import Interner


def texts(allocations, name):
    """Return a column of text."""
    return [allocations.strings[at] for at in getattr(allocations, name).tolist()]


def of_nodes(*nodes, device=CPU):
    """Return the allocations of a RunMetadata."""
    return of_sessions.read(run_metadata({device: nodes})).allocations


def test_what_a_node_took_and_what_was_freed_later_are_rows_by_time():
    """The freeing is told of the node that took it, whoever it was that let go."""
    found = of_nodes(
        Node("a", 0, 5, "a = MatMul(x, y)", records=[(3, 64), (40, -64)]),
        Node("b", 10, 5, "b = Relu(a)", records=[(12, 32)]),
    )

    assert texts(found, "op") == ["a", "b", "a"]
    assert texts(found, "op_type") == ["MatMul", "Relu", "MatMul"]
    assert found.bytes.tolist() == [64, 32, -64]
    assert (found.at_ns - UNIX_NS).tolist() == [3_000, 12_000, 40_000]
    assert (texts(found, "allocator")[0], texts(found, "device")[0]) == ("cpu", CPU)


def test_the_output_of_that_size_tells_shape_and_address():
    """A piece of another size was used for something in between."""
    node = Node(
        "a", 0, 5, output_bytes=64, shape=(4, 4), address=77, records=[(1, 64), (2, 8), (3, -8)]
    )

    found = of_nodes(node)

    assert texts(found, "shape") == ["float32[4,4]", "", ""]
    assert found.address.tolist() == [77, 0, 0]


def test_what_an_allocator_holds_is_told_when_the_node_is_done():
    """An allocator of a GPU counts, and says so without giving anything."""
    found = of_nodes(
        Node("a", 0, 5, allocator="GPU_0_bfc", records=[(1, 64)], in_use_bytes=7424), device=GPU
    )

    assert found.bytes.tolist() == [64, 0]
    assert found.in_use_bytes.tolist() == [-1, 7424]
    assert (found.at_ns - UNIX_NS).tolist() == [1_000, 5_000]


def test_without_records_a_node_has_what_it_held_at_most_and_what_it_kept():
    """Recordings of old TensorFlows have sums alone."""
    found = of_nodes(Node("a", 0, 5, requested_bytes=9472, peak_bytes=5888, live_bytes=768))

    assert found.bytes.tolist() == [768, 5888 - 768, 768 - 5888]
    assert (found.at_ns - UNIX_NS).tolist() == [0, 0, 5_000]


def test_a_gpus_allocator_says_what_it_gave_and_how_it_stands():
    """Every event of it is a row with its device, the op and the tensor."""
    found = of_functions.read(training_step(start_ns=UNIX_NS)).allocations

    assert found.bytes.tolist() == [4096, -4096]
    assert (texts(found, "device")[0], texts(found, "allocator")[0]) == (
        "/device:GPU:0",
        "GPU_0_bfc",
    )
    assert (texts(found, "op"), texts(found, "op_type")) == (["m/dense/MatMul", ""], ["MatMul", ""])
    assert texts(found, "shape") == ["float32[64,16]", ""]
    assert found.address.tolist() == [0x7F00_0000_0000] * 2
    assert found.in_use_bytes.tolist() == [8192, 4096]
    assert found.peak_bytes.tolist() == [12288, 12288]
    free_bytes = (1 << 30) - 8192
    assert (found.free_bytes[0], found.largest_free_bytes[0]) == (free_bytes, free_bytes * 3 // 4)


@pytest.mark.parametrize("fragmentation", [float("nan"), float("inf"), -0.5, 1.5])
def test_a_fragmentation_that_is_none_tells_no_largest_piece(fragmentation):
    """All that was reserved is held: TensorFlow divides by 0."""
    event = allocation(1, 64, in_use=64, peak=64)
    stats = {**event.stats, "fragmentation": fragmentation}
    lines = {"tf_Compute/1": [TraceEvent(event.name, 1, 0, stats)]}

    found = of_functions.read(xspace({"/host:CPU": lines})).allocations

    assert found.largest_free_bytes.tolist() == [-1]


def test_the_allocator_of_a_cpu_belongs_to_the_host():
    """With oneDNN it gives the larger tensors."""
    event = allocation(1, 64, in_use=64, peak=64)
    stats = {**event.stats, "allocator_name": "mklcpu", "bytes_available": -5}
    lines = {"tf_Compute/1": [TraceEvent(event.name, 1, 0, stats)]}

    found = of_functions.read(gpu_trace({}, lines)).allocations

    assert (texts(found, "device"), found.free_bytes.tolist()) == (["/host:CPU"], [-1])


def test_allocations_come_only_when_asked_for():
    """Whoever needs executions alone does not wait for them."""
    content = training_step()

    assert len(of_functions.read(content, with_spans=False).allocations) == 0


def test_a_recording_of_2017_tells_what_its_gpu_held():
    """tfprof's own test data has no records of single allocations."""
    path = golden("tfprof_testdata", "run_meta")

    found = of_sessions.read(path.read_bytes()).allocations

    assert found.in_use_bytes.max() == 7936
    assert set(texts(found, "allocator")) == {"GPU_0_bfc"}
    assert found.bytes.sum() == 768 + 512


def test_memory_of_accelerators_is_told_where_that_of_the_host_is_not_asked_for():
    """An accelerator's device or allocator is enough; what is told of it is the same."""
    content = run_metadata(
        {
            CPU: [
                Node("a", 0, 5, records=[(1, 64)]),
                Node("b", 5, 5, allocator="gpu_host_bfc", records=[(6, 32)]),
            ],
            GPU: [Node("c", 8, 5, allocator="GPU_0_bfc", records=[(9, 16), (11, -16)])],
        }
    )
    interner = Interner()
    (written,) = of_sessions.take_apart(of_sessions.NodeReader(interner), [content])

    found = of_sessions.RunMetadataReader(interner, with_host_allocations=False).read(written)

    assert texts(found.allocations, "op") == ["b", "c", "c"]
    assert found.allocations.bytes.tolist() == [32, 16, -16]
    assert len(found.rows) == 3
