"""Determine what a row moved, between devices or from another task, or which kernel it was.

Tracers wrote three forms (tensorflow/core/platform/default/device_tracer.cc until TensorFlow 1.14,
tensorflow/core/profiler/internal/gpu/device_tracer_cuda.cc and gpu_tracer.cc from then on):
a node "MEMCPYHtoD" with a label "OP num_bytes: 4 destination: 0 async: false"; a node named after
its op with a label "OP bytes:4 aync to device:1", whose direction is only in the stream of the same
row; and kernels with a label "KERNEL regs:8 shm:0 grid:1,1,1 block:1,1,1@@OP", before that
"OP regs:8".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tfprobe.profile.capture_tables import Place

_DIRECTIONS = (
    ("htod", Place.HOST_TO_DEVICE),
    ("h2d", Place.HOST_TO_DEVICE),
    ("dtoh", Place.DEVICE_TO_HOST),
    ("d2h", Place.DEVICE_TO_HOST),
)
_DETAILS = re.compile(r"(?:num_bytes|size|bytes): ?(?P<bytes>\d+).*", re.DOTALL)
_KERNEL = re.compile(r"(?P<kernel>.+?)(?: regs:\d+ .*)?@@", re.DOTALL)
# The name of the row of a tensor received from another task, and its rate, which TensorFlow writes
# for transfers that took time: "[1.2MB] [4.4Gb/s] TENSOR from DEVICE to DEVICE".
RECEIVED = "RecvTensor"
_SPEED = re.compile(r"(?<=\] )\[[^\]]*b/s\] ")


class CopyRow(NamedTuple):
    """What a row says about its node."""

    name: str
    start_us: int
    label: str


# By row: the direction given by the stream of a copy.
Directions = Mapping[CopyRow, str]


class Transfer(NamedTuple):
    """A copy: its direction, its bytes (0 if unknown), and the description in its row."""

    place: Place
    bytes: int
    detail: str


def directions(streams: Iterable[tuple[str, Iterable[CopyRow]]]) -> Directions:
    """Return what the names of devices, each with its rows, say about copies."""
    found = {}
    for device, rows in streams:
        direction = direction_of(device.lower())
        if direction is not None:
            found.update(dict.fromkeys(rows, direction))
    return found


def transfer(row: CopyRow, known: Directions) -> Transfer:
    """Return what a row of the memcpy device moved."""
    text = f"{row.name} {row.label} {known.get(row, '')}".lower()
    place = next((place for key, place in _DIRECTIONS if key in text), Place.DEVICE_TO_DEVICE)
    details = _DETAILS.search(row.label) or _DETAILS.search(row.name)
    if details is None:
        return Transfer(place, 0, "")
    # If the node has the driver's name for the copy, only the label has the op.
    label = row.label if "num_bytes" in details[0] else details[0]
    return Transfer(place, int(details["bytes"]), label.strip())


def kernel(label: str) -> str:
    """Return the name of the kernel in the label of a row, "" if there is none."""
    found = _KERNEL.match(label)
    return found["kernel"] if found is not None else ""


def received(label: str) -> str:
    """Return which tensor came from where, without its rate, which differs each time."""
    return _SPEED.sub("", label, count=1)


# The devices whose rows are the host's own time; the same pattern as tfprof's.
_CANONICAL = re.compile(r".*/(device:gpu|gpu|device:cpu|cpu|device:sycl):\d+\Z")
_STREAM_OF_COPIES = re.compile(r"/stream:\d+<memcpy(\w+)>\Z")


def place_of(device: str) -> Place | None:
    """Return what the rows of a device mean; None if they repeat another device's rows."""
    if "stream:all" in device:
        return Place.ACCELERATOR
    if _CANONICAL.match(device):
        return Place.HOST
    return Place.DEVICE_TO_DEVICE if device.endswith("memcpy") else None


def direction_of(device: str) -> str | None:
    """Return the direction of a stream's copies, such as "h2d"; None if its name has none."""
    stream = _STREAM_OF_COPIES.search(device)
    return None if stream is None else stream[1]


def is_sync(device: str) -> bool:
    """Return whether the rows are calls that waited for a device."""
    return device.endswith("/sync")
