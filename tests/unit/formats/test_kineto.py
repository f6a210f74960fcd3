"""Traces of PyTorch's profiler become rows, spans and steps."""

from __future__ import annotations

import pytest

from tests.support import kineto as written
from tfprobe.errors import UnreadableInput
from tfprobe.formats import kineto
from tfprobe.profile.capture_tables import Place, SpanKind


def read(*events, **head):
    """Return the trace of events."""
    return kineto.read(written.trace(events, **head))


def test_a_kernel_belongs_to_the_innermost_op_around_its_launch():
    """Its own name stays beside the op; the call shares its number."""
    trace = kineto.read(written.training())

    (sgemm,) = [row for row in trace.rows if row.detail == "ampere_sgemm_32x32"]
    assert (sgemm.name, sgemm.op_type) == ("aten::addmm", "aten::addmm")
    assert (sgemm.place, sgemm.device, sgemm.lane) == (
        Place.ACCELERATOR,
        "/device:GPU:0",
        "stream 7",
    )
    (launch,) = [at for at in range(len(trace.spans)) if trace.spans.correlation[at] == 2]
    assert trace.spans.kind[launch] == SpanKind.LAUNCH
    assert sgemm.correlation == 2


@pytest.mark.parametrize(
    ("name", "place", "detail"),
    [
        (
            "Memcpy HtoD (Pageable -> Device)",
            Place.HOST_TO_DEVICE,
            "kind_src:pageable kind_dst:device size:64",
        ),
        (
            "Memcpy DtoH (Device -> Pinned)",
            Place.DEVICE_TO_HOST,
            "kind_src:device kind_dst:pinned size:64",
        ),
        (
            "Memcpy DtoD (Device -> Device)",
            Place.DEVICE_TO_DEVICE,
            "kind_src:device kind_dst:device size:64",
        ),
        ("Memcpy HtoD (Host -> Device)", Place.HOST_TO_DEVICE, "size:64"),
        ("Memcpy PtoP (Device -> Device)", Place.DEVICE_TO_DEVICE, None),
    ],
)
def test_a_copy_says_where_it_goes_in_tensorflows_words(name, place, detail):
    """Which memory of a host it was, AMD's tracer does not tell."""
    (row,) = read(written.copy(name, 1, 2, 9, bytes=64)).rows

    assert (row.place, row.bytes) == (place, 64)
    assert row.detail == (detail or "kind_src:device kind_dst:device size:64")


@pytest.mark.parametrize(("name", "told"), [("cudaMemcpyAsync", 1), ("cudaMemcpy", 0)])
def test_the_call_tells_whether_it_waited(name, told):
    """The copy itself does not."""
    copied = written.copy("Memcpy DtoH (Device -> Pageable)", 3, 4, 9, bytes=64)

    (row,) = read(written.call(name, 1, 2, 9), copied).rows

    assert row.detail == f"kind_src:device kind_dst:pageable size:64 async:{told}"


def test_the_call_tells_the_size_of_a_copy_that_does_not():
    """AMD's tracer writes it at the call, as text."""
    name = "Memcpy HtoD (Host -> Device)"
    trace = read(
        written.call("hipMemcpyWithStream", 1, 2, 9, size="2560"), written.copy(name, 3, 4, 9)
    )

    assert [row.bytes for row in trace.rows] == [2560]
    assert (trace.spans.kind.tolist(), trace.spans.bytes.tolist()) == ([SpanKind.COPY_CALL], [2560])


def test_a_memset_stays_on_its_device():
    """Its size is that of what it sets."""
    (row,) = read(written.memset(1, 2, 9, 512)).rows

    assert (row.place, row.bytes, row.detail) == (
        Place.DEVICE_TO_DEVICE,
        512,
        "kind:device num_bytes:512",
    )


def test_times_count_from_the_base_where_the_trace_has_one():
    """Newer traces keep times short, so that their fractions of µs are exact."""
    (row,) = read(written.op("a", 3.5, 2.25), baseTimeNanoseconds=1_700_000_000_000_000_000).rows

    assert (row.start_ns, row.duration_ns) == (1_700_000_000_000_003_500, 2_250)


def test_the_marked_steps_are_found():
    """The program marks them: profiler.step()."""
    trace = kineto.read(written.training())

    assert [(each.number, each.start_ns) for each in trace.markers] == [(4, 0), (5, 100_000)]


def test_a_trace_in_which_nothing_ran_is_refused():
    """Calls of the runtime alone say nothing of ops."""
    with pytest.raises(UnreadableInput, match="nothing ran"):
        read(written.call("cudaFree", 1, 2, 3))


@pytest.mark.parametrize("broken", [{"ts": "x"}, {"dur": -1}, {"dur": None}, {"ts": 1e400}])
def test_a_box_without_a_time_is_refused(broken):
    """A time that is none is never taken for 0."""
    with pytest.raises(UnreadableInput):
        read({**written.op("a", 1, 2), **broken})
