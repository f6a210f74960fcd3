"""`tfprobe ranks` compares the ranks of a job by the traces that each of them wrote."""

from __future__ import annotations

import json

import pytest

from tests.support.golden import golden
from tests.support.kineto import (
    annotation,
    call,
    frame,
    kernel,
    on_thread,
    op,
    shaped,
    step,
    trace,
)
from tfprobe.cli.main import main

STEPS, LENGTH_US = 8, 1000.0


def rank_trace(rank: int, *, late_us: float = 0.0, world: int = 2, **head) -> bytes:
    """Return a trace whose rank computes for some time before each all-reduce."""
    events = []
    for number in range(STEPS):
        start = 10_000 + number * LENGTH_US
        computed = 200 + late_us
        reduced = on_thread(annotation("gloo:all_reduce", start + computed, 800 - computed), 9)
        events += [
            step(number, start, LENGTH_US),
            frame("nn.Module: Net_0", start, computed),
            op("aten::addmm", start, computed),
            shaped(reduced, [1000]),
        ]
    info = {"backend": "gloo", "rank": rank, "world_size": world}
    return trace(events, distributedInfo=info, host_name="node1", **head)


def nccl_trace(rank: int, *, late_us: float = 0.0) -> bytes:
    """Return the same with a kernel of NCCL, in the form that libkineto writes (none recorded)."""
    told = {"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Float"}
    events = []
    for number in range(STEPS):
        start, launch = 10_000 + number * LENGTH_US, 2 * number + 1
        computed = 200 + late_us
        events += [
            step(number, start, LENGTH_US),
            op("aten::addmm", start, 50),
            call("cudaLaunchKernel", start + 10, 5, launch),
            kernel("ampere_sgemm_128x64_tn", start + 20, computed, launch),
            op("record_param_comms", start + 100, 20, **told),
            call("cudaLaunchKernelExC", start + 110, 5, launch + 1),
            kernel(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                start + computed + 50,
                800 - computed,
                launch + 1,
            ),
        ]
    info = {"backend": "nccl", "rank": rank, "world_size": 2}
    return trace(events, distributedInfo=info, host_name="node1")


def numbered_trace(rank: int, *, late_us: float = 0.0, has_first: bool = True) -> bytes:
    """Return one with two kernels of NCCL in each step, which PyTorch has numbered."""
    told = {"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Float"}
    told["Process Group Name"] = "0"
    events = []
    for number in range(STEPS):
        start, first = 10_000 + number * LENGTH_US, 2 * number + 1
        events.append(step(number, start, LENGTH_US))
        for turn, (begin, length) in enumerate(((10, 20), (300 + late_us, 500 - late_us))):
            if turn or has_first:
                launch = first + turn
                events += [
                    op("record_param_comms", start + 2 + 3 * turn, 2, Seq=launch, **told),
                    call("cudaLaunchKernelExC", start + 2.5 + 3 * turn, 1, launch),
                    kernel("ncclDevKernel_AllReduce_Sum_f32", start + begin, length, launch),
                ]
    info = {"backend": "nccl", "rank": rank, "world_size": 2}
    return trace(events, distributedInfo=info, host_name="node1")


@pytest.fixture
def directory(tmp_path):
    """A directory in which rank 1 of 2 is slow."""
    (tmp_path / "a.json").write_bytes(rank_trace(1, late_us=300))
    (tmp_path / "b.pt.trace.json").write_bytes(rank_trace(0))
    (tmp_path / "notes.json").write_text("{}")
    return tmp_path


def document(capsys, *words):
    assert main(["ranks", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_slow_rank_is_named(directory, capsys):
    """It comes last to each all-reduce, in which the other waits for it."""
    found = document(capsys, directory)

    assert [each["rank"] for each in found["ranks"]] == [0, 1]
    assert [each["process"] for each in found["stragglers"]] == [1]
    (pair,) = found["waits"]["pairs"]
    assert (pair["count"], pair["waiting_us"]) == (STEPS, STEPS * 300.0)


def test_kernels_of_nccl_show_who_is_waited_for(tmp_path, capsys):
    """A kernel runs until the last rank has come."""
    (tmp_path / "0.json").write_bytes(nccl_trace(0))
    (tmp_path / "1.json").write_bytes(nccl_trace(1, late_us=300))

    found = document(capsys, tmp_path)

    assert [each["process"] for each in found["stragglers"]] == [1]
    (pair,) = found["waits"]["pairs"]
    assert (pair["count"], pair["waiting_us"]) == (STEPS, STEPS * 300.0)


def test_a_collective_that_one_rank_missed_shifts_no_other(tmp_path, capsys):
    """PyTorch's numbers say which are the same; by their order rank 0 would not wait for rank 1."""
    (tmp_path / "0.json").write_bytes(numbered_trace(0))
    (tmp_path / "1.json").write_bytes(numbered_trace(1, late_us=200, has_first=False))

    (pair,) = document(capsys, tmp_path)["waits"]["pairs"]

    assert (pair["count"], pair["waiting_us"]) == (STEPS, STEPS * 200.0)


def test_the_files_may_be_named_themselves(directory, capsys):
    """In any order."""
    files = sorted(directory.glob("*.json"), reverse=True)[1:]

    assert document(capsys, *files)["ranks"] == document(capsys, directory)["ranks"]


def test_equal_ranks_are_not_slow(tmp_path, capsys):
    """Nobody waits."""
    for rank in range(3):
        (tmp_path / f"{rank}.json").write_bytes(rank_trace(rank, world=3))

    found = document(capsys, tmp_path)

    assert found["stragglers"] == []


def test_an_absent_rank_is_a_fact(tmp_path, capsys):
    """The traces say how many there are."""
    (tmp_path / "0.json").write_bytes(rank_trace(0, world=3))
    (tmp_path / "2.json").write_bytes(rank_trace(2, world=3))

    assert main(["ranks", str(tmp_path)]) == 0
    assert "Of 3 ranks 1 is not among these files: 1." in " ".join(capsys.readouterr().out.split())


def test_a_damaged_file_is_named_beside_the_others(directory, capsys):
    """As a capture of a run is."""
    (directory / "c.json.gz").write_bytes(b"\x1f\x8bxxxx")

    assert main(["ranks", str(directory)]) == 0
    assert "c.json.gz" in capsys.readouterr().out


def test_a_directory_without_traces_is_no_run(tmp_path, capsys):
    """The message is that of any directory."""
    (tmp_path / "notes.json").write_text("{}")

    assert main(["ranks", str(tmp_path)]) != 0
    assert "neither a run directory" in capsys.readouterr().err


def test_two_recorded_ranks_meet_in_their_collectives(capsys):
    """Recorded under torchrun, on one machine."""
    files = [golden("frameworks", f"torch_ddp_gloo_rank{rank}.json.gz") for rank in (0, 1)]

    found = document(capsys, *files)

    assert [each["rank"] for each in found["ranks"]] == [0, 1]
    assert found["waits"]["steps"] == 2
