"""Say how full accelerators were over a process's life, as their allocators told. Knows no ops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tfprobe.errors import Missing
from tfprobe.model.allocations import Allocations
from tfprobe.model.profile import Profile
from tfprobe.model.tables import Flags, Int32s, having
from tfprobe.views.memory.levels import capacity_bytes, level, lifetime_peak_bytes

# The memory of an accelerator, not the pinned memory of the host that it copies through.
_DEVICE, _OF_HOST = "GPU", "host"


@dataclass(frozen=True, slots=True)
class Fullest:
    """One allocator of an accelerator: the most it held in a sampled step, and in its life."""

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
    process = np.array([each.process for each in profile.captures], dtype=np.int64)[rows.capture]
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
