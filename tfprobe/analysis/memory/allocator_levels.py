"""Follow what an allocator holds within a step: how much at each moment, and which pieces.

What a deallocation gives back is found by its address, else by its op and size, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Allocations
from tfprobe.profile.profile import Profile
from tfprobe.profile.tables import Flags, Int32s, Int64s, having

UNTOLD = -1
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Level:
    """What an allocator held in one capture, after each of its events, in order of time.

    Without `is_absolute` the allocator did not say how much it holds, and `held_bytes` is above
    what it held before the capture.
    """

    at_ns: Int64s
    held_bytes: Int64s
    is_absolute: bool

    @property
    def peak(self) -> int:
        """Return the event at which most was held, the first of several."""
        return int(np.argmax(self.held_bytes))

    @property
    def top_bytes(self) -> int:
        """Return the most that was held."""
        return int(self.held_bytes.max())


@dataclass(frozen=True, slots=True)
class Pieces:
    """What was allocated: one row a piece. `row` is a position in the allocations; `end_ns` is the
    largest number where the capture does not tell of an end.
    """

    row: Int64s
    start_ns: Int64s
    end_ns: Int64s
    bytes: Int64s

    def live_at(self, moment_ns: int) -> Flags:
        """Say which pieces were held right after a moment."""
        live: Flags = (self.start_ns <= moment_ns) & (self.end_ns > moment_ns)
        return live


def level(rows: Allocations) -> Level:
    """Return what one allocator held in one capture; `rows` are all of its events."""
    above = np.cumsum(rows.bytes)
    told = np.flatnonzero(rows.in_use_bytes != UNTOLD)
    if not len(told):
        return Level(rows.at_ns, above, is_absolute=False)
    # What it held beside these events, as it said last; before it said anything, as it said first.
    beside = rows.in_use_bytes[told] - above[told]
    last = np.searchsorted(told, np.arange(len(rows)), side="right") - 1
    return Level(rows.at_ns, above + beside[np.maximum(last, 0)], is_absolute=True)


def lifetime_peak_bytes(rows: Allocations) -> int | Missing:
    """Return the most that an allocator held since it was made."""
    return _told(rows.peak_bytes, "this allocator does not report its peak")


def capacity_bytes(rows: Allocations) -> int | Missing:
    """Return how much an allocator may give in all."""
    return _told(
        np.where(rows.free_bytes == UNTOLD, UNTOLD, rows.free_bytes + rows.in_use_bytes),
        "this allocator does not report its limit",
    )


def pieces(rows: Allocations) -> Pieces:
    """Return what was allocated and when it was given back, of one allocator in one capture."""
    taken = np.flatnonzero(rows.bytes > 0)
    given_back = np.flatnonzero(rows.bytes < 0)
    end_ns = np.full(len(taken), _NEVER)
    key = _key(rows)
    order = taken[np.lexsort((rows.at_ns[taken], key[taken]))]
    first_ns = np.full(int(key.max(initial=-1)) + 1, _NEVER)
    np.minimum.at(first_ns, key[taken], rows.at_ns[taken])
    # What was given back before anything was taken there belongs to before the capture.
    late = given_back[rows.at_ns[given_back] >= first_ns[key[given_back]]]
    back = late[np.lexsort((rows.at_ns[late], key[late]))]
    ends = _turns(key[back])
    known = {
        pair: int(at_ns)
        for pair, at_ns in zip(
            zip(key[back].tolist(), ends.tolist(), strict=True), rows.at_ns[back], strict=True
        )
    }
    pairs = zip(key[order].tolist(), _turns(key[order]).tolist(), strict=True)
    found = np.array([known.get(pair, _NEVER) for pair in pairs], dtype=np.int64)
    end_ns = np.maximum(found, rows.at_ns[order])
    return Pieces(order, rows.at_ns[order], end_ns, rows.bytes[order])


def _told(column: Int64s, reason: str) -> int | Missing:
    most = int(column.max(initial=UNTOLD))
    return most if most > 0 else Missing(reason)


def _key(rows: Allocations) -> Int64s:
    """Return a number for each place: an address, else an op with a size."""
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


def _turns(keys: Int64s) -> Int64s:
    """Return the place of each among those with its key, which stand together."""
    if not len(keys):
        return np.zeros(0, dtype=np.int64)
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    counts = np.diff(np.concatenate((first, [len(keys)])))
    return np.arange(len(keys), dtype=np.int64) - np.repeat(first, counts)


# The memory of an accelerator, not the pinned memory of the host that it copies through.
_DEVICE, _OF_HOST = "GPU", "host"


@dataclass(frozen=True, slots=True)
class Fullest:
    """One allocator of an accelerator: the most it held in a traced step, and in its life."""

    process: int
    device: str
    allocator: str
    top_bytes: int
    lifetime_peak_bytes: int | Missing
    capacity_bytes: int | Missing


def fullest(profile: Profile) -> tuple[Fullest, ...]:
    """Return the allocators of accelerators, of each process that with most in it first."""
    rows = profile.allocations
    is_theirs = _has(rows, rows.device, _DEVICE) | _has(rows, rows.allocator, _DEVICE)
    rows = rows.only(is_theirs & ~_has(rows, rows.allocator, _OF_HOST.upper()))
    found = _each(profile, rows) if len(rows) else ()
    return tuple(
        sorted(found, key=lambda each: (each.process, -each.top_bytes, each.device, each.allocator))
    )


def _has(rows: Allocations, column: Int32s, text: str) -> Flags:
    """Say which rows have a text in a column, in capitals or not."""
    return having(rows.strings, column, lambda each: text in each.upper())


def _each(profile: Profile, rows: Allocations) -> Iterator[Fullest]:
    process = np.array([capture.process for capture in profile.captures], dtype=np.int64)[
        rows.capture
    ]
    strings = len(rows.strings.values)
    codes, code = np.unique(
        (process * strings + rows.device) * strings + rows.allocator, return_inverse=True
    )
    for number in range(len(codes)):
        mine = rows.only(code == number)
        if not ((mine.bytes > 0).any() or (mine.in_use_bytes > 0).any()):
            continue
        first = int(np.argmax(code == number))
        yield Fullest(
            process=int(process[first]),
            device=mine.strings[mine.device[0]],
            allocator=mine.strings[mine.allocator[0]],
            top_bytes=max(level(each).top_bytes for _, each in mine.by_capture()),
            lifetime_peak_bytes=lifetime_peak_bytes(mine),
            capacity_bytes=capacity_bytes(mine),
        )


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """The most that an accelerator's memory held, and what there is of it."""

    device: str
    peak_bytes: int
    capacity_bytes: int


def device_memories(profile: Profile) -> dict[int, tuple[DeviceMemory, ...]]:
    """Return by process the fullest that its devices were, where their allocators told."""
    found: dict[int, tuple[DeviceMemory, ...]] = {}
    for each in fullest(profile):
        peak, capacity = each.lifetime_peak_bytes, each.capacity_bytes
        if isinstance(peak, Missing) or isinstance(capacity, Missing) or not capacity:
            continue
        memory = DeviceMemory(each.device or each.allocator, peak, capacity)
        found[each.process] = (*found.get(each.process, ()), memory)
    return found
