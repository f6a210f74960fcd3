"""Kernels, copies and memsets of a GPU's streams become rows; see tests/support/gpu_traces.py."""

from __future__ import annotations

import pytest

from tests.support.captures import Ref, TraceEvent
from tests.support.gpu_traces import copy, gpu_trace, kernel, memset, training_step
from tests.support.rundir import UNIX_NS
from tfprobe.formats.xspace import read
from tfprobe.profile.capture_tables import Place, SpanKind


def rows_of(**streams):
    """Return the rows of streams by their names."""
    return list(read(gpu_trace(streams, {})).rows)


def test_a_kernel_is_told_its_op_its_name_and_its_launch():
    """The op is that of the tf_op stat; the kernel's own name stays beside it."""
    (row,) = rows_of(a=[kernel("ampere_sgemm", 5, 8, correlation=7, op="m/MatMul:MatMul")])

    assert (row.name, row.op_type, row.detail) == ("m/MatMul", "MatMul", "ampere_sgemm")
    assert (row.place, row.correlation) == (Place.ACCELERATOR, 7)
    assert (row.device, row.start_ns, row.duration_ns) == ("/device:GPU:0", 5_000, 8_000)


def test_a_kernel_without_an_op_goes_by_its_own_name():
    """Nothing was annotated when it was launched."""
    (row,) = rows_of(a=[kernel("ncclKernel_AllReduce_RING_LL", 5, 8, correlation=7)])

    assert (row.name, row.op_type) == ("ncclKernel_AllReduce_RING_LL",) * 2


@pytest.mark.parametrize(
    ("direction", "source", "target", "place"),
    [
        ("H2D", "pinned", "device", Place.HOST_TO_DEVICE),
        ("D2H", "device", "pageable", Place.DEVICE_TO_HOST),
        ("D2D", "device", "device", Place.DEVICE_TO_DEVICE),
        ("P2P", "device", "device", Place.DEVICE_TO_DEVICE),
        ("Other", "pageable", "device", Place.HOST_TO_DEVICE),
        ("Other", "device", "pinned", Place.DEVICE_TO_HOST),
        ("Other", "array", "device", Place.DEVICE_TO_DEVICE),
        ("Other", "unknown", "unknown", Place.DEVICE_TO_DEVICE),
    ],
)
def test_a_copy_goes_where_its_name_or_its_ends_say(direction, source, target, place):
    """A copy that has no direction in its name tells the memory that it goes from and to."""
    (row,) = rows_of(
        a=[copy(direction, 1, 2, correlation=3, size=64, source=source, target=target)]
    )

    assert row.place is place


def test_a_copy_tells_what_it_moves_and_between_which_memory():
    """Whether memory was pageable or pinned is in its detail."""
    (row,) = rows_of(a=[copy("H2D", 1, 2, correlation=3, size=4096, op="m/Cast:Cast")])

    assert (row.name, row.op_type, row.bytes, row.correlation) == ("m/Cast", "MemcpyH2D", 4096, 3)
    assert row.detail == "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"


def test_a_memset_moves_nothing_off_the_device():
    """Its size is that of what it sets."""
    (row,) = rows_of(a=[memset(1, 2, correlation=3, size=512)])

    assert (row.place, row.op_type, row.bytes) == (Place.DEVICE_TO_DEVICE, "Memset", 512)


def test_a_kernel_on_a_stream_that_also_copies_is_a_kernel():
    """The name of a line lists all that came on it."""
    events = [
        kernel("sgemm", 5, 8, correlation=1),
        copy("H2D", 1, 2, correlation=2, size=8),
    ]
    places = [row.place for row in rows_of(**{"Stream #7(Compute,MemcpyH2D)": events})]

    assert places == [Place.ACCELERATOR, Place.HOST_TO_DEVICE]


def test_what_is_no_work_of_the_device_is_left_out():
    """Derived lines, what tracing cost, counters, and memory that the driver gave or took."""
    given = TraceEvent("cuMemAlloc", 1, 2, {"memalloc_details": Ref("kind:device num_bytes:64")})
    found = rows_of(
        **{
            "Stream #7(MemoryAlloc)": [given],
            "CUPTI overhead": [TraceEvent("Overhead", 1, 2)],
            "_counters_": [TraceEvent("power_mw", 1, 0)],
            "TensorFlow Ops": [TraceEvent("m/MatMul", 1, 2)],
            "Launch Stats": [TraceEvent("m/MatMul", 1, 2)],
        }
    )

    assert found == []


def test_a_step_on_a_gpu_joins_calls_and_what_they_started():
    """Each kernel and copy shares its number with one call of the driver, which came before it."""
    trace = read(training_step(start_ns=UNIX_NS))

    started = {row.correlation: row.start_ns for row in trace.rows if row.correlation}
    called = {
        int(trace.spans.correlation[at]): int(trace.spans.start_ns[at])
        for at in range(len(trace.spans))
        if trace.spans.kind[at] in (SpanKind.LAUNCH, SpanKind.COPY_CALL)
    }
    assert started.keys() == called.keys() == {1, 2, 3, 4, 5}
    assert all(called[number] < started[number] for number in started)
    assert trace.is_unix
