"""What moves over the bus, what of it kernels hide, and which op caused it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.support.profiles import Step, process, profile
from tests.support.rundir import UNIX_NS
from tfprobe.analysis.core.copies import CopyMemory, CopyWaits, Move
from tfprobe.analysis.core.intervals import union, within_ns
from tfprobe.analysis.core.source_lines import Origins
from tfprobe.analysis.transfers.bus_transfers import (
    NO_OP,
    TransferFlow,
    Transfers,
    cause,
    transfers,
)
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Place, Row, SpanKind, Spans
from tfprobe.profile.profile import Profile
from tfprobe.profile.tables import Columns, Interner, TableBuilder

MIB = 2**20
PAGEABLE = "kind_src:pageable kind_dst:device size:1048576 dest:0 async:0"
PINNED = "kind_src:pinned kind_dst:device size:1048576 dest:0 async:1"


def copy(name: str, start_us: int, duration_us: int, place: Place, **more) -> Row:
    facts = {"device": "/device:GPU:0", "op_type": "MemcpyH2D", **more}
    return row(name, start_us, duration_us, place, **facts)


def kernel(name: str, start_us: int, duration_us: int, **more) -> Row:
    return row(
        name, start_us, duration_us, Place.ACCELERATOR, **{"device": "/device:GPU:0", **more}
    )


def row(name: str, start_us: int, duration_us: int, place: Place, **more) -> Row:
    facts = {"device": "d", "lane": "1", "op_type": name, **more}
    start_ns = UNIX_NS + start_us * 1000
    return Row(name=name, place=place, start_ns=start_ns, duration_ns=duration_us * 1000, **facts)


def found(*steps: Sequence[Row], by="op", **changes) -> Transfers:
    shown = transfers(profile([Step(rows) for rows in steps], **changes), Origins(()), by)
    assert isinstance(shown, Transfers), shown
    return shown


def flow(shown: Transfers, move: Move) -> TransferFlow:
    return next(each for each in shown.flows if each.move is move)


def spans(*calls: tuple[SpanKind, str, str, int, int]) -> Spans:
    """Driver calls of the first step: kind, thread, name, start in µs, correlation; 2 µs each."""
    interner, columns = Interner(), Columns(Spans)
    for kind, lane, name, start_us, correlation in calls:
        columns.add(
            1,
            kind=kind,
            lane=interner.position(lane),
            name=interner.position(name),
            start_ns=UNIX_NS + start_us * 1000,
            duration_ns=2000,
            correlation=correlation,
        )
    builder = TableBuilder(Spans, interner)
    builder.add(0, columns.rows(interner))
    return builder.table()


def test_bytes_and_rate_are_those_of_a_direction() -> None:
    """2 MiB in 200 µs are 10.5 GB/s, whatever goes the other way."""
    shown = found(
        [
            copy("x", 0, 100, Place.HOST_TO_DEVICE, bytes=MIB),
            copy("y", 200, 100, Place.HOST_TO_DEVICE, bytes=MIB),
            copy("z", 100, 50, Place.DEVICE_TO_HOST, bytes=10),
        ]
    )

    amount = flow(shown, Move.HOST_TO_DEVICE).amount

    assert (amount.count, amount.bytes, amount.time_ns) == (2, 2 * MIB, 200_000)
    assert amount.bytes_per_s == pytest.approx(2 * MIB / 200e-6)
    assert flow(shown, Move.DEVICE_TO_HOST).amount.bytes == 10


def test_a_copy_is_hidden_while_a_kernel_of_its_accelerator_runs() -> None:
    """Of 100 µs of copying 60 lie behind kernels, counted once where two kernels overlap."""
    shown = found(
        [
            copy("x", 0, 100, Place.HOST_TO_DEVICE, bytes=MIB),
            kernel("a", 20, 40, lane="1"),
            kernel("b", 30, 50, lane="2"),
        ]
    )

    assert (shown.copying.busy_ns, shown.copying.hidden_ns) == (100_000, 60_000)
    assert shown.causes[0].exposed_ns == 40_000
    assert shown.exposed_ns_per_step == 40_000


def test_kernels_of_another_accelerator_hide_nothing() -> None:
    """While one waits for its input, that the other computes does not help it."""
    shown = found(
        [
            copy("x", 0, 100, Place.HOST_TO_DEVICE, device="/device:GPU:1"),
            kernel("a", 0, 100),
        ]
    )

    assert shown.copying.hidden_ns == 0
    assert shown.accelerators == ("/gpu:0", "/gpu:1")
    assert shown.exposed_ns_per_step == 50_000


def test_streams_and_copies_of_one_accelerator_belong_together() -> None:
    """A RunMetadata has kernels on /gpu:0/stream:all and copies on /gpu:0/memcpy."""
    shown = found(
        [
            copy("x", 0, 100, Place.HOST_TO_DEVICE, device="/gpu:0/memcpy"),
            kernel("a", 0, 100, device="/device:GPU:0/stream:all"),
        ]
    )

    assert shown.copying.hidden_ratio == 1.0


def test_collectives_hide_no_copies() -> None:
    """Behind an all-reduce, which waits for peers, nothing is computed."""
    shown = found(
        [
            copy("x", 0, 100, Place.DEVICE_TO_DEVICE),
            kernel("k", 0, 100, detail="ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        ]
    )

    assert shown.copying.hidden_ns == 0


def test_copies_that_overlap_are_not_exposed_twice() -> None:
    """Both directions at once for 100 µs cost a step 100 µs."""
    shown = found(
        [
            copy("x", 0, 100, Place.HOST_TO_DEVICE),
            copy("y", 0, 100, Place.DEVICE_TO_HOST),
        ]
    )

    assert shown.copying.exposed_ns == 100_000


def test_what_a_memset_says_of_itself_is_no_op() -> None:
    """TensorFlow's tracer writes "kind:device num_bytes:512 async:1" of it."""
    assert cause("Memset", "Memset", "kind:device num_bytes:512 async:1") == ""


def test_memsets_stand_apart() -> None:
    """Filling memory with zeros moves nothing over the bus."""
    shown = found(
        [
            copy("Memset", 0, 10, Place.DEVICE_TO_DEVICE, op_type="Memset", bytes=512),
            kernel("m", 20, 10, detail="Memset (Device)"),
        ]
    )

    assert [(each.move, each.amount.count) for each in shown.flows] == [(Move.MEMSET, 2)]
    assert shown.copying.busy_ns == 0


@pytest.mark.parametrize(
    ("more", "memory", "waits"),
    [
        ({"detail": PAGEABLE}, CopyMemory.PAGEABLE, CopyWaits.SYNCHRONOUS),
        ({"detail": PINNED}, CopyMemory.PINNED, CopyWaits.ASYNCHRONOUS),
        ({"op_type": "Memcpy HtoD (Pageable -> Device)"}, CopyMemory.PAGEABLE, CopyWaits.UNKNOWN),
        ({"detail": "num_bytes: 4 async: false"}, CopyMemory.UNKNOWN, CopyWaits.SYNCHRONOUS),
        ({"detail": "num_bytes: 4 async: true"}, CopyMemory.UNKNOWN, CopyWaits.ASYNCHRONOUS),
        ({"detail": "bytes:4096 aync"}, CopyMemory.UNKNOWN, CopyWaits.ASYNCHRONOUS),
        ({"detail": "bytes:4096"}, CopyMemory.UNKNOWN, CopyWaits.SYNCHRONOUS),
        ({"detail": "size:4"}, CopyMemory.UNKNOWN, CopyWaits.UNKNOWN),
    ],
)
def test_the_hosts_memory_is_what_the_copys_record_says(more, memory, waits) -> None:
    """Pageable memory is copied once more on its way, and its caller waits."""
    shown = found([copy("x", 0, 10, Place.HOST_TO_DEVICE, **more)])

    [told] = shown.flows
    assert [each for each, _ in told.by_memory] == [memory]
    assert [each for each, _ in told.by_waits] == [waits]


def test_a_size_that_only_the_detail_tells_counts() -> None:
    """The bytes of a copy stand in its text where no column has them."""
    shown = found([copy("x", 0, 10, Place.HOST_TO_DEVICE, detail=PINNED)])

    assert shown.flows[0].amount.bytes == MIB


def test_sizes_that_nobody_recorded_are_no_zeros() -> None:
    """A timeline of TensorFlow 1 has copies without their sizes: there is no rate."""
    shown = found([copy("x", 0, 10, Place.HOST_TO_DEVICE)])

    amount = shown.flows[0].amount
    assert amount.sized == 0
    assert isinstance(amount.bytes_per_s, Missing)


def test_who_waits_is_told_by_the_name_of_the_call_where_the_copy_is_silent() -> None:
    """cuMemcpyHtoDAsync_v2 returns at once, cuMemcpyDtoH_v2 when all is there."""
    rows = [
        copy("x", 0, 10, Place.HOST_TO_DEVICE, correlation=7),
        copy("y", 20, 10, Place.DEVICE_TO_HOST, correlation=8),
    ]
    calls = spans(
        (SpanKind.COPY_CALL, "t", "cuMemcpyHtoDAsync_v2", 0, 7),
        (SpanKind.COPY_CALL, "t", "cuMemcpyDtoH_v2", 15, 8),
    )

    shown = found(rows, spans=calls)

    assert flow(shown, Move.HOST_TO_DEVICE).by_waits == ((CopyWaits.ASYNCHRONOUS, 1),)
    assert flow(shown, Move.DEVICE_TO_HOST).by_waits == ((CopyWaits.SYNCHRONOUS, 1),)


def test_a_copy_without_a_name_counts_for_the_op_that_was_running_when_it_was_called() -> None:
    """The driver's call says by its number which thread started the copy, and when."""
    rows = [
        row("dense/MatMul", 0, 50, Place.HOST, lane="thread 1"),
        row("other", 0, 50, Place.HOST, lane="thread 2"),
        copy("MemcpyH2D", 60, 10, Place.HOST_TO_DEVICE, correlation=7),
        copy("MemcpyH2D", 80, 10, Place.HOST_TO_DEVICE, correlation=9),
    ]
    calls = spans((SpanKind.COPY_CALL, "thread 1", "cuMemcpyHtoDAsync_v2", 10, 7))

    shown = found(rows, spans=calls)

    assert {each.label: each.amount.count for each in shown.causes} == {"dense/MatMul": 1, NO_OP: 1}


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("dense/MatMul", "dense/MatMul"),
        ("edge_22_MatMul", "MatMul"),
        ("edge_185__recv_Placeholder_1_0", "Placeholder_1"),
        ("_arg_Placeholder_0_1", "Placeholder"),
        ("_retval_loss/Mean_0_0", "loss/Mean"),
        ("MemcpyH2D", ""),
        ("Memset", ""),
        ("unknown", ""),
        ("", ""),
    ],
)
def test_a_copy_is_caused_by_the_op_whose_output_it_moves(name, op) -> None:
    """TensorFlow names copies after edges of the graph, and after what is fed and fetched."""
    assert cause(name, name) == op


@pytest.mark.parametrize(
    ("detail", "op"),
    [
        ("Conv2D:Conv2D num_bytes: 112 destination: 0 async: false", "Conv2D"),
        ("a/_0:_Send::edge_10_Conv2D_1::async num_bytes: 384 destination: 0", "Conv2D_1"),
        (PINNED, ""),
    ],
)
def test_a_label_names_the_op_that_asked_for_a_copy(detail, op) -> None:
    """TensorFlow 1 names some copies by the driver's word and the op in the label."""
    assert cause("MEMCPYHtoD", "MEMCPYHtoD", detail) == op


def test_causes_are_counted_by_layer() -> None:
    """All copies of a layer are one line, gradients with it."""
    shown = found(
        [
            copy("dense/MatMul", 0, 10, Place.HOST_TO_DEVICE),
            copy("dense/BiasAdd", 20, 10, Place.HOST_TO_DEVICE),
        ],
        by="layer",
    )

    assert [(each.label, each.amount.count) for each in shown.causes] == [("dense", 2)]


def test_classes_of_size_hold_each_copy_once() -> None:
    """Many tiny copies are seen as such."""
    sizes = (1, 4096, 65_536, 65_535, 2**20, 2**24)
    rows = [
        copy("x", 10 * at, 5, Place.HOST_TO_DEVICE, bytes=size) for at, size in enumerate(sizes)
    ]

    shown = found(rows)

    assert [each.amount.count for each in shown.sizes] == [1, 2, 1, 1, 1]


def test_steps_are_kept_apart() -> None:
    """A kernel of one step hides no copy of another, even where clocks repeat."""
    shown = found([copy("x", 0, 100, Place.HOST_TO_DEVICE)], [kernel("a", 0, 100)])

    assert (shown.steps, shown.copying.hidden_ns) == (2, 0)


@pytest.mark.parametrize(
    ("steps", "devices", "reason"),
    [
        ([], (), "no step was traced"),
        (
            [[row("a", 0, 10, Place.HOST)]],
            (),
            "no accelerator in this run, so nothing moved over the bus",
        ),
        ([[row("a", 0, 10, Place.HOST)]], ("/device:GPU:0",), "the host alone"),
        ([[kernel("a", 0, 10)]], (), "copied nothing"),
    ],
)
def test_without_copies_the_reason_is_told(steps, devices, reason) -> None:
    """A CPU job moves nothing over a bus, and a trace of the host alone sees nothing."""
    recorded: Profile = profile(
        [Step(rows) for rows in steps], processes=[process(devices=devices)]
    )

    shown = transfers(recorded, Origins(()))

    assert isinstance(shown, Missing)
    assert reason in shown.reason


def test_what_is_covered_is_measured_for_each_interval_by_itself() -> None:
    """Against a count of every ns."""
    random = np.random.default_rng(7)
    start = random.integers(0, 900, 40)
    held = union(start[20:], start[20:] + random.integers(0, 60, 20))
    end = start + random.integers(0, 200, 40)
    inside = np.zeros(2000, dtype=np.int64)
    for low, high in zip(held.start_ns.tolist(), held.end_ns.tolist(), strict=True):
        inside[low:high] = 1

    expected = [inside[low:high].sum() for low, high in zip(start, end, strict=True)]

    assert within_ns(held, start, end).tolist() == expected
