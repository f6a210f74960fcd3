"""What moved, against the raw recordings of real GPUs, added up by hand."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import golden
from tfprobe.analysis.core.copies import CopyMemory, CopyWaits, Move
from tfprobe.analysis.core.source_lines import Origins
from tfprobe.analysis.distributed.collectives import Collectives, collectives
from tfprobe.analysis.memory.memory_peak import Role
from tfprobe.analysis.memory.memory_summary import memories
from tfprobe.analysis.transfers.bus_transfers import Transfers, transfers
from tfprobe.formats.schema import message_class
from tfprobe.profile.reader.file import whole_file

KINETO = (
    "critical_path__alexnet__benchmark_result_2869224_1695835535_trace.json.gz",
    "critical_path__simple_add__benchmark_result_493459_1694039959_trace.json.gz",
    "timeline_analysis__sampled_rank-0.json.gz",
)
WORDS = {"HtoD": Move.HOST_TO_DEVICE, "DtoH": Move.DEVICE_TO_HOST, "DtoD": Move.DEVICE_TO_DEVICE}


def moved(path: Path) -> Transfers:
    profile, sampled = whole_file(path)
    found = transfers(profile, Origins([sampled]))
    assert isinstance(found, Transfers), found
    return found


def boxes(path: Path) -> list[dict[str, Any]]:  # Any: boxes of a timeline in JSON
    content = path.read_bytes()
    text = gzip.decompress(content) if path.name.endswith(".gz") else content
    return [each for each in json.loads(text)["traceEvents"] if each.get("ph") == "X"]


def move_of(box: dict[str, Any]) -> Move:
    found = next((move for word, move in WORDS.items() if word in box["name"]), None)
    return Move.MEMSET if found is None else found


def covered_us(boxes: list[dict[str, Any]], by: Callable[[float], bool]) -> int:
    """Count by hand the µs of these boxes in which a condition holds; times are whole µs."""
    inside: set[int] = set()
    for box in boxes:
        inside.update(range(int(box["ts"]), int(box["ts"] + box["dur"])))
    return sum(by(at) for at in inside)


@pytest.mark.parametrize("name", KINETO)
def test_bytes_and_counts_are_those_of_the_trace(name: str) -> None:
    """By direction, and pageable as its name says."""
    path = golden("hta", name)
    count: dict[Move, int] = defaultdict(int)
    size: dict[Move, int] = defaultdict(int)
    pageable: dict[Move, int] = defaultdict(int)
    for box in boxes(path):
        if box.get("cat") in ("gpu_memcpy", "gpu_memset"):
            count[move_of(box)] += 1
            size[move_of(box)] += box["args"]["bytes"]
            pageable[move_of(box)] += "Pageable" in box["name"]

    found = moved(path)

    assert {each.move: each.amount.count for each in found.flows} == count
    assert {each.move: each.amount.bytes for each in found.flows} == size
    for flow in found.flows:
        amounts = dict(flow.by_memory)
        told = amounts[CopyMemory.PAGEABLE].count if CopyMemory.PAGEABLE in amounts else 0
        assert told == pageable[flow.move]


def test_what_kernels_hide_is_as_counted_by_hand() -> None:
    """µs by µs, over all copies of a trace with collectives beside computation."""
    path = golden("hta", KINETO[2])
    every = boxes(path)
    kernels = [
        each for each in every if each.get("cat") == "kernel" and "nccl" not in each["name"].lower()
    ]
    copies = [each for each in every if each.get("cat") == "gpu_memcpy"]
    busy: set[int] = set()
    for kernel in kernels:
        busy.update(range(int(kernel["ts"]), int(kernel["ts"] + kernel["dur"])))

    found = moved(path).copying

    assert found.busy_ns // 1000 == covered_us(copies, lambda _: True)
    assert found.hidden_ns // 1000 == covered_us(copies, busy.__contains__)


def test_collectives_of_a_real_job_are_all_of_nccls_kernels() -> None:
    """Their time is that of the kernels."""
    path = golden("hta", KINETO[2])
    kernels = [
        each
        for each in boxes(path)
        if each.get("cat") == "kernel" and "nccl" in each["name"].lower()
    ]
    profile, sampled = whole_file(path)

    found = collectives(profile, Origins([sampled]))

    assert isinstance(found, Collectives)
    assert sum(each.count for each in found.kinds) == len(kernels)
    assert sum(each.time_ns for each in found.kinds) == sum(each["dur"] for each in kernels) * 1000


@pytest.mark.parametrize(
    "name",
    ["timeline_01.json", "timeline_02_step_0.json", "timeline_02_step_2.json"],
)
def test_timelines_of_tensorflow_1_tell_directions_without_sizes(name: str) -> None:
    """The row of copies has all of them, and no byte."""
    path = golden("ikhlestov_timelines", "GPU", name)
    document = json.loads(path.read_text())["traceEvents"]
    rows = {
        each["pid"]
        for each in document
        if each["ph"] == "M" and each["args"]["name"] == "/gpu:0/memcpy Compute"
    }
    copies = [each for each in document if each.get("pid") in rows and each["ph"] == "X"]

    found = moved(path)

    for move, word in ((Move.HOST_TO_DEVICE, "HtoD"), (Move.DEVICE_TO_HOST, "DtoH")):
        mine = [each for each in copies if word in each["name"]]
        flows = [each for each in found.flows if each.move is move]
        assert sum(each.amount.count for each in flows) == len(mine)
        assert sum(each.amount.time_ns for each in flows) == sum(e["dur"] for e in mine) * 1000
        assert all(each.amount.sized == 0 for each in flows)


def test_the_copies_of_a_real_step_are_told_with_size_op_and_call() -> None:
    """112 bytes for a convolution, whose call waited; 384 back, whose call did not."""
    found = moved(golden("tfprof_testdata", "run_meta"))

    assert [(each.move, each.amount.bytes, each.by_waits) for each in found.flows] == [
        (Move.HOST_TO_DEVICE, 112, ((CopyWaits.SYNCHRONOUS, 1),)),
        (Move.DEVICE_TO_HOST, 384, ((CopyWaits.ASYNCHRONOUS, 1),)),
    ]
    assert {(each.label, each.move) for each in found.causes} == {
        ("Conv2D", Move.HOST_TO_DEVICE),
        ("Conv2D_1", Move.DEVICE_TO_HOST),
    }


def test_the_memory_of_a_real_gpu_step_is_what_its_nodes_say() -> None:
    """Conv2D held 5888 bytes at most, beside 6656 that were in use before it, and kept 768."""
    path = golden("tfprof_testdata", "run_meta")
    metadata = message_class("tfprobe.step_stats.RunMetadata")()
    metadata.ParseFromString(path.read_bytes())
    nodes = {
        node.node_name: node.memory[0]
        for node in metadata.step_stats.dev_stats[0].node_stats
        if node.memory
    }
    before = nodes["_SOURCE"].allocator_bytes_in_use
    profile, sampled = whole_file(path)

    found = memories(profile, [sampled], Origins([sampled]))

    assert isinstance(found, tuple)
    [gpu] = [each for each in found if each.allocator == "GPU_0_bfc"]
    convolution = nodes["Conv2D"]
    assert gpu.peak.bytes == before + convolution.peak_bytes
    assert dict(gpu.peak.by_role) == {
        Role.ALLOCATED_BEFORE: before,
        Role.ACTIVATIONS: convolution.live_bytes,
        Role.TEMPORARY: convolution.peak_bytes - convolution.live_bytes,
    }
