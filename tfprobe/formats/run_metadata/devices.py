"""Tell by its name what the rows of a device of StepStats are."""

from __future__ import annotations

import re

from tfprobe.profile.executions import Place

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
