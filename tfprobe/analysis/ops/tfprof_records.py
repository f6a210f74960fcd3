"""Arrange the traced steps of a work as tfprof's records, so that its engine can load them.

What tfprof has no word for is put into its own: times are whole µs, at least one, and a device of
a profiler window is named as TensorFlow names it, without the job. What the recording does not hold
is 0 there, peak and residual memory among it: the records cannot say that it is unknown.
"""

from __future__ import annotations

import numpy as np

from tfprobe.analysis.ops.costs import NS_PER_US
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.graph import Node, TracedLoop
from tfprobe.profile.profile import Capture
from tfprobe.profile.records import DeviceStats, GraphProfile, MemoryUse, NodeStats, Record, Span

_STREAM = "/stream:all"
_HOST = "/device:cpu:0"
# What a profiler window calls the host, and the devices on which it saw kernels.
_HOST_PLANE = "/host:cpu"
_PLANES = (_HOST_PLANE, "/device:gpu:")


def graph_profile(sampled: TracedLoop) -> GraphProfile:
    """Return the traced steps as a profile of the loop's graph; a node stays on one device."""
    rows = sampled.executions
    steps = {capture.index: capture.step for capture in sampled.captures}
    devices: list[str | None] = [None] * len(sampled.graph.nodes)
    records: tuple[dict[int, Record], ...] = tuple({} for _ in sampled.graph.nodes)
    for node, capture, group in _by_node_and_capture(sampled):
        home = devices[node] = devices[node] or _home(rows, group)
        records[node][steps[capture]] = _record(rows, group, home)
    has_kernels = any(record.accelerator for each in records for record in each.values())
    return GraphProfile(
        graph=sampled.graph,
        steps=tuple(sorted(steps.values())),
        devices=tuple(devices),
        records=records,
        covered=sum(1 for each in records if each),
        lacks_stream=any("gpu" in (device or "") for device in devices) and not has_kernels,
    )


def _by_node_and_capture(sampled: TracedLoop) -> list[tuple[int, int, list[int]]]:
    """Return which rows belong to each node in each capture, by start; tfprof counts no copies."""
    rows, node = sampled.executions, sampled.node
    capture = rows.capture
    chosen = np.isin(capture, [each.index for each in sampled.captures])
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
    # Cut, as TensorFlow cuts its own ns; what is shorter than one counts as one, as in tfprof.
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
    """Return the device of a node: that which scheduled it, or in a window that of its kernel."""
    names = [rows.strings[rows.device[at]].lower() for at in group]
    scheduled = (name for name in names if _STREAM not in name and not name.startswith(_PLANES))
    kernels = (name for name in names if not name.startswith(_HOST_PLANE))
    home = next(scheduled, None) or next(kernels, _HOST)
    return home.partition("/stream:")[0]


def _stream(rows: Executions, kernels: list[int], home: str) -> str:
    names = (rows.strings[rows.device[at]].lower() for at in kernels)
    return next((name for name in names if _STREAM in name), f"{home}{_STREAM}")


def recorded_step_stats(sampled: TracedLoop, capture: Capture) -> tuple[DeviceStats, ...]:
    """Return what each device did in one of the captures, by start; times are whole µs."""
    rows = sampled.executions
    chosen = np.flatnonzero(rows.capture == capture.index)
    by_device: dict[str, list[NodeStats]] = {}
    for at in chosen[np.argsort(rows.start_ns[chosen], kind="stable")].tolist():
        node = sampled.graph.nodes[sampled.node[at]]
        device = rows.strings[rows.device[at]]
        is_kernel = rows.place[at] != Place.HOST
        if is_kernel and "/stream:" not in device and "/memcpy" not in device:
            stream = "stream:all" if rows.place[at] == Place.ACCELERATOR else "memcpy"
            device = f"{device}/{stream}"
        stats = NodeStats(
            # As in StepStats, where only the name of a kernel's row tells the op.
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
