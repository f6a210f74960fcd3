"""Convert between traced steps and tfprof's records: the costs they hold, and records to write.

tfprof's format limits what can be expressed: times are whole µs, at least one, and a device of a
profiler window has the name TensorFlow gives it, without the job. What was not recorded, such as
peak and residual memory, is 0: the records cannot say that it is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from tfprobe.analysis.ops.op_stats import AT, AVERAGE, COLUMNS, NS_PER_US, Costs, summable
from tfprobe.analysis.ops.parameters import element_count
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.graph import Node, TracedLoop
from tfprobe.profile.profile import Capture
from tfprobe.profile.records import DeviceStats, GraphProfile, MemoryUse, NodeStats, Record, Span

_STREAM = "/stream:all"
_HOST = "/device:cpu:0"
# What a profiler window calls the host, and the devices on which it saw kernels.
_HOST_PLANE = "/host:cpu"
_PLANES = (_HOST_PLANE, "/device:gpu:")


_OF_RECORD: Mapping[str, Callable[[Record], int]] = {
    # Times in µs: averages are truncated to those.
    "bytes": lambda record: sum(use.requested_bytes for use in record.memory),
    "peak_bytes": lambda record: sum(use.peak_bytes for use in record.memory),
    "residual_bytes": lambda record: sum(use.residual_bytes for use in record.memory),
    "output_bytes": lambda record: sum(use.output_bytes for use in record.memory),
    "accelerator_ns": lambda record: _sum_us(record.accelerator.values()),
    "cpu_ns": lambda record: _sum_us(record.cpu.values()),
    "time_ns": lambda record: _sum_us(record.accelerator.values()) + _sum_us(record.cpu.values()),
    "runs": lambda record: record.run_count,
}


def costs(profile: GraphProfile, step: int) -> Costs:
    """Return the cost of each node in `step`; for -1, the average over the steps in which it ran.

    Averages are truncated to integers, times to whole µs, each separately, as in tfprof. Raises
    UnreadableInput if they are too large to be added up.
    """
    count = len(profile.graph.nodes)
    rows = np.zeros((count, len(COLUMNS)), dtype=np.int64)
    rows[:, AT["params"]] = [
        summable(element_count(node.shape), count) for node in profile.graph.nodes
    ]
    rows[:, AT["float_ops"]] = [summable(node.float_ops, count) for node in profile.graph.nodes]
    rows[:, AT["definitions"]] = 1
    # Most nodes of a large graph never run, such as initializers and savers.
    ran = [at for at, records in enumerate(profile.records) if records]
    for at in ran:
        records = profile.records[at]
        runs = _in_step(records, step, _OF_RECORD["runs"])
        for name, of_record in _OF_RECORD.items():
            unit = NS_PER_US if name.endswith("_ns") else 1
            rows[at, AT[name]] = summable(_in_step(records, step, of_record) * unit, count)
        rows[at, AT["float_ops"]] = summable(profile.graph.nodes[at].float_ops * runs, count)
    return Costs(rows)


def graph_profile(traced: TracedLoop) -> GraphProfile:
    """Return the traced steps as a profile of the graph of the loop; each node has one device."""
    rows = traced.executions
    steps = {capture.index: capture.step for capture in traced.captures}
    devices: list[str | None] = [None] * len(traced.graph.nodes)
    records: tuple[dict[int, Record], ...] = tuple({} for _ in traced.graph.nodes)
    for node, capture, group in _by_node_and_capture(traced):
        home = devices[node] = devices[node] or _home(rows, group)
        records[node][steps[capture]] = _record(rows, group, home)
    has_kernels = any(record.accelerator for by_step in records for record in by_step.values())
    return GraphProfile(
        graph=traced.graph,
        steps=tuple(sorted(steps.values())),
        devices=tuple(devices),
        records=records,
        covered=sum(1 for by_step in records if by_step),
        lacks_stream=any("gpu" in (device or "") for device in devices) and not has_kernels,
    )


def _by_node_and_capture(traced: TracedLoop) -> list[tuple[int, int, list[int]]]:
    """Return the rows of each node in each capture, by start; tfprof does not count copies."""
    rows, node = traced.executions, traced.node
    capture = rows.capture
    chosen = np.isin(capture, [capture.index for capture in traced.captures])
    chosen &= np.isin(rows.place, (Place.HOST, Place.ACCELERATOR))
    order = np.lexsort((rows.start_ns, capture, node))
    order = order[chosen[order]]
    if not len(order):
        return []
    cuts = np.flatnonzero((np.diff(node[order]) != 0) | (np.diff(capture[order]) != 0)) + 1
    groups = np.split(order, cuts)
    return [(int(node[group[0]]), int(capture[group[0]]), group.tolist()) for group in groups]


def _record(rows: Executions, group: list[int], home: str) -> Record:
    host = [at for at in group if rows.place[at] == Place.HOST]
    kernels = [at for at in group if rows.place[at] == Place.ACCELERATOR]
    spans = {at: _span(rows, at) for at in group}
    return Record(
        run_count=len(host or kernels),
        start_us=min(span.start_us for span in spans.values()),
        end_us=max(span.start_us + span.duration_us for span in spans.values()),
        accelerator=_on(_stream(rows, kernels, home), [spans[at] for at in kernels]),
        cpu=_on(home, [spans[at] for at in host]),
        memory=tuple(_memory(rows, at, spans[at], home) for at in host if _has_memory(rows, at)),
        allocations=(),
    )


def _on(device: str, spans: list[Span]) -> dict[str, tuple[Span, ...]]:
    return {device: tuple(spans)} if spans else {}


def _span(rows: Executions, at: int) -> Span:
    # Truncated, as TensorFlow truncates ns; shorter times count as one, as in tfprof.
    duration_us = max(int(rows.duration_ns[at]) // NS_PER_US, 1)
    return Span(int(rows.start_ns[at]) // NS_PER_US, duration_us)


def _has_memory(rows: Executions, at: int) -> bool:
    return bool(rows.bytes[at] or rows.output_bytes[at])


def _memory(rows: Executions, at: int, span: Span, home: str) -> MemoryUse:
    return MemoryUse(
        at_us=span.start_us + span.duration_us,
        requested_bytes=int(rows.bytes[at]),
        peak_bytes=0,
        residual_bytes=0,
        output_bytes=int(rows.output_bytes[at]),
        temporary_bytes=0,
        persistent_bytes=0,
        on_host="cpu" in home,
    )


def _home(rows: Executions, group: list[int]) -> str:
    """Return the device of a node: where it was scheduled, or in a profiler window its kernel's."""
    names = [rows.strings[rows.device[at]].lower() for at in group]
    scheduled = (name for name in names if _STREAM not in name and not name.startswith(_PLANES))
    kernels = (name for name in names if not name.startswith(_HOST_PLANE))
    home = next(scheduled, None) or next(kernels, _HOST)
    return home.partition("/stream:")[0]


def _stream(rows: Executions, kernels: list[int], home: str) -> str:
    names = (rows.strings[rows.device[at]].lower() for at in kernels)
    return next((name for name in names if _STREAM in name), f"{home}{_STREAM}")


def recorded_step_stats(traced: TracedLoop, capture: Capture) -> tuple[DeviceStats, ...]:
    """Return what each device ran in a capture, by start; times are whole µs."""
    rows = traced.executions
    chosen = np.flatnonzero(rows.capture == capture.index)
    by_device: dict[str, list[NodeStats]] = {}
    for at in chosen[np.argsort(rows.start_ns[chosen], kind="stable")].tolist():
        node = traced.graph.nodes[traced.node[at]]
        device = rows.strings[rows.device[at]]
        is_kernel = rows.place[at] != Place.HOST
        if is_kernel and "/stream:" not in device and "/memcpy" not in device:
            stream = "stream:all" if rows.place[at] == Place.ACCELERATOR else "memcpy"
            device = f"{device}/{stream}"
        stats = NodeStats(
            # As in StepStats, where only the name of a kernel contains the op.
            name=f"{node.name}:{node.op}" if is_kernel else node.name,
            label=_label(node),
            start_us=int(rows.start_ns[at]) // NS_PER_US,
            duration_us=max(int(rows.duration_ns[at]) // NS_PER_US, 1),
        )
        by_device.setdefault(device, []).append(stats)
    return tuple(DeviceStats(name, tuple(nodes)) for name, nodes in by_device.items())


def _label(node: Node) -> str:
    """Return `name = Op(input, input:1)`, as TensorFlow labels an execution."""
    inputs = (_input(node, index) for index in sorted(node.inputs))
    return f"{node.name} = {node.op}({', '.join(inputs)})"


def _input(node: Node, index: int) -> str:
    source = node.sources.get(index, 0)
    return f"{node.inputs[index]}:{source}" if source else node.inputs[index]


def _in_step(records: Mapping[int, Record], step: int, of_record: Callable[[Record], int]) -> int:
    if step != AVERAGE:
        return of_record(records[step]) if step in records else 0
    if not records:
        return 0
    return _cut(sum(map(of_record, records.values())), len(records))


def _cut(total: int, count: int) -> int:
    """Divide as in C++: towards 0."""
    return total // count if total >= 0 else -(-total // count)


def _sum_us(spans_by_device: Iterable[Sequence[Span]]) -> int:
    return sum(span.duration_us for spans in spans_by_device for span in spans)
