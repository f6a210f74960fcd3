"""Compare the memory of two recordings: what ops ask for in a step, what processes hold at most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.compare.matching_loops import Pair
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.profile import Profile, Work


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """So many bytes in A and in B. One measurement each: it is compared as it is."""

    of: str
    before_bytes: int
    after_bytes: int

    @property
    def ratio(self) -> float:
        return self.after_bytes / self.before_bytes - 1 if self.before_bytes else 0.0


def memory_changes(
    before: Profile, after: Profile, pairs: Sequence[Pair]
) -> tuple[MemoryChange, ...] | Missing:
    """Return what both recordings tell of memory, or why they tell nothing."""
    found = [
        *(_requested(before, after, pair) for pair in pairs),
        *_allocators(before, after),
        _change("resident memory of a process, at most", _resident(before), _resident(after)),
        _change("memory in use of an accelerator, at most", _device(before), _device(after)),
    ]
    known = tuple(each for each in found if each is not None)
    return known or Missing("they do not both tell of memory")


def _requested(before: Profile, after: Profile, pair: Pair) -> MemoryChange | None:
    name = f"{pair.before.kind} {pair.before.name}: requested by ops in a step"
    return _change(name, _of_steps(before, pair.before), _of_steps(after, pair.after))


def requested_growth_ratio(before: Profile, after: Profile, pair: Pair) -> float:
    """Return by how much more the ops of a step ask for in B; 0 where that is not known."""
    found = _requested(before, after, pair)
    return 0.0 if found is None else found.ratio


def _allocators(before: Profile, after: Profile) -> Iterator[MemoryChange | None]:
    """Give what each allocator held at most in the sampled steps."""
    sides = (_held(before), _held(after))
    for name in sorted(sides[0].keys() & sides[1].keys()):
        yield _change(f"allocator {name}: held at most", sides[0][name], sides[1][name])


def _held(profile: Profile) -> dict[str, int]:
    rows = profile.allocations
    most = np.full(len(rows.strings.values), -1, dtype=np.int64)
    np.maximum.at(most, rows.allocator, rows.in_use_bytes)
    return {rows.strings[int(each)]: int(most[each]) for each in np.flatnonzero(most > 0)}


def _change(of: str, before: int, after: int) -> MemoryChange | None:
    return MemoryChange(of, before, after) if before > 0 and after > 0 else None


def _of_steps(profile: Profile, work: Work) -> int:
    """Return the median of what ops asked their allocators for in a sampled step, 0 unknown."""
    captures = [
        capture.index
        for capture in profile.captures
        if (capture.process, capture.work) == (work.process, work.index)
    ]
    rows = profile.executions
    mine = np.isin(rows.capture, captures) & (rows.place == Place.HOST) & ~rows.background
    sums = np.bincount(rows.capture[mine], rows.bytes[mine], minlength=len(profile.captures))
    return int(np.median(sums[captures])) if captures else 0


def _resident(profile: Profile) -> int:
    held = (pulse.peak_resident_bytes for pulse in profile.pulses)
    return max((each for each in held if not isinstance(each, Missing)), default=0)


def _device(profile: Profile) -> int:
    held = (device.memory_used_bytes for pulse in profile.pulses for device in pulse.devices)
    return max((each for each in held if not isinstance(each, Missing)), default=0)
