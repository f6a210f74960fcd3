"""Write a RunMetadata with every oddity that a timeline of a step has a rule for."""

from __future__ import annotations

from typing import Any

from tests.support.captures import CPU, GPU
from tfprobe.formats.schema import message_class

START_US = 1_795_205_058_000_000


def gpu_step() -> bytes:
    """Return a step on a GPU: ops side by side, kernels, copies, a receive, names that repeat."""
    message = message_class("tfprobe.step_stats.RunMetadata")()
    host = message.step_stats.dev_stats.add(device=CPU).node_stats
    _add(host, "_SOURCE", 0, 1)
    _add(host, "input", 1, 10, "input = Const()", outputs=[400])
    _add(host, "split", 11, 10, "split = Split(input)", outputs=[100, 300])
    _add(host, "RecvTensor", 12, 5, "edge_3_x from /job:a to /job:b")
    _add(host, "split", 40, 4, "split = Split(input)", outputs=[100])
    _add(host, "no label", 44, 0)
    gpu = message.step_stats.dev_stats.add(device=GPU).node_stats
    _add(gpu, "product", 20, 5, "product = MatMul(split:1, input/_7)", "GPU_0_bfc", outputs=[64])
    _add(gpu, "late", 30, 2, 'late = "Odd"(product, split, nobody/_3, /_1)', outputs=[0])
    stream = message.step_stats.dev_stats.add(device=f"{GPU}/stream:all").node_stats
    _add(stream, "sgemm", 22, 30, "regs:32 @@product#id=3")
    _add(stream, "product", 50, 9, "no annotation")
    _add(stream, "late:Odd", 61, 3, "grid:1 @@late:Odd#id=4")
    copies = message.step_stats.dev_stats.add(device=f"{GPU}/memcpy").node_stats
    _add(copies, "MEMCPYHtoD", 21, 2, "MEMCPYHtoD bytes:4 @@#")
    again = message.step_stats.dev_stats.add(device=CPU).node_stats
    _add(again, "late", 90, 1, "late = Identity(late)", outputs=[8])
    return bytes(message.SerializeToString())


def _add(
    rows: Any,
    name: str,
    start_us: int,
    duration_us: int,
    label: str = "",
    allocator: str = "cpu",
    *,
    outputs: list[int] | None = None,
) -> None:
    row = rows.add(
        node_name=name,
        timeline_label=label,
        all_start_micros=START_US + start_us,
        op_end_rel_micros=duration_us,
        all_end_rel_micros=duration_us,
    )
    for slot, size in enumerate(outputs or []):
        row.memory.add(allocator_name=allocator, total_bytes=size)
        described = row.output.add(slot=slot).tensor_description
        described.dtype = 1
        described.shape.dim.add(size=size // 4)
        described.allocation_description.requested_bytes = size
        described.allocation_description.allocator_name = allocator
        described.allocation_description.ptr = 2**63 + slot
