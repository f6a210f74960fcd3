"""Compare the times of steps and their parts, and the memory, of two recordings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.breakdown.cycles import LoopParts, StepParts
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.analysis.compare.matching_loops import LoopPair, Matches
from tfprobe.analysis.compare.measurements import (
    LEAST_BLOCKS,
    Change,
    MeasuredLevel,
    MeasuredSample,
    compare,
    sample,
)
from tfprobe.analysis.compare.op_changes import LEAST_SHARE_RATIO, CostChange, too_few
from tfprobe.analysis.steps.step_window import recent_window, warm_up_steps
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.profile import Loop, Profile

# The median of fewer is unstable.
STEPS_A_BLOCK = 4
LEAST_STEPS = LEAST_BLOCKS * STEPS_A_BLOCK

# What is compared: its name in documents, and in words.
MEASURES: Mapping[str, str] = {
    "step": "median step",
    "fast": "fast step (p10)",
    "gap": "median gap",
    "cycle": "mean step with gap",
    "fast_cycle": "fast step with gap (p10)",
}
# Not the gap: by itself it says little, and the cycle includes it.
JUDGED: tuple[str, ...] = ("step", "fast", "cycle")
# If other processes keep the CPUs busy, medians and means depend on them as much as on the job.
JUDGED_WHEN_BUSY: tuple[str, ...] = ("fast", "fast_cycle")

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StepChange:
    """How the steps of a loop changed, in ns.

    `step` is the median step and `fast` the 10th percentile, which a busy machine hardly affects;
    `gap` is the median time between two steps. `cycle` is the mean of a step with its gap, in which
    a few long ones count: its inverse is the rate of steps. `fast_cycle` is the 10th percentile of
    a step with its gap.
    """

    pair: LoopPair
    step: Change | Missing
    fast: Change | Missing
    gap: Change | Missing
    cycle: Change | Missing
    fast_cycle: Change | Missing

    @property
    def measures(self) -> tuple[tuple[str, Change | Missing], ...]:
        """Return what was compared, by its name in MEASURES."""
        return tuple((name, getattr(self, name)) for name in MEASURES)


@dataclass(frozen=True, slots=True)
class Times:
    """The samples of one recording that are compared."""

    step: MeasuredSample
    fast: MeasuredSample
    gap: MeasuredSample
    cycle: MeasuredSample
    fast_cycle: MeasuredSample


def step_changes(before: Profile, after: Profile, matches: Matches) -> tuple[StepChange, ...]:
    """Return how steps changed in each pair of loops; changes are Missing if there are too few."""
    sides = [(times_of(before, p.before), times_of(after, p.after)) for p in matches.pairs]
    # Every measure is compared, in every loop with enough steps.
    comparisons = len(MEASURES) * sum(
        min(one.step.count, other.step.count) >= LEAST_STEPS for one, other in sides
    )
    return tuple(
        StepChange(
            pair=pair,
            step=compare(one.step, other.step, comparisons=comparisons),
            fast=compare(one.fast, other.fast, comparisons=comparisons),
            gap=compare(one.gap, other.gap, comparisons=comparisons),
            cycle=compare(one.cycle, other.cycle, comparisons=comparisons),
            fast_cycle=compare(one.fast_cycle, other.fast_cycle, comparisons=comparisons),
        )
        for pair, (one, other) in zip(matches.pairs, sides, strict=True)
    )


def times_of(profile: Profile, loop: Loop) -> Times:
    """Return the samples of the regular steps of a loop after the warm-up."""
    window = recent_window(loop, profile.loops)
    warm_up = warm_up_steps(window)
    is_warm = window.numbers >= (0 if isinstance(warm_up, Missing) else warm_up)
    steps = window.counts & is_warm
    gaps = window.gap_counts & is_warm
    cycles_ns = (window.step_ns + window.gap_ns)[steps & gaps]
    return Times(
        step=_sample(window.step_ns[steps], MeasuredLevel.MEDIAN),
        fast=_sample(window.step_ns[steps], MeasuredLevel.FAST),
        gap=_sample(window.gap_ns[gaps], MeasuredLevel.MEDIAN),
        cycle=_sample(cycles_ns, MeasuredLevel.MEAN),
        fast_cycle=_sample(cycles_ns, MeasuredLevel.FAST),
    )


def _sample(times_ns: Int64s, level: MeasuredLevel) -> MeasuredSample:
    return sample(times_ns, block_size=STEPS_A_BLOCK, level=level)


def part_changes(
    before: Sequence[LoopParts], after: Sequence[LoopParts], pair: LoopPair
) -> tuple[CostChange, ...] | Missing:
    """Return how the parts of the traced cycles of a pair changed, the largest first."""
    one, other = traced_cycles(before, pair.before), traced_cycles(after, pair.after)
    if not one or not other:
        return Missing("no step was traced in both")
    if _is_watched(one) != _is_watched(other):
        return Missing("the time between steps was watched in only one of them")
    wholes_ns = (_cycle_ns(one), _cycle_ns(other))
    parts = [
        part
        for part in Part
        if _mean_ns(one, part) >= LEAST_SHARE_RATIO * wholes_ns[0]
        or _mean_ns(other, part) >= LEAST_SHARE_RATIO * wholes_ns[1]
    ]
    changes = [_change(one, other, part, comparisons=len(parts)) for part in parts]
    return tuple(sorted(changes, key=lambda cost: (not cost.is_significant, -abs(cost.delta_ns))))


def traced_cycles(all_parts: Sequence[LoopParts], loop: Loop) -> list[StepParts]:
    """Return the traced cycles of a loop without its first step, in order."""
    mine = [parts for parts in all_parts if parts.loop is loop]
    steps = sorted((step for parts in mine for step in parts.steps), key=_number)
    return [step for step in steps if _number(step) > 0] or steps


def _number(step: StepParts) -> int:
    return step.capture.step


def _is_watched(steps: Sequence[StepParts]) -> bool:
    return any(not isinstance(step.between_ns, Missing) for step in steps)


def _cycle_ns(steps: Sequence[StepParts]) -> float:
    return sum(step.cycle_ns for step in steps) / len(steps)


def _mean_ns(steps: Sequence[StepParts], part: Part) -> float:
    return sum(step.parts.get(part, 0) for step in steps) / len(steps)


def _change(
    before: Sequence[StepParts], after: Sequence[StepParts], part: Part, *, comparisons: int
) -> CostChange:
    one, other = (
        np.array([step.parts.get(part, 0) for step in steps], dtype=np.int64)
        for steps in (before, after)
    )
    change = too_few(len(one), len(other)) or compare(
        sample(one, block_size=1), sample(other, block_size=1), comparisons=comparisons
    )
    return CostChange(part.value, float(one.mean()), float(other.mean()), change)


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """Bytes in A and in B, one measurement each, so without an interval."""

    of: str
    before_bytes: int
    after_bytes: int

    @property
    def ratio(self) -> float:
        return self.after_bytes / self.before_bytes - 1 if self.before_bytes else 0.0


def memory_changes(
    before: Profile, after: Profile, pairs: Sequence[LoopPair]
) -> tuple[MemoryChange, ...] | Missing:
    """Return the memory that both recordings have, or why there is none."""
    found = [
        *(_requested(before, after, pair) for pair in pairs),
        *_allocators(before, after),
        _memory_change(
            "resident memory of a process, at most", _resident(before), _resident(after)
        ),
        _memory_change("memory in use of an accelerator, at most", _device(before), _device(after)),
    ]
    known = tuple(change for change in found if change is not None)
    return known or Missing("not both have memory data")


def _requested(before: Profile, after: Profile, pair: LoopPair) -> MemoryChange | None:
    name = f"{pair.before.kind} {pair.before.name}: requested by ops in a step"
    return _memory_change(name, _of_steps(before, pair.before), _of_steps(after, pair.after))


def requested_growth_ratio(before: Profile, after: Profile, pair: LoopPair) -> float:
    """Return how much more the ops of a step request in B, 0 if unknown."""
    found = _requested(before, after, pair)
    return 0.0 if found is None else found.ratio


def _allocators(before: Profile, after: Profile) -> Iterator[MemoryChange | None]:
    """Yield the most that each allocator held in the traced steps."""
    sides = (_allocated(before), _allocated(after))
    for name in sorted(sides[0].keys() & sides[1].keys()):
        yield _memory_change(f"allocator {name}: held at most", sides[0][name], sides[1][name])


def _allocated(profile: Profile) -> dict[str, int]:
    rows = profile.allocations
    most = np.full(len(rows.strings.values), -1, dtype=np.int64)
    np.maximum.at(most, rows.allocator, rows.in_use_bytes)
    return {rows.strings[int(name)]: int(most[name]) for name in np.flatnonzero(most > 0)}


def _memory_change(of: str, before: int, after: int) -> MemoryChange | None:
    return MemoryChange(of, before, after) if before > 0 and after > 0 else None


def _of_steps(profile: Profile, loop: Loop) -> int:
    """Return the median of the bytes that ops requested in a traced step, 0 if unknown."""
    captures = [
        capture.index
        for capture in profile.captures
        if (capture.process, capture.loop) == (loop.process, loop.index)
    ]
    rows = profile.executions
    mine = np.isin(rows.capture, captures) & (rows.place == Place.HOST) & ~rows.background
    sums = np.bincount(rows.capture[mine], rows.bytes[mine], minlength=len(profile.captures))
    return int(np.median(sums[captures])) if captures else 0


def _resident(profile: Profile) -> int:
    sizes = (sample.peak_resident_bytes for sample in profile.resource_samples)
    return max((size for size in sizes if not isinstance(size, Missing)), default=0)


def _device(profile: Profile) -> int:
    sizes = (
        device.memory_used_bytes for sample in profile.resource_samples for device in sample.devices
    )
    return max((size for size in sizes if not isinstance(size, Missing)), default=0)
