"""Arrange a sampled step as StepStats has it, for steps that were recorded without any.

A profiler window tells when ops ran, and nothing of their outputs and memory.
"""

from __future__ import annotations

import numpy as np

from tfprobe.analysis.ops.costs import NS_PER_US
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.graph import Node, SampledWork
from tfprobe.profile.profile import Capture
from tfprobe.profile.records import DeviceStats, NodeStats


def step_stats(sampled: SampledWork, capture: Capture) -> tuple[DeviceStats, ...]:
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
