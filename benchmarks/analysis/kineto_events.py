"""Write a trace of PyTorch's profiler as large as wanted: ops, stacks, memory, kernels, steps.

The model is made up: layers with a product each, on a GPU, in the form that libkineto writes
(libkineto/src/output_json.cpp): indented, with shapes, types and strides of all arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PID, STREAM, LAYERS = 4711, 7, 24
LAYER_US, KERNEL_US = 60.0, 40.0
BASE_NS = 1_795_000_000_000_000_000


def write(path: Path, size_bytes: int) -> None:
    """Write a trace of about this size."""
    head = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "made up", "numSms": 108}],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},
        "record_shapes": 1,
        "with_stack": 1,
        "baseTimeNanoseconds": BASE_NS,
    }
    text = json.dumps(head, indent=2).removesuffix("\n}")
    with path.open("w") as file:
        file.write(f'{text},\n  "traceEvents": [\n')
        written = number = 0
        separator = "  "
        for event in _names():
            file.write(separator + _indented(event))
            separator = ",\n  "
        while written < size_bytes:
            for event in _step(number):
                written += file.write(separator + _indented(event))
            number += 1
        file.write('\n  ],\n  "traceName": "made_up.json"\n}\n')


def _indented(event: dict[str, Any]) -> str:
    return json.dumps(event, indent=2).replace("\n", "\n  ")


def _names() -> Iterator[dict[str, Any]]:
    for pid, tid, name in ((PID, PID, "thread 4711 (python)"), (0, STREAM, "stream 7 ")):
        args = {"name": name}
        yield {"ph": "M", "name": "thread_name", "ts": 0, "pid": pid, "tid": tid, "args": args}


def _step(number: int) -> Iterator[dict[str, Any]]:
    """Yield the events of a training step: forward, backward and update of each layer."""
    ids = iter(range(number * 100_000 + 1, (number + 1) * 100_000))
    length_us = 2.5 * LAYERS * LAYER_US
    start_us = 100.0 + number * length_us
    yield _box("user_annotation", f"ProfilerStep#{number}", start_us, length_us, {})
    yield _box("python_function", "train.py(20): step", start_us, length_us, {"Python id": 1})
    yield _box("python_function", "nn.Module: Net_0", start_us, LAYERS * LAYER_US, {"Python id": 2})
    for layer in range(LAYERS):
        at_us = start_us + layer * LAYER_US
        for name in (f"nn.Module: Linear_{layer}", "torch/nn/modules/linear.py(130): forward"):
            yield _box("python_function", name, at_us, LAYER_US - 1, {"Python id": 3})
        sequence = {"Sequence number": layer + 1, "Fwd thread id": 0}
        yield from _product("aten::linear", "aten::addmm", at_us + 2, next(ids), sequence)
    middle_us = start_us + LAYERS * LAYER_US
    for layer in reversed(range(LAYERS)):
        at_us = middle_us + (LAYERS - layer - 1) * LAYER_US
        sequence = {"Sequence number": layer + 1, "Fwd thread id": 1}
        name = "autograd::engine::evaluate_function: AddmmBackward0"
        yield from _product(name, "aten::mm", at_us, next(ids), sequence)
    at_us = middle_us + LAYERS * LAYER_US
    yield _box("user_annotation", "Optimizer.step#Adam.step", at_us, 300.0, {})
    yield from _product("aten::_fused_adam_", "aten::empty", at_us + 10, next(ids), {})


def _product(
    outer: str, inner: str, at_us: float, number: int, more: dict[str, int]
) -> Iterator[dict[str, Any]]:
    """Yield an op that calls another, which allocates its result and launches a kernel."""
    shapes = {
        "Concrete Inputs": ["", "", "", "1", "1"],
        "Input type": ["float", "float", "float", "Scalar", "Scalar"],
        "Input Strides": [[1], [1024, 1], [1, 1024], [], []],
        "Input Dims": [[1024], [512, 1024], [1024, 1024], [], []],
    }
    told = {"External id": number, "Record function id": 0, **more, **shapes, "Ev Idx": number}
    yield _box("cpu_op", outer, at_us, 40.0, told)
    yield _box("cpu_op", inner, at_us + 3, 34.0, told)
    pieces = {"Total Reserved": 2**30, "Total Allocated": 2**20, "Bytes": 2**20, "Device Id": 0}
    yield {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "name": "[memory]",
        "pid": PID,
        "tid": PID,
        "ts": at_us + 4,
        "args": {**pieces, "Device Type": 1, "Addr": 2**40 + number * 2**20, "Ev Idx": number},
    }
    call = {"cbid": 211, "correlation": number, "External id": number}
    yield _box("cuda_runtime", "cudaLaunchKernel", at_us + 10, 8.0, call)
    kernel = {
        "External id": number,
        "queued": 0,
        "device": 0,
        "context": 1,
        "stream": STREAM,
        "correlation": number,
        "registers per thread": 64,
        "shared memory": 0,
        "grid": [64, 1, 1],
        "block": [256, 1, 1],
        "est. achieved occupancy %": 50,
    }
    yield {
        **_box("kernel", "ampere_sgemm_128x64_tn", at_us + 20, KERNEL_US, kernel),
        "pid": 0,
        "tid": STREAM,
    }


def _box(
    category: str, name: str, start_us: float, duration_us: float, args: dict[str, Any]
) -> dict[str, Any]:
    where = {"pid": PID, "tid": PID, "ts": start_us, "dur": duration_us}
    return {"ph": "X", "cat": category, "name": name, **where, "args": args}
