"""What must be reported of the planted loops of PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import claims
from answers import Document
from claims import cycle, line_row, ops_ms, plain_after, total
from evidence import Evidence, Row, Value

from tfprobe.errors import Missing


def of_several(judged: Mapping[str, Evidence]) -> Iterator[Row]:
    """Kernels are counted alike with and without CUDA graphs."""
    found, without = judged.get("cuda_graph"), judged.get("no_cuda_graph")
    if found is None or without is None:
        return
    kernels = [side.recorded.kernels(side.main) for side in (found, without)]
    # One more copies the argument to where the graph reads it.
    what = "kernels a step, less one that copies the argument, as without CUDA graphs"
    own = kernels[0] if isinstance(kernels[0], Missing) else kernels[0] - 1
    yield found.near(what, own, kernels[1], 0)


def _kernel_bound(found: Evidence) -> Iterator[Row]:
    yield from claims.kernel_bound(found)
    what = "ms of ops of a traced step, by CUDA events"
    if not found.is_gpu:
        yield found.no_gpu(what)
        return
    told, device_ns = ops_ms(found, found.recorded.ops(found.main)), found.traced_device_ns
    true = device_ns if isinstance(device_ns, Missing) else device_ns / 1e6
    yield found.near(what, told, true, 0.02)


def _sync_bound(found: Evidence) -> Iterator[Row]:
    yield cycle(found)
    reads = _named(found.recorded.ops(found.main), "aten::item")
    yield found.near("values read a step", total(reads, "runs"), found.truth["waits"], 0)
    yield line_row(found, "line that waits", "wait_line", ("advise",), ("breakdown",), ("code",))


def _queued(found: Evidence) -> Iterator[Row]:
    yield cycle(found)
    cycle_ns = found.recorded_cycle_ns
    reported = cycle_ns if isinstance(cycle_ns, Missing) else cycle_ns / 1e6
    yield _by_events(found, "time of a step, ms", reported)


def _by_events(found: Evidence, what: str, reported_ms: Value) -> Row:
    """Compare with the time of the device, which has always something to do here."""
    what = f"{what}, by CUDA events"
    if not found.is_gpu:
        return found.no_gpu(what)
    device_ns = found.device_ns
    true = device_ns if isinstance(device_ns, Missing) else device_ns / 1e6
    return found.near(what, reported_ms, true, 0.02)


def _memory(found: Evidence) -> Iterator[Row]:
    answer = found.recorded.ask("memory", "--loop", found.main)
    peak: Value = answer if isinstance(answer, Missing) else Missing("no allocator in the capture")
    if isinstance(answer, Mapping) and answer["allocators"]:
        peak = max(item["peak"]["bytes"] for item in answer["allocators"])
    yield found.near("peak of a step by its tensors, bytes", peak, found.truth["step_bytes"], 0.01)
    if found.truth["peak_bytes"] is None:
        yield found.no_gpu("peak of a step by the allocator, bytes")
    else:
        true = found.truth["peak_bytes"]
        yield found.near("peak of a step by the allocator, bytes", peak, true, 0.01)
    yield cycle(found)
    yield plain_after(found)


def _named(ops: list[Document] | Missing, name: str) -> list[Document] | Missing:
    return ops if isinstance(ops, Missing) else [op for op in ops if op["name"] == name]


CLAIMS = {
    **claims.CLAIMS,
    "asynchronous": _queued,
    "cuda_graph": _queued,
    "kernel_bound": _kernel_bound,
    "memory": _memory,
    "no_cuda_graph": _queued,
    "sync_bound": _sync_bound,
}
