"""Write XSpaces of steps on GPUs, in the form that TensorFlow's GPU tracer gives them.

The form is that of openxla/xla, xla/backends/profiler/gpu/cupti_collector.cc (in TensorFlow 2.1 to
2.10 tensorflow/core/profiler/internal/gpu/cupti_collector.cc) and cupti_tracer.cc: a plane
"/device:GPU:n" with a line for each stream, named by what ran on it ("Compute", "MemcpyH2D" ...);
calls of the driver in "/host:CUPTI", whose lines are joined to the host's thread of the same id
when the trace is exported; `correlation_id` on both; all texts as references. The events of the
allocator are those of tensorflow/core/common_runtime/bfc_allocator.cc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.support.captures import Ref, TraceEvent, xspace

GPU_PLANE = "/device:GPU:0"
HOST_PLANE = "/host:CPU"


def kernel(
    name: str, start_us: int, duration_us: int, *, correlation: int, op: str | None = None
) -> TraceEvent:
    """Return a kernel; `op` is "scope/name:Type"."""
    stats: dict[str, str | int | float] = {
        "correlation_id": correlation,
        "context_id": "$$1",
        "theoretical_occupancy_pct": 50.0,
        "occupancy_min_grid_size": 216,
        "occupancy_suggested_block_size": 1024,
        "kernel_details": Ref(
            "regs:32 static_shared:0 dynamic_shared:49152 grid:32,1,1 block:256,1,1 occ_pct:50"
        ),
    }
    if op is not None:
        stats["tf_op"] = Ref(op)
    return TraceEvent(name, start_us, duration_us, stats)


def copy(
    direction: str,
    start_us: int,
    duration_us: int,
    *,
    correlation: int,
    size: int,
    source: str = "pageable",
    target: str = "device",
    op: str | None = None,
) -> TraceEvent:
    """Return a copy on a stream; `direction` is H2D, D2H, D2D, P2P or Other."""
    details = f"kind_src:{source} kind_dst:{target} size:{size} dest:0 async:1"
    stats = {"correlation_id": correlation, "context_id": "$$1", "memcpy_details": Ref(details)}
    if op is not None:
        stats["tf_op"] = Ref(op)
    return TraceEvent(f"Memcpy{direction}", start_us, duration_us, stats)


def memset(start_us: int, duration_us: int, *, correlation: int, size: int) -> TraceEvent:
    """Return a memset on a stream."""
    details = Ref(f"kind:device num_bytes:{size} async:1")
    stats = {"correlation_id": correlation, "context_id": "$$1", "memset_details": details}
    return TraceEvent("Memset", start_us, duration_us, stats)


def call(
    name: str, start_us: int, duration_us: int, *, correlation: int, details: str = ""
) -> TraceEvent:
    """Return a call of the driver on a host thread."""
    stats: dict[str, str | int | float] = {
        "device_id": 0,
        "correlation_id": correlation,
        "context_id": "$$1",
    }
    if details:
        stats["memcpy_details"] = Ref(details)
    return TraceEvent(name, start_us, duration_us, stats)


def allocation(
    at_us: int,
    size: int,
    *,
    in_use: int,
    peak: int,
    limit: int = 1 << 30,
    address: int = 0x7F00_0000_0000,
    op: str = "",
    shape: str = "",
    freed: bool = False,
) -> TraceEvent:
    """Return what the allocator of a GPU says; a piece given back tells no op."""
    stats: dict[str, str | int | float] = {
        "allocator_name": "GPU_0_bfc",
        "bytes_reserved": 0,
        "bytes_allocated": in_use,
        "bytes_available": limit - in_use,
        "fragmentation": 0.25,
        "peak_bytes_in_use": peak,
        "requested_bytes": size - 16,
        "allocation_bytes": size,
        "addr": address,
        "tf_op": "(null)" if freed else op,
        "id": 0 if freed else 99,
        "region_type": "(null)" if freed else "output",
        "data_type": 0 if freed else 1,
        "shape": "" if freed else shape,
    }
    name = "MemoryDeallocation" if freed else "MemoryAllocation"
    return TraceEvent(name, at_us, 0, stats)


def gpu_trace(
    streams: Mapping[str, Sequence[TraceEvent]],
    threads: Mapping[str, Sequence[TraceEvent]],
    *,
    start_ns: int = 0,
    more: Mapping[str, Mapping[str, Sequence[TraceEvent]]] | None = None,
) -> bytes:
    """Return an XSpace of one GPU's streams and of the host's threads."""
    planes = {GPU_PLANE: streams, HOST_PLANE: threads, **(more or {})}
    return xspace(planes, start_ns=start_ns)


def training_step(*, start_ns: int = 0) -> bytes:
    """Return a step of 1 ms: input copied in, a product, its gradient, the loss copied out."""
    copied = "kind_src:pageable kind_dst:device size:1048576 dest:0 async:1"
    streams = {
        "Stream #13(Compute,Memset)": [
            memset(290, 2, correlation=2, size=512),
            kernel("ampere_sgemm_128x64_nn", 300, 250, correlation=3, op="m/dense/MatMul:MatMul"),
            kernel("ampere_fp16_s16816gemm_nt", 600, 200, correlation=4, op="g/MatMul_1:MatMul"),
        ],
        "Stream #14(MemcpyH2D)": [
            copy("H2D", 150, 120, correlation=1, size=1 << 20, op="m/Cast:Cast")
        ],
        "Stream #15(MemcpyD2H)": [copy("D2H", 820, 5, correlation=5, size=4, target="pinned")],
    }
    threads = {
        "python": [
            TraceEvent("train_step", 0, 980, {"tf_function_call": "notTraced-nonXla"}),
            call("cuStreamSynchronize", 830, 140, correlation=6),
        ],
        "tf_Compute/7": [
            TraceEvent("m/Cast:Cast", 100, 20),
            call("cuMemcpyHtoDAsync_v2", 105, 10, correlation=1, details=copied),
            TraceEvent("m/dense/MatMul:MatMul", 270, 25),
            allocation(272, 4096, in_use=8192, peak=12288, op="m/dense/MatMul", shape="[64,16]"),
            call("cuMemsetD32Async", 275, 3, correlation=2),
            call("cuLaunchKernel", 280, 8, correlation=3),
            TraceEvent("g/MatMul_1:MatMul", 310, 15),
            call("cuLaunchKernel", 312, 6, correlation=4),
            call("cuMemcpyDtoHAsync_v2", 330, 6, correlation=5),
            allocation(850, 4096, in_use=4096, peak=12288, freed=True),
        ],
    }
    return gpu_trace(streams, threads, start_ns=start_ns)
