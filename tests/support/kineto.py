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


def frame(name: str, start_us: float, duration_us: float, *, tid: int = PID) -> dict[str, Any]:
    """Return a function of Python, "train.py(7): step", or a module, "nn.Module: Net_0"."""
    return _box("python_function", name, start_us, duration_us, PID, tid, {})


def annotation(name: str, start_us: float, duration_us: float, **more: Any) -> dict[str, Any]:
    """Return an annotation, such as "Optimizer.step#Adam.step"."""
    return _box("user_annotation", name, start_us, duration_us, PID, PID, more)


def on_thread(event: dict[str, Any], tid: int) -> dict[str, Any]:
    """Return an event on another thread."""
    return {**event, "tid": tid}


def memory(
    at_us: float, address: int, size: int, allocated: int, *, device: int = -1
) -> dict[str, Any]:
    """Return a piece that is allocated, or freed if its size is below 0; -1 is the CPU."""
    told = {
        "Addr": address,
        "Bytes": size,
        "Total Allocated": allocated,
        "Total Reserved": 0 if device < 0 else 2 * allocated,
        "Device Type": int(device >= 0),
        "Device Id": device,
    }
    event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "s": "t"}
    return {**event, "pid": PID, "tid": PID, "ts": at_us, "args": told}


def link(number: int, start_us: float, end_us: float, *, to_tid: int = PID) -> list[dict[str, Any]]:
    """Return both ends of the link from an op to the one that differentiates it."""
    flow = {"cat": "fwdbwd", "name": "fwdbwd", "id": number, "pid": PID}
    return [
        {**flow, "ph": "s", "tid": PID, "ts": start_us},
        {**flow, "ph": "f", "tid": to_tid, "ts": end_us, "bp": "e"},
    ]


def shaped(event: dict[str, Any], *shapes: Sequence[Any], **more: Any) -> dict[str, Any]:
    """Return an op with the shapes of its arguments."""
    told = {"Input Dims": list(shapes), "Input type": ["float"] * len(shapes), **more}
    return {**event, "args": {**event["args"], **told}}


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


def called_from(*calls: tuple[float, str, int]) -> dict[str, Any]:
    """Return what the agent adds to a trace: start in us, file and line of each call."""
    files = list(dict.fromkeys(file for _, file, _ in calls))
    columns = {
        "files": files,
        "start_ns": [round(start_us * 1000) for start_us, _, _ in calls],
        "file": [files.index(file) for _, file, _ in calls],
        "line": [line for _, _, line in calls],
    }
    return {"tfprobe_calls": columns}


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
