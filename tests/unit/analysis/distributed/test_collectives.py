"""How long collectives move bytes, how long ranks wait in them, and for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.support.profiles import Step, loop, process, profile
from tests.unit.analysis.transfers.test_transfers import kernel, row, spans
from tfprobe.analysis.core.source_lines import Origins
from tfprobe.analysis.distributed.collectives import Collectives, collectives
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Place, Row, SpanKind
from tfprobe.profile.graph import Graph, Node, TracedLoop
from tfprobe.profile.profile import Profile

REDUCE = "CollectiveReduceV2"


def reduce(start_us: int, duration_us: int, lane: str = "async", name: str = "r") -> Row:
    return row(name, start_us, duration_us, Place.HOST, op_type=REDUCE, lane=lane)


def recorded(
    by_rank: Mapping[int, Sequence[Sequence[Row]]], hosts: Sequence[str] = ("a", "a", "a"), **more
) -> Profile:
    """A run in which each rank recorded its steps 0, 1, 2 ..."""
    steps, places = [], []
    for rank, of_rank in by_rank.items():
        for step, rows in enumerate(of_rank):
            steps.append(Step(rows))
            places.append((rank, step))
    processes = [process(index=rank, rank=rank, host=hosts[rank]) for rank in by_rank]
    made = profile(steps, processes=processes, **more)
    captures = tuple(
        replace(each, process=rank, step=step)
        for each, (rank, step) in zip(made.captures, places, strict=True)
    )
    return replace(made, captures=captures)


def found(made: Profile, origins: Origins | None = None) -> Collectives:
    shown = collectives(made, origins or Origins(()))
    assert isinstance(shown, Collectives), shown
    return shown


def test_a_rank_that_comes_early_waits_for_the_last() -> None:
    """Rank 0 is inside for 100 µs, rank 1 for the last 30: those move bytes."""
    shown = found(recorded({0: [[reduce(0, 100)]], 1: [[reduce(70, 30)]]}))

    [kind] = shown.kinds
    assert (kind.moving_ns, kind.waiting_ns) == (60_000, 70_000)
    assert not isinstance(shown.ranks, Missing)
    assert [(each.rank, each.waiting_ns, each.last) for each in shown.ranks] == [
        (0, 70_000, 0),
        (1, 0, 1),
    ]
    assert shown.clock_error_ns is None


def test_steps_are_matched_by_their_number_and_collectives_by_their_turn() -> None:
    """A loop may run the same collective several times in a step."""
    rank_0 = [[reduce(0, 50), reduce(100, 50)], [reduce(0, 10)]]
    rank_1 = [[reduce(20, 30), reduce(140, 10)]]

    shown = found(recorded({0: rank_0, 1: rank_1}))

    [kind] = shown.kinds
    assert (kind.count, kind.matched) == (5, 4)
    assert kind.moving_ns == 2 * (30_000 + 10_000)


def numbered(number: int, start_us: int, duration_us: int, name: str = "r") -> Row:
    """Return a collective that is number so many of its group."""
    return reduce(start_us, duration_us, name=name)._replace(collective=f"0 allreduce {number}")


def test_collectives_are_matched_by_their_number_where_they_have_one() -> None:
    """Rank 1 missed the first, and its ops have another name; by their order all would be wrong."""
    rank_0 = [[numbered(5, 0, 50), numbered(6, 100, 50), numbered(7, 200, 50)]]
    rank_1 = [[numbered(6, 120, 30, name="s"), numbered(7, 240, 10, name="s")]]

    shown = found(recorded({0: rank_0, 1: rank_1}))

    assert sum(kind.matched for kind in shown.kinds) == 4
    assert sum(kind.moving_ns for kind in shown.kinds) == 2 * (30_000 + 10_000)


def test_kernels_of_one_collective_are_matched_in_their_order() -> None:
    """Several tensors that are reduced together may be several kernels of one number."""
    rank_0 = [[numbered(5, 0, 50), numbered(5, 100, 50)]]
    rank_1 = [[numbered(5, 20, 30), numbered(5, 140, 10)]]

    [kind] = found(recorded({0: rank_0, 1: rank_1})).kinds

    assert (kind.matched, kind.moving_ns) == (4, 2 * (30_000 + 10_000))


def test_without_numbers_in_one_rank_the_order_decides() -> None:
    """As where another release of PyTorch ran."""
    rank_0 = [[numbered(5, 0, 50), numbered(6, 100, 50)]]
    rank_1 = [[reduce(20, 30), reduce(140, 10)]]

    [kind] = found(recorded({0: rank_0, 1: rank_1})).kinds

    assert (kind.matched, kind.moving_ns) == (4, 2 * (30_000 + 10_000))


def test_of_one_rank_alone_moving_and_waiting_are_not_told_apart() -> None:
    """Nothing in one process says whether it waits."""
    shown = found(recorded({0: [[reduce(0, 100)]]}))

    assert isinstance(shown.ranks, Missing)
    assert "only one rank" in shown.ranks.reason
    assert shown.kinds[0].matched == 0


def test_clocks_of_other_hosts_are_set_by_the_ends_of_collectives() -> None:
    """Host b's clock is 5 ms ahead; its rank came 70 µs late all the same."""
    ahead = 5_000
    rank_0 = [[reduce(0, 100, name=name) for name in "abc"]]
    rank_1 = [[reduce(ahead + 70, 30 + off, name=n) for n, off in (("a", 0), ("b", 0), ("c", 2))]]

    shown = found(recorded({0: rank_0, 1: rank_1}, hosts=("a", "b")))

    # Rank 1 always comes last: nothing else says that its clock is not 100 µs less ahead.
    assert shown.clock_error_ns == pytest.approx(100_000, abs=3_000)
    assert not isinstance(shown.ranks, Missing)
    assert [each.waiting_ns // 1000 for each in shown.ranks] == [210, 2]


def test_clocks_that_cannot_be_right_leave_the_shortest_rank() -> None:
    """On one host two executions of one collective cannot miss each other."""
    shown = found(recorded({0: [[reduce(0, 100)]], 1: [[reduce(500, 30)]]}))

    assert shown.kinds[0].moving_ns == 60_000


def test_an_op_that_goes_on_by_itself_counts_once() -> None:
    """It has a row from its start until it is done, and one of the thread that carried it out."""
    shown = found(recorded({0: [[reduce(0, 100), reduce(40, 60, lane="collective_ops")]]}))

    [kind] = shown.kinds
    assert (kind.count, kind.time_ns) == (1, 100_000)
    assert (kind.queued, kind.queued_ns) == (1, 40_000)


def test_an_op_is_under_way_from_its_launch_until_another_thread_is_done() -> None:
    """TensorFlow 2.4 tells of both, and does not say that they belong together."""
    rows = [reduce(0, 5, lane="tf_Compute"), reduce(30, 70, lane="collective_ops/1")]

    shown = found(recorded({0: [rows]}))

    [kind] = shown.kinds
    assert (kind.count, kind.time_ns, kind.queued_ns) == (1, 100_000, 30_000)


def test_an_op_that_was_not_done_when_the_recording_ended_does_not_count() -> None:
    """Its launch alone would look like a collective of 5 µs."""
    whole = [reduce(0, 5, lane="tf_Compute"), reduce(30, 70, lane="collective_ops/1")]
    cut = [reduce(0, 5, lane="tf_Compute")]

    shown = found(recorded({0: [whole, cut]}))

    assert shown.kinds[0].count == 1


def test_kernels_stand_for_the_ops_that_launched_them() -> None:
    """A kernel is the collective's own time, its op only schedules it."""
    rows = [
        row("r", 0, 50, Place.HOST, op_type=REDUCE, lane="t"),
        kernel("k", 20, 70, correlation=3),
        kernel("MatMul", 200, 10, correlation=4),
    ]
    calls = spans((SpanKind.LAUNCH, "t", "cuLaunchKernel", 10, 3))

    shown = found(recorded({0: [rows]}, spans=calls))

    [kind] = shown.kinds
    assert (kind.op, kind.time_ns, kind.queued_ns) == ("k", 70_000, 8_000)


@pytest.mark.parametrize(
    "made",
    [
        {"detail": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"},
        {"detail": "void ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"},
        {"op_type": "NcclAllReduce"},
        {"op_type": "CollectiveGatherV2"},
        {"op_type": "HorovodAllreduce"},
        {"op_type": "all-reduce"},
        {"op_type": "gloo:all_reduce"},
    ],
)
def test_collectives_are_known_by_their_op_or_their_kernel(made) -> None:
    """Not only by a prefix: XLA and Horovod have names of their own."""
    shown = found(recorded({0: [[kernel("k", 0, 10, **made)]]}))

    assert shown.kinds[0].count == 1


@pytest.mark.parametrize(
    "op", ["CollectiveAssignGroupV2", "HorovodRank", "MatMul", "CollectiveInitializeCommunicator"]
)
def test_what_only_sets_up_a_group_is_no_collective(op) -> None:
    """It moves nothing."""
    shown = collectives(recorded({0: [[row("a", 0, 9, Place.HOST, op_type=op)]]}), Origins(()))

    assert isinstance(shown, Missing)


def test_computation_hides_a_collective() -> None:
    """Of an all-reduce of 100 µs, 40 are behind a kernel of the same accelerator."""
    rows = [
        kernel("k", 0, 100, op_type="NcclAllReduce"),
        kernel("MatMul", 60, 90),
        kernel("MatMul", 0, 100, device="/device:GPU:1"),
    ]

    shown = found(recorded({0: [rows]}))

    assert (shown.busy.busy_ns, shown.busy.hidden_ns) == (100_000, 40_000)


def test_a_call_around_a_collective_hides_none_of_it() -> None:
    """The function that the collective is in computes nothing itself."""
    rows = [
        reduce(0, 100),
        row("call", 0, 200, Place.HOST, op_type="StatefulPartitionedCall"),
        row("MatMul", 90, 100, Place.HOST),
    ]

    shown = found(recorded({0: [rows]}))

    assert shown.busy.hidden_ns == 10_000


def test_the_size_of_a_tensor_follows_from_its_shape_and_type() -> None:
    """784 x 10 float32 in 10 µs are 3.1 GB/s."""
    node = Node("r", REDUCE, output_shapes={0: (784, 10)}, dtypes=("DT_FLOAT",))
    made = recorded({0: [[reduce(0, 100)]], 1: [[reduce(90, 10)]]})
    origins = Origins([_sampled(made, node)])

    [kind] = found(made, origins).kinds

    assert (kind.sized, kind.bytes) == (2, 2 * 31_360)
    assert kind.bytes_per_s == pytest.approx(31_360 / 10e-6)


def test_a_rate_without_sizes_is_missing() -> None:
    """Neither the recording nor a graph tells how large the tensors are."""
    [kind] = found(recorded({0: [[reduce(0, 100)]]})).kinds

    assert isinstance(kind.bytes_per_s, Missing)


def _sampled(made: Profile, *nodes: Node) -> TracedLoop:
    return TracedLoop(
        loop=loop(),
        graph=Graph(nodes),
        devices=(None,) * len(nodes),
        captures=made.captures,
        executions=made.executions,
        node=made.executions.name,
        has_graph=True,
        has_memory=False,
    )
