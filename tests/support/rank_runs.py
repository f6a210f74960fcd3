"""Write runs of many ranks, as jobs on clusters leave them: steps, samples, machines."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.captures import TraceEvent
from tests.support.gpu_traces import allocation, call, copy, gpu_trace, kernel, memset
from tests.support.rundir import (
    LAYOUT,
    MONO_NS,
    UNIX_NS,
    WrittenLoop,
    WrittenProcess,
    write_process,
    write_run,
)

MS = 1_000_000
STEP_NS, GAP_NS = 40 * MS, 4 * MS
RANKS_PER_HOST = 8
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def write_ranks(
    root: Path, ranks: int, steps: int, *, sampled: int = 0, resource_samples: int = 60
) -> Path:
    """Write a run in which the last rank is slow in the second half, and every other takes turns.

    With `sampled` the first ranks have that many traces of a GPU each.
    """
    write_run(root)
    for rank in range(ranks):
        _write_rank(root, rank, ranks, steps, sampled if rank < 2 else 0, resource_samples)
    hosts = {f"node{rank // RANKS_PER_HOST}" for rank in range(ranks)}
    (root / "machine").mkdir()
    for host in sorted(hosts):
        lines = "".join(f"{json.dumps(each)}\n" for each in _machine(resource_samples, steps, host))
        (root / "machine" / f"{host}.jsonl").write_text(lines)
    return root


def _write_rank(
    root: Path, rank: int, ranks: int, steps: int, sampled: int, resource_samples: int
) -> None:
    taken = range(10, 10 + sampled)
    names = [f"{step:06}-fit-0.xplane.pb" for step in taken]
    times = _steps(rank, ranks, steps)
    process = WrittenProcess(
        pid=4000 + rank,
        host=f"node{rank // RANKS_PER_HOST}",
        loops=[WrittenLoop("fit", "resnet", steps=times, sampled=tuple(taken))],
        header={LAYOUT.ACTIVE_WORD: times[-1][1]},
        manifest={
            "rank": {"source": "TF_CONFIG", "index": rank, "world": ranks, "role": "worker"},
            "devices": ["/device:CPU:0", "/device:GPU:0"],
        },
        events=[_sample(step, name, times) for step, name in zip(taken, names, strict=True)],
        captures={
            name: gpu_step(late_us=300 if rank == 0 else 0, start_ns=_unix_ns(times[step][0]))
            for step, name in zip(taken, names, strict=True)
        },
    )
    folder = write_process(root, process)
    whole_ns = times[-1][1] - MONO_NS
    _write_lines(
        folder / "pulses.jsonl", _resource_samples(rank, resource_samples, whole_ns, steps)
    )
    _write_lines(folder / "activities.jsonl", _activities(times))


def _steps(rank: int, ranks: int, steps: int) -> Sequence[tuple[int, int]]:
    turn = random.Random(rank)
    at_ns, found = MONO_NS + 6_000 * MS, []
    for step in range(steps):
        own_ns = round(STEP_NS * turn.gauss(1, 0.02))
        if rank == ranks - 1 and step > steps // 2:
            own_ns = round(own_ns * 1.3)
        if turn.random() < 0.002:
            own_ns *= 3
        found.append((at_ns, at_ns + max(own_ns, MS)))
        # All wait for the slowest, as ranks that step together do.
        at_ns += round(1.35 * STEP_NS) + GAP_NS
    return found


def _unix_ns(mono_ns: int) -> int:
    return mono_ns - MONO_NS + UNIX_NS


def _sample(step: int, name: str, times: Sequence[tuple[int, int]]) -> dict[str, Any]:
    start_ns, _ = times[step]
    return {
        "event": "sample",
        "work": 0,
        "step": step,
        "capture": name,
        "level": "window",
        "why": "budget",
        "start_ns": start_ns,
        "end_ns": start_ns + MS,
        "start_unix_ns": _unix_ns(start_ns),
        "plain_ns": STEP_NS,
    }


def gpu_step(*, late_us: int = 0, start_ns: int = 0) -> bytes:
    """Return a step of 1 ms on a GPU with an all-reduce, which ends at the same moment on all ranks
    and begins so much later on one that is late.
    """
    reduce_us = 500 + late_us
    streams = {
        "Stream #13(Compute,Memset)": [
            memset(150, 2, correlation=2, size=512),
            kernel("ampere_sgemm_128x64_nn", 160, 250, correlation=3, op="m/dense/MatMul:MatMul"),
            kernel("ampere_fp16_s16816gemm_nt", 420, 60, correlation=4, op="g/MatMul_1:MatMul"),
        ],
        "Stream #14(MemcpyH2D)": [
            copy("H2D", 100, 90, correlation=1, size=1 << 20, op="m/Cast:Cast"),
            copy("H2D", 200, 10, correlation=7, size=4096, source="pinned", op="m/x:Identity"),
        ],
        "Stream #15(MemcpyD2H)": [copy("D2H", 930, 5, correlation=5, size=4, target="pinned")],
        "Stream #16(Compute)": [
            kernel(
                REDUCE,
                reduce_us,
                900 - reduce_us,
                correlation=8,
                op="CollectiveReduceV2:CollectiveReduceV2",
            )
        ],
    }
    copied = "kind_src:pageable kind_dst:device size:1048576 dest:0 async:1"
    base = 64 << 20
    facts = {"buffered_elements": "1", "buffer_limit": "2"}
    threads = {
        "tf_data_iterator_get_next/3": [
            TraceEvent("Iterator::Root", 0, 75),
            TraceEvent("Iterator::Root::Prefetch", 1, 73, facts),
        ],
        "tf_data/4": [
            TraceEvent("Iterator::Root::Prefetch::ParallelMapV2", 2, 70, {"parallelism": "2"}),
            TraceEvent("Iterator::Root::Prefetch::ParallelMapV2::TFRecord", 3, 6),
        ],
        "python": [
            TraceEvent("train_step", 0, 990, {"tf_function_call": "notTraced-nonXla"}),
            call("cuStreamSynchronize", 840, 140, correlation=6),
        ],
        "tf_Compute/7": [
            TraceEvent("IteratorGetNext:IteratorGetNext", 0, 76),
            TraceEvent("m/Cast:Cast", 80, 20),
            call("cuMemcpyHtoDAsync_v2", 85, 10, correlation=1, details=copied),
            TraceEvent("m/dense/MatMul:MatMul", 130, 25),
            *_allocations(base),
            call("cuLaunchKernel", 140, 8, correlation=3),
            TraceEvent("g/MatMul_1:MatMul", 310, 15),
            call("cuLaunchKernel", 312, 6, correlation=4),
            TraceEvent("CollectiveReduceV2:CollectiveReduceV2", 330, 15),
            call("cuLaunchKernel", 332, 6, correlation=8),
            call("cuMemcpyDtoHAsync_v2", 350, 6, correlation=5),
        ],
    }
    return gpu_trace(streams, threads, start_ns=start_ns)


def _allocations(base: int) -> list[TraceEvent]:
    found, in_use = [], base
    for number in range(12):
        size = (12 - number) << 20
        in_use += size
        found.append(
            allocation(
                132 + number * 20,
                size,
                in_use=in_use,
                peak=base + (90 << 20),
                address=0x7F00_0000_0000 + number * (1 << 28),
                op=f"m/dense_{number % 4}/MatMul"
                if number % 3
                else f"gradient_tape/m/d_{number}/Mul",
                shape=f"[{size // 4096},1024]",
            )
        )
    for number in range(12):
        size = (12 - number) << 20
        in_use -= size
        found.append(
            allocation(
                400 + number * 30,
                size,
                in_use=in_use,
                peak=base + (90 << 20),
                address=0x7F00_0000_0000 + number * (1 << 28),
                freed=True,
            )
        )
    return found


def _resource_samples(rank: int, count: int, whole_ns: int, steps: int) -> list[dict[str, Any]]:
    busy = 4 + rank % 3
    return [
        {
            "mono_ns": MONO_NS + at * whole_ns // max(count - 1, 1),
            "steps": at * steps // max(count - 1, 1),
            "user_ns": busy * at * whole_ns // max(count - 1, 1),
            "system_ns": at * whole_ns // max(count - 1, 1) // 4,
            "resident_bytes": (3 << 30) + rank * (50 << 20) + at * (2 << 20 if rank == 3 else 0),
            "peak_resident_bytes": (4 << 30) + rank * (50 << 20),
            "threads": 180,
            "voluntary_switches": at * 1000,
            "involuntary_switches": at * 50,
            "read_bytes": at << 24,
            "written_bytes": at << 16,
            "cpus": 96,
            "cpu_limit": 12.0,
            "throttled_ns": at * whole_ns // max(count - 1, 1) // 50 if rank == 1 else 0,
            "memory_limit_bytes": 64 << 30,
            "machine_memory_bytes": 768 << 30,
            "load_1min": 30.0,
        }
        for at in range(count)
    ]


def _activities(times: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    first_ns, last_ns = times[0][0], times[-1][1]
    middle_ns = (first_ns + last_ns) // 2
    told = [
        ("import", "tensorflow", MONO_NS, MONO_NS + 3_000 * MS),
        ("build", "resnet", MONO_NS + 3_200 * MS, MONO_NS + 4_000 * MS),
        ("compile", "resnet", MONO_NS + 4_000 * MS, MONO_NS + 4_100 * MS),
        ("train", "resnet", MONO_NS + 4_200 * MS, last_ns),
        ("trace", "train_step", MONO_NS + 4_400 * MS, MONO_NS + 5_900 * MS),
        ("save", "Checkpoint", middle_ns, middle_ns + (last_ns - first_ns) // 40),
    ]
    return [
        {
            "activity": kind,
            "name": name,
            "thread": "MainThread",
            "start_ns": start_ns,
            "end_ns": end_ns,
            "count": 1,
            "total_ns": end_ns - start_ns,
        }
        for kind, name, start_ns, end_ns in told
    ]


def _machine(count: int, steps: int, host: str) -> list[dict[str, Any]]:
    whole_ns = steps * round(1.35 * STEP_NS + GAP_NS) + 6_000 * MS
    turn = random.Random(host)
    return [
        {
            "unix_ns": UNIX_NS + at * whole_ns // max(count - 1, 1),
            "devices": [_device(index, turn) for index in range(RANKS_PER_HOST)],
        }
        for at in range(count)
    ]


def _device(index: int, turn: random.Random) -> dict[str, Any]:
    return {
        "index": index,
        "name": "NVIDIA H200",
        "utilization_ratio": round(turn.uniform(0.6, 0.95), 3),
        "memory_used_bytes": (90 + index) << 30,
        "memory_total_bytes": 140 << 30,
        "power_watts": round(turn.uniform(500, 690), 1),
        "power_limit_watts": 700.0,
        "sm_clock_hz": 1_700_000_000,
        "max_sm_clock_hz": 1_980_000_000,
        "temperature_celsius": 60 + index,
        "pcie_sent_bytes_per_s": 2_000_000_000,
        "pcie_received_bytes_per_s": 900_000_000,
        "throttle_reasons": ["sw_power_cap"] if index == 5 else [],
    }


def _write_lines(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
