"""Collectives of PyTorch have their sizes and groups, and traces say of which rank they are.

The arguments of NCCL's are those that PyTorch's ParamCommsUtils.hpp and libkineto's output_json.cpp
write; no GPU was recorded for this.
"""

from __future__ import annotations

import pytest

from tests.support.kineto import annotation, call, kernel, memory, op, shaped, trace
from tfprobe.formats.kineto import read
from tfprobe.formats.trace import TraceOrigin
from tfprobe.profile.capture_tables import Place


def message(group: str, **more):
    told = {"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000}
    return {**told, "dtype": "BFloat16", "Group size": 4, "Process Group Name": group, **more}


def test_a_collective_moves_what_its_arguments_say():
    """A kernel has the size of the op that launched it."""
    events = [
        op("record_param_comms", 10, 20, **message("0")),
        call("cudaLaunchKernelExC", 12, 5, 3),
        kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 50, 100, 3),
    ]

    rows = list(read(trace(events)).rows)

    assert [(row.place, row.output_bytes) for row in rows] == [
        (Place.HOST, 2000),
        (Place.ACCELERATOR, 2000),
    ]
    assert {row.name for row in rows} == {"record_param_comms"}


def test_a_collective_is_called_the_same_in_all_ranks():
    """By its group, what it does and its number there, which a kernel has from its op."""
    events = [
        op("record_param_comms", 10, 20, **message("7", Seq=3)),
        call("cudaLaunchKernelExC", 12, 5, 3),
        kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 50, 100, 3),
        op("aten::add", 40, 5),
    ]

    rows = list(read(trace(events)).rows)

    assert [(row.place, row.collective) for row in rows] == [
        (Place.HOST, "7 allreduce 3"),
        (Place.HOST, ""),
        (Place.ACCELERATOR, "7 allreduce 3"),
    ]


def test_newer_kernels_say_themselves_which_collective_they_are():
    """Where nothing says which op launched them, as in a CUDA graph."""
    event = kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 50, 100, 3)
    event["args"] |= message("0", Seq=9)

    (row,) = read(trace([event])).rows

    assert row.collective == "0 allreduce 9"


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"Seq": -1},
        {"Seq": True},
        {"Seq": [3]},
        {"Seq": 3, "Process Group Name": 5},
        {"Seq": 3, "Collective name": ["allreduce"]},
        # each pair of ranks counts for itself
        {"Seq": 3, "Collective name": "send"},
        {"Seq": 3, "Collective name": "recvAnySource"},
    ],
)
def test_what_has_no_number_in_its_group_is_called_nothing(facts):
    """Older releases write none, and damaged traces anything."""
    (row,) = read(trace([op("record_param_comms", 0, 9, **message("0") | facts)])).rows

    assert row.collective == ""


def test_collectives_of_several_groups_are_told_apart():
    """The names are the same in all ranks, whichever groups they are in."""
    events = [
        op("record_param_comms", at, 20, **message(name)) for at, name in ((9, "7"), (40, "2"))
    ]

    names = [row.name for row in read(trace(events)).rows]

    assert names == ["record_param_comms of group 7", "record_param_comms of group 2"]


def test_collectives_of_several_sizes_are_told_apart():
    """The buckets of DistributedDataParallel, which threads of gloo may run in any order."""
    events = [
        shaped(annotation("gloo:all_reduce", at, 9), [count]) for at, count in ((0, 10), (20, 500))
    ]

    names = [row.name for row in read(trace(events)).rows]

    assert names == ["gloo:all_reduce of 40 B", "gloo:all_reduce of 2,000 B"]


@pytest.mark.parametrize(
    ("shapes", "types", "expected"),
    [
        ([[136714]], ["float"], 546_856),
        ([[2, 3], [4]], ["double", "c10::Half"], 56),
        ([[2, "x"]], ["float"], 0),
        ([[5]], ["unknown"], 0),
    ],
)
def test_gloo_moves_its_arguments(shapes, types, expected):
    """It runs on a thread of its own."""
    event = shaped(annotation("gloo:all_reduce", 0, 9), *shapes, **{"Input type": types})

    (row,) = read(trace([event])).rows

    assert row.output_bytes == expected


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (
            {"distributedInfo": {"rank": 3, "world_size": 8}, "host_name": "n1"},
            TraceOrigin(3, 8, "n1"),
        ),
        ({"distributedInfo": {"rank": "x", "world_size": -1}, "host_name": 7}, TraceOrigin()),
        ({"distributedInfo": []}, TraceOrigin()),
        ({}, TraceOrigin()),
    ],
)
def test_a_trace_says_of_which_rank_it_is(head, expected):
    """And of which host."""
    assert read(trace([op("aten::add", 0, 9)], **head)).origin == expected


def test_a_piece_of_memory_is_of_the_op_that_wanted_it():
    """Ops that only allocate are called by it."""
    events = [
        op("aten::convolution", 0, 100),
        op("aten::empty", 10, 10),
        memory(15, 4096, 512, 512),
        memory(200, 4096, -512, 0),
        memory(300, 8192, 64, 64, device=1),
    ]

    found = read(trace(events)).allocations

    names = [found.strings[at] for at in found.op.tolist()]
    assert names == ["aten::convolution", "", ""]
    assert found.bytes.tolist() == [512, -512, 64]
    # On a CPU PyTorch counts only what was allocated while a profiler ran.
    assert found.in_use_bytes.tolist() == [-1, -1, 64]
    assert found.free_bytes.tolist() == [-1, -1, 64]
    assert [found.strings[at] for at in found.allocator.tolist()] == ["cpu", "cpu", "cuda:1"]
