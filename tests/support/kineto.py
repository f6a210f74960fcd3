"""Write traces of PyTorch's profiler, as Kineto does (libkineto/src/output_json.cpp)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

PID = 77


def op(name: str, start_us: float, duration_us: float, **more: Any) -> dict[str, Any]:
    """Return an op of the host."""
    return _box("cpu_op", name, start_us, duration_us, PID, PID, {"External id": 1, **more})


def call(
    name: str, start_us: float, duration_us: float, correlation: int, **more: Any
) -> dict[str, Any]:
    """Return a call of the CUDA runtime."""
    told = {"cbid": 211, "correlation": correlation, **more}
    return _box("cuda_runtime", name, start_us, duration_us, PID, PID, told)


def kernel(
    name: str, start_us: float, duration_us: float, correlation: int, *, device: int = 0
) -> dict[str, Any]:
    """Return a kernel on stream 7."""
    told = {"device": device, "stream": 7, "correlation": correlation, "grid": [1, 1, 1]}
    return _box("kernel", name, start_us, duration_us, device, 7, told)


def copy(
    name: str, start_us: float, duration_us: float, correlation: int, **more: Any
) -> dict[str, Any]:
    """Return a copy on stream 7: "Memcpy HtoD (Pageable -> Device)"."""
    told = {"device": 0, "stream": 7, "correlation": correlation, **more}
    return _box("gpu_memcpy", name, start_us, duration_us, 0, 7, told)


def memset(start_us: float, duration_us: float, correlation: int, size: int) -> dict[str, Any]:
    """Return a memset on stream 7."""
    told = {"device": 0, "stream": 7, "correlation": correlation, "bytes": size}
    return _box("gpu_memset", "Memset (Device)", start_us, duration_us, 0, 7, told)


def step(number: int, start_us: float, duration_us: float) -> dict[str, Any]:
    """Return the mark of a step."""
    name = f"ProfilerStep#{number}"
    return _box("user_annotation", name, start_us, duration_us, PID, PID, {})


def trace(events: Sequence[dict[str, Any]], **head: Any) -> bytes:
    """Return a trace of events."""
    names = [
        _named("thread_name", PID, PID, f"thread {PID} (python3)"),
        _named("thread_name", 0, 7, "stream 7 "),
        _named("process_name", PID, 0, "python3"),
    ]
    document = {"schemaVersion": 1, **head, "traceEvents": [*names, *events]}
    return json.dumps(document).encode()


def training() -> bytes:
    """Return two steps; the kernel of the second begins when no step is marked any more."""
    return trace(
        [
            step(4, 0, 100),
            op("aten::linear", 10, 40),
            op("aten::addmm", 12, 30),
            call("cudaMemcpyAsync", 2, 5, 1),
            copy("Memcpy HtoD (Pageable -> Device)", 6, 20, 1, bytes=4096),
            call("cudaLaunchKernel", 20, 5, 2),
            kernel("ampere_sgemm_32x32", 30, 50, 2),
            step(5, 100, 50),
            op("aten::relu_", 110, 20),
            call("cudaLaunchKernel", 115, 5, 3),
            kernel("elementwise_kernel", 160, 30, 3),
            op("aten::ones", 300, 5),
        ]
    )


def _box(
    category: str,
    name: str,
    start_us: float,
    duration_us: float,
    pid: int,
    tid: int,
    told: dict[str, Any],
) -> dict[str, Any]:
    box = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid}
    return {**box, "ts": start_us, "dur": duration_us, "args": told}


def _named(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}
