"""What must be reported of the planted loops of JAX."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import claims
from claims import cycle, line_row, plain_after, total
from evidence import Evidence, Row, Value

from tfprobe.errors import Missing


def _sync_bound(found: Evidence) -> Iterator[Row]:
    yield cycle(found)
    loop = found.recorded.loop(found.main)
    waits: Value = Missing("`report` counts no waits of this loop")
    if isinstance(loop, Missing):
        waits = loop
    elif loop.get("queue"):
        waits = int(loop["queue"]["waits"])
    # A value may be there already.
    yield found.most("waits of the host", waits, found.truth["waits"])
    if found.is_gpu:
        yield found.least("waits of the host", waits, 0.95 * found.truth["waits"])
    yield line_row(found, "line that waits", "wait_line", ("advise",), ("breakdown",), ("steps",))


def _asynchronous(found: Evidence) -> Iterator[Row]:
    yield cycle(found)
    loop = found.recorded.loop(found.main)
    waits: Value = Missing("`report` counts no waits of this loop")
    if isinstance(loop, Mapping) and loop.get("queue"):
        waits = int(loop["queue"]["waits"])
    yield found.near("waits of the host", waits, found.truth["timed_steps"] // 50 + 1, 0)


def _command_buffer(found: Evidence) -> Iterator[Row]:
    yield cycle(found)
    ops = found.recorded.ops(found.main)
    yield found.near(
        "float operations a step", total(ops, "float_ops"), found.truth["float_ops"], 0
    )
    yield plain_after(found)


def of_several(judged: Mapping[str, Evidence]) -> Iterator[Row]:
    """Kernels are counted alike with and without command buffers."""
    found, without = judged.get("command_buffer"), judged.get("no_command_buffer")
    if found is None or without is None:
        return
    runs = [total(side.recorded.ops(side.main), "runs") for side in (found, without)]
    yield found.near("kernels a step, as without command buffers", runs[0], runs[1], 0)


def _memory(found: Evidence) -> Iterator[Row]:
    answer = found.recorded.ask("memory", "--loop", found.main)
    peak: Value = answer if isinstance(answer, Missing) else Missing("no allocator in the capture")
    lifetime: Value = peak
    if isinstance(answer, Mapping) and answer["allocators"]:
        program = max(answer["allocators"], key=lambda item: item["peak"]["bytes"])
        peak = program["peak"]["bytes"]
        most = [item["lifetime_peak_bytes"] for item in answer["allocators"]]
        known = [value for value in most if value is not None]
        lifetime = max(known) if known else Missing("`memory` has no peak of the process's life")
    planned = found.truth.get("planned_bytes")
    true: Value = Missing("this JAX has no memory analysis") if planned is None else planned
    yield found.near("peak of the program, bytes", peak, true, 0.01)
    if found.truth["peak_bytes"] is None:
        yield found.no_gpu("peak of the device, bytes")
    else:
        yield found.near("peak of the device, bytes", lifetime, found.truth["peak_bytes"], 0.01)
    yield cycle(found)
    yield plain_after(found)


CLAIMS = {
    **claims.CLAIMS,
    "asynchronous": _asynchronous,
    "command_buffer": _command_buffer,
    "memory": _memory,
    "sync_bound": _sync_bound,
}
