"""Tell what a row moved, between devices or from another task, or which kernel it was.

Tracers wrote three forms (tensorflow/core/platform/default/device_tracer.cc until TensorFlow 1.14,
tensorflow/core/profiler/internal/gpu/device_tracer_cuda.cc and gpu_tracer.cc from then on):
a node "MEMCPYHtoD" with a label "OP num_bytes: 4 destination: 0 async: false"; a node named by its
op with a label "OP bytes:4 aync to device:1", whose direction only the stream of the same row has;
and kernels with a label "KERNEL regs:8 shm:0 grid:1,1,1 block:1,1,1@@OP", before that "OP regs:8".
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
# The name of the row of a tensor that came from another task, and how fast it was, which TensorFlow
# writes of those that took time: "[1.2MB] [4.4Gb/s] TENSOR from DEVICE to DEVICE".
RECEIVED = "RecvTensor"
_SPEED = re.compile(r"(?<=\] )\[[^\]]*b/s\] ")


class CopyRow(NamedTuple):
    """What a row tells of its node."""

    name: str
    start_us: int
    label: str


# By row: the direction that the stream of a copy tells.
Directions = Mapping[CopyRow, str]


class Transfer(NamedTuple):
    """A copy: where to, how much (0 unknown) and what its row says of it."""

    place: Place
    bytes: int
    detail: str


def directions(streams: Iterable[tuple[str, Iterable[CopyRow]]]) -> Directions:
    """Return what the names of devices, each with its rows, tell of copies."""
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
    # Of a node that is named by the driver's word only the label names the op.
    label = row.label if "num_bytes" in details[0] else details[0]
    return Transfer(place, int(details["bytes"]), label.strip())


def kernel(label: str) -> str:
    """Return the name of the kernel that the label of a row tells, "" where it tells none."""
    found = _KERNEL.match(label)
    return found["kernel"] if found is not None else ""


def received(label: str) -> str:
    """Return which tensor came from where, without how fast, which differs each time."""
    return _SPEED.sub("", label, count=1)


# The devices whose rows are the host's own time; the same pattern as tfprof's.
_CANONICAL = re.compile(r".*/(device:gpu|gpu|device:cpu|cpu|device:sycl):\d+\Z")
_STREAM_OF_COPIES = re.compile(r"/stream:\d+<memcpy(\w+)>\Z")


def place_of(device: str) -> Place | None:
    """Return what the rows of a device mean; None for those that repeat another device's."""
    if "stream:all" in device:
        return Place.ACCELERATOR
    if _CANONICAL.match(device):
        return Place.HOST
    return Place.DEVICE_TO_DEVICE if device.endswith("memcpy") else None


def direction_of(device: str) -> str | None:
    """Return the direction of the copies of a stream, "h2d"; None where its name has none."""
    stream = _STREAM_OF_COPIES.search(device)
    return None if stream is None else stream[1]


def is_sync(device: str) -> bool:
    """Say whether the rows are calls that waited for a device."""
    return device.endswith("/sync")
