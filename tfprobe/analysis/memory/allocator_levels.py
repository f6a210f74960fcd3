"""Compute how many bytes of an allocator are live at each moment of a step, and which allocations.

A deallocation is matched with its allocation by address, else by op and size, first in first out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Allocations
from tfprobe.profile.profile import Profile
from tfprobe.profile.tables import Flags, Int32s, Int64s, having

UNKNOWN = -1
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Level:
    """The live bytes of an allocator after each of its events in one capture, in order of time.

    If not `is_absolute`, the allocator does not report how much it holds, and `live_bytes` does not
    include what it held before the capture.
    """

    at_ns: Int64s
    live_bytes: Int64s
    is_absolute: bool

    @property
    def peak(self) -> int:
        """Return the index of the event with the most live bytes, the first of several."""
        return int(np.argmax(self.live_bytes))

    @property
    def top_bytes(self) -> int:
        """Return the most bytes that were live at once."""
        return int(self.live_bytes.max())


@dataclass(frozen=True, slots=True)
class Pieces:
    """Allocations with their lifetimes, one per row.

    `row` is an index into the table they come from; `end_ns` is the largest integer where the
    capture has no deallocation.
    """

    row: Int64s
    start_ns: Int64s
    end_ns: Int64s
    bytes: Int64s

    def live_at(self, moment_ns: int) -> Flags:
        """Return which pieces are live right after a moment."""
        live: Flags = (self.start_ns <= moment_ns) & (self.end_ns > moment_ns)
        return live


def level(rows: Allocations) -> Level:
    """Return the level of one allocator in one capture; `rows` are all of its events."""
    above = np.cumsum(rows.bytes)
    reporting = np.flatnonzero(rows.in_use_bytes != UNKNOWN)
    if not len(reporting):
        return Level(rows.at_ns, above, is_absolute=False)
    # What it holds besides `rows`, by its latest report; before any, by its first.
    other_bytes = rows.in_use_bytes[reporting] - above[reporting]
    last = np.searchsorted(reporting, np.arange(len(rows)), side="right") - 1
    return Level(rows.at_ns, above + other_bytes[np.maximum(last, 0)], is_absolute=True)


def lifetime_peak_bytes(rows: Allocations) -> int | Missing:
    """Return the most that an allocator held since it was created."""
    return _largest_known(rows.peak_bytes, "this allocator does not report its peak")


def capacity_bytes(rows: Allocations) -> int | Missing:
    """Return how much an allocator can allocate in total."""
    return _largest_known(
        np.where(rows.free_bytes == UNKNOWN, UNKNOWN, rows.free_bytes + rows.in_use_bytes),
        "this allocator does not report its limit",
    )


def is_used(rows: Allocations) -> bool:
    """Return whether an allocator is known to have held anything."""
    return bool((rows.bytes > 0).any() or (rows.in_use_bytes > 0).any())


def pieces(rows: Allocations) -> Pieces:
    """Return the allocations of one allocator in one capture, with when each was freed."""
    allocated = np.flatnonzero(rows.bytes > 0)
    freed = np.flatnonzero(rows.bytes < 0)
    end_ns = np.full(len(allocated), _NEVER)
    key = _key(rows)
    order = allocated[np.lexsort((rows.at_ns[allocated], key[allocated]))]
    first_ns = np.full(int(key.max(initial=-1)) + 1, _NEVER)
    np.minimum.at(first_ns, key[allocated], rows.at_ns[allocated])
    # A deallocation before the first allocation under its key belongs to one before the capture.
    freed = freed[rows.at_ns[freed] >= first_ns[key[freed]]]
    freed = freed[np.lexsort((rows.at_ns[freed], key[freed]))]
    ends = _positions(key[freed])
    known = {
        pair: int(at_ns)
        for pair, at_ns in zip(
            zip(key[freed].tolist(), ends.tolist(), strict=True),
            rows.at_ns[freed],
            strict=True,
        )
    }
    pairs = zip(key[order].tolist(), _positions(key[order]).tolist(), strict=True)
    found = np.array([known.get(pair, _NEVER) for pair in pairs], dtype=np.int64)
    end_ns = np.maximum(found, rows.at_ns[order])
    return Pieces(order, rows.at_ns[order], end_ns, rows.bytes[order])


def _largest_known(column: Int64s, reason: str) -> int | Missing:
    most = int(column.max(initial=UNKNOWN))
    return most if most > 0 else Missing(reason)


def _key(rows: Allocations) -> Int64s:
    """Return a number for each address, or where that is unknown, for each op and size."""
    unknown = rows.address == 0
    columns = np.stack(
        (
            rows.address,
            np.where(unknown, rows.op.astype(np.int64), 0),
            np.where(unknown, np.abs(rows.bytes), 0),
        )
    )
    key: Int64s = np.unique(columns, axis=1, return_inverse=True)[1].reshape(-1)
    return key


def _positions(keys: Int64s) -> Int64s:
    """Return the position of each key within its run of equal keys."""
    if not len(keys):
        return np.zeros(0, dtype=np.int64)
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    counts = np.diff(np.concatenate((first, [len(keys)])))
    return np.arange(len(keys), dtype=np.int64) - np.repeat(first, counts)


# The memory of an accelerator, not pinned host memory.
_DEVICE, _OF_HOST = "GPU", "host"


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """An allocator of an accelerator: the most it held since its creation, and its capacity."""

    device: str
    peak_bytes: int
    capacity_bytes: int


def device_memories(profile: Profile) -> dict[int, tuple[DeviceMemory, ...]]:
    """Return by process the allocators of accelerators that report a peak and a capacity.

    The one that held most in a traced step comes first.
    """
    rows = profile.allocations
    if not len(rows):
        return {}
    is_device = _has(rows, rows.device, _DEVICE) | _has(rows, rows.allocator, _DEVICE)
    rows = rows.only(is_device & ~_has(rows, rows.allocator, _OF_HOST.upper()))
    process = np.array([capture.process for capture in profile.captures], dtype=np.int64)
    key = np.stack((process[rows.capture], rows.device, rows.allocator))
    groups, group = np.unique(key, axis=1, return_inverse=True)
    found = []
    for number, (index, device, allocator) in enumerate(groups.T.tolist()):
        mine = rows.only(group.reshape(-1) == number)
        peak, capacity = lifetime_peak_bytes(mine), capacity_bytes(mine)
        if isinstance(peak, Missing) or isinstance(capacity, Missing) or not is_used(mine):
            continue
        names = (rows.strings[device], rows.strings[allocator])
        top_bytes = max(level(part).top_bytes for _, part in mine.by_capture())
        memory = DeviceMemory(names[0] or names[1], peak, capacity)
        found.append((index, -top_bytes, names, memory))
    memories: dict[int, tuple[DeviceMemory, ...]] = {}
    for index, _, _, memory in sorted(found, key=lambda item: item[:3]):
        memories[index] = (*memories.get(index, ()), memory)
    return memories


def _has(rows: Allocations, column: Int32s, text: str) -> Flags:
    """Return which rows have `text` in a column, ignoring case."""
    return having(rows.strings, column, lambda value: text in value.upper())
