"""Traced steps as tfprof's records: what its engine can load."""

from __future__ import annotations

import numpy as np

from tests.support.profiles import Step, loop, profile
from tests.support.rundir import UNIX_NS
from tfprobe.analysis.ops.tfprof_records import graph_profile
from tfprobe.export.profile_proto import profile_proto
from tfprobe.formats.profile_proto import graph_profile as parsed
from tfprobe.profile.capture_tables import Place, Row
from tfprobe.profile.graph import Graph, Node, TracedLoop
from tfprobe.profile.records import GraphProfile

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
START_US = UNIX_NS // 1000


def row(device: str, place: Place, start_ns: int, duration_ns: int, size: int = 0) -> Row:
    return Row(device, "1", "a", "A", place, UNIX_NS + start_ns, duration_ns, size, size)


def records(*steps: list[Row]) -> GraphProfile:
    """Return the profile of a graph with one node that ran and one that did not."""
    found = profile([Step(rows) for rows in steps], loops=[loop()])
    sampled = TracedLoop(
        loop=found.loops[0],
        graph=Graph((Node("idle", "B"), Node("a", "A"))),
        devices=(None, None),
        captures=found.captures,
        executions=found.executions,
        node=np.ones(len(found.executions), dtype=np.int32),
        has_graph=True,
        has_memory=True,
    )
    return graph_profile(sampled)


def test_times_are_whole_microseconds_and_at_least_one() -> None:
    """They are truncated as in TensorFlow, and nothing takes 0 µs."""
    found = records([row(CPU, Place.HOST, 2_900, 3_999), row(CPU, Place.HOST, 9_000, 12)])

    record = found.records[1][0]
    spans = record.cpu[CPU.lower()]
    assert [(span.start_us - START_US, span.duration_us) for span in spans] == [(2, 3), (9, 1)]
    assert (record.start_us - START_US, record.end_us - START_US) == (2, 10)
    assert record.run_count == 2


def test_each_step_has_its_record() -> None:
    """A node that never ran has none, and no device."""
    found = records([row(CPU, Place.HOST, 0, 1000)], [row(CPU, Place.HOST, 0, 5000)])

    assert found.steps == (0, 1)
    assert sorted(found.records[1]) == [0, 1]
    assert (found.records[0], found.devices[0], found.covered) == ({}, None, 1)


def test_a_kernel_is_accelerator_time_of_the_device_that_scheduled_it() -> None:
    """In a RunMetadata both have names; the stream keeps its own."""
    found = records(
        [
            row("/device:GPU:0/stream:all", Place.ACCELERATOR, 0, 7000),
            row(GPU, Place.HOST, 0, 2000, size=64),
        ]
    )

    record = found.records[1][0]
    assert found.devices[1] == GPU.lower()
    assert record.accelerator["/device:gpu:0/stream:all"][0].duration_us == 7
    assert record.cpu[GPU.lower()][0].duration_us == 2
    assert [(use.requested_bytes, use.on_host) for use in record.memory] == [(64, False)]
    assert not found.lacks_stream


def test_planes_of_a_window_become_devices() -> None:
    """The engine knows no planes: the host's is a CPU, a kernel's its GPU with all its streams."""
    on_gpu = records(
        [
            row("/host:CPU", Place.HOST, 0, 2000),
            row("/device:GPU:1", Place.ACCELERATOR, 3000, 7000),
        ]
    )
    on_host = records([row("/host:CPU", Place.HOST, 0, 2000)])

    assert on_gpu.devices[1] == "/device:gpu:1"
    assert set(on_gpu.records[1][0].accelerator) == {"/device:gpu:1/stream:all"}
    assert set(on_gpu.records[1][0].cpu) == {"/device:gpu:1"}
    assert on_host.devices[1] == "/device:cpu:0"


def test_the_file_reads_back_as_it_was() -> None:
    """Through ProfileProto."""
    found = records([row(CPU, Place.HOST, 0, 1000, size=8)])

    again = parsed(profile_proto(found))

    assert (again.steps, again.records, again.devices) == (
        found.steps,
        found.records,
        found.devices,
    )


def test_no_rows_are_no_records() -> None:
    """A step may have run no node of the graph."""
    assert records([]).records == ({}, {})
