"""Tell what a row of an accelerator moved, or which kernel it was.

Tracers wrote three forms (tensorflow/core/platform/default/device_tracer.cc until TensorFlow 1.14,
tensorflow/core/profiler/internal/gpu/device_tracer_cuda.cc and gpu_tracer.cc from then on):
a node "MEMCPYHtoD" with a label "OP num_bytes: 4 destination: 0 async: false"; a node named by its
op with a label "OP bytes:4 aync to device:1", whose direction only the stream of the same row has;
and kernels with a label "KERNEL regs:8 shm:0 grid:1,1,1 block:1,1,1@@OP", before that "OP regs:8".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tfprobe.ingest.run_metadata.devices import direction_of
from tfprobe.model.executions import Place

_DIRECTIONS = (
    ("htod", Place.HOST_TO_DEVICE),
    ("h2d", Place.HOST_TO_DEVICE),
    ("dtoh", Place.DEVICE_TO_HOST),
    ("d2h", Place.DEVICE_TO_HOST),
)
_DETAILS = re.compile(r"(?:num_bytes|size|bytes): ?(?P<bytes>\d+).*", re.DOTALL)
_KERNEL = re.compile(r"(?P<kernel>.+?)(?: regs:\d+ .*)?@@", re.DOTALL)

# By node, start in µs and label: the direction that the stream of a copy tells.
Directions = Mapping[tuple[str, int, str], str]


class Transfer(NamedTuple):
    """A copy: where to, how much (0 unknown) and what its row says of it."""

    place: Place
    bytes: int
    detail: str


def directions(devices: Iterable[Any]) -> Directions:
    """Return what the names of streams tell of copies. Any: DeviceStepStats."""
    found = {}
    for device in devices:
        direction = direction_of(device.device.lower())
        if direction is not None:
            found.update({_key(node): direction for node in device.node_stats})
    return found


def transfer(node: Any, known: Directions) -> Transfer:
    """Return what a row of the memcpy device moved. Any: NodeExecStats."""
    text = f"{node.node_name} {node.timeline_label} {known.get(_key(node), '')}".lower()
    place = next((place for key, place in _DIRECTIONS if key in text), Place.DEVICE_TO_DEVICE)
    details = _DETAILS.search(node.timeline_label) or _DETAILS.search(node.node_name)
    if details is None:
        return Transfer(place, 0, "")
    # Of a node that is named by the driver's word only the label names the op.
    label = node.timeline_label if "num_bytes" in details[0] else details[0]
    return Transfer(place, int(details["bytes"]), label.strip())


def kernel(node: Any) -> str:
    """Return the name of the kernel that a row is about, "" where it is not told."""
    found = _KERNEL.match(node.timeline_label)
    return found["kernel"] if found is not None else ""


def _key(node: Any) -> tuple[str, int, str]:
    return node.node_name, node.all_start_micros, node.timeline_label
