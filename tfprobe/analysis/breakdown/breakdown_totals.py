"""Sum up the cycles of all loops of a run: those of each process by itself, then merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from tfprobe.analysis.breakdown.cycles import LoopParts, by_loop
from tfprobe.analysis.breakdown.gap_breakdown import GapCause
from tfprobe.analysis.breakdown.step_parts import DEVICE_COMPUTE, GROUPS, ON_DEVICE, Part
from tfprobe.errors import Missing
from tfprobe.profile.profile import Profile

# Every share is a multiple of this, which a binary float holds exactly: shares sum to 1 exactly.
RESOLUTION = 1 << 20


@dataclass(frozen=True, slots=True)
class Cycle:
    """The mean cycle of one loop, with what the answer for a run takes of it and no steps.

    `weight_ns` is what all its steps took, sampled or not, with the time between them.
    """

    weight_ns: float
    cycle_ns: float
    shares: Mapping[Part, float]
    causes: tuple[GapCause, ...]


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Shares of the cycles of all loops, which sum to exactly 1; each part is there.

    Each loop has its weight, the first the most.
    """

    shares: Mapping[Part, float]
    loops: tuple[Cycle, ...]
    captures: int
    has_accelerator: bool

    @property
    def total_ns(self) -> float:
        """Return what all cycles of all loops took, of several processes together."""
        return sum(loop.weight_ns for loop in self.loops)

    @property
    def causes(self) -> tuple[tuple[GapCause, float], ...]:
        """Return what time went to in the cycles of all loops, with its share, largest first."""
        total_ns = self.total_ns or 1
        found: dict[tuple[Part, str, str, int], tuple[GapCause, float]] = {}
        for loop in self.loops:
            for cause in loop.causes:
                share = cause.duration_ns / (loop.cycle_ns or 1) * loop.weight_ns / total_ns
                key = (cause.part, cause.what, cause.file, cause.line)
                known, before = found.get(key, (cause, 0.0))
                found[key] = (known, before + share)
        return tuple(sorted(found.values(), key=lambda each: -each[1]))

    def group(self, name: str) -> float:
        """Return the share of before, on, after or other."""
        return sum(self.shares[part] for part in GROUPS[name])


def cycle(item: LoopParts) -> Cycle:
    """Return the mean cycle of a loop without its steps."""
    return Cycle(item.weight_ns, item.cycle_ns, item.shares, item.causes)


def merge(loops: Iterable[Cycle], captures: int) -> Breakdown | Missing:
    """Return the breakdown over all loops of so many traced steps."""
    if not captures:
        return Missing("no step was traced")
    ordered = tuple(sorted(loops, key=lambda loop: -loop.weight_ns))
    weighted: dict[Part, float] = {}
    for each in ordered:
        for part, share in each.shares.items():
            weighted[part] = weighted.get(part, 0.0) + share * each.weight_ns
    total_ns = sum(weighted.values())
    if total_ns <= 0:
        return Missing("the traced steps took no time")
    on_device = set(ON_DEVICE)
    return Breakdown(
        shares=_exact({part: ns / total_ns for part, ns in weighted.items()}),
        loops=ordered,
        captures=captures,
        has_accelerator=any(on_device & set(each.shares) for each in ordered),
    )


def divide(profile: Profile) -> Breakdown | Missing:
    """Return the breakdown of all traced steps."""
    return merge(map(cycle, by_loop(profile)), len(profile.captures))


def _exact(shares: Mapping[Part, float]) -> dict[Part, float]:
    """Return all parts with shares that sum to 1 exactly: what rounding leaves is idle."""
    units = {part: int(shares.get(part, 0.0) * RESOLUTION) for part in Part}
    units[Part.IDLE] += RESOLUTION - sum(units.values())
    return {part: number / RESOLUTION for part, number in units.items()}


class Bound(Enum):
    """Whom a moment of a step waits for."""

    INPUT = "input"
    BUS = "bus"
    DEVICE = "device"
    HOST = "host"
    OTHERS = "others"
    COMPILE = "compile"
    AFTERWARDS = "afterwards"
    PYTHON = "python"


BOUNDS: Mapping[Bound, tuple[Part, ...]] = {
    Bound.INPUT: (Part.INPUT_WAIT, Part.FEED, Part.HOST_PREPROCESS),
    Bound.BUS: (Part.HOST_TO_DEVICE, Part.DEVICE_TO_HOST, Part.DEVICE_TO_DEVICE),
    Bound.DEVICE: DEVICE_COMPUTE,
    Bound.HOST: (Part.HOST_COMPUTE, Part.KERNEL_LAUNCH),
    Bound.OTHERS: (Part.COLLECTIVES, Part.SYNC_WAIT),
    Bound.COMPILE: (Part.COMPILE,),
    Bound.AFTERWARDS: (Part.FETCH, Part.CALLBACKS, Part.SUMMARIES, Part.CHECKPOINTS),
    Bound.PYTHON: (Part.IDLE,),
}


# What a step does in such a moment.
DOES: Mapping[Bound, str] = {
    Bound.INPUT: "waits for its input",
    Bound.BUS: "waits for copies to or from the device",
    Bound.DEVICE: "computes on the device",
    Bound.HOST: "computes on the host",
    Bound.OTHERS: "waits for other devices or processes",
    Bound.COMPILE: "traces and compiles",
    Bound.AFTERWARDS: "handles results, callbacks and checkpoints",
    Bound.PYTHON: "waits for Python and the executor",
}


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """Shares of the cycle by whom it waits for, largest first; those of nothing are left out."""

    shares: tuple[tuple[Bound, float], ...]

    @property
    def first(self) -> tuple[Bound, float]:
        return self.shares[0]


def judge(shares: Mapping[Part, float]) -> Bottleneck:
    """Return the verdict over the shares of a cycle, of what is not spent on recording it."""
    sums = {bound: sum(shares.get(part, 0.0) for part in parts) for bound, parts in BOUNDS.items()}
    whole = sum(sums.values()) or 1.0
    sums = {bound: share / whole for bound, share in sums.items()}
    found = sorted(sums.items(), key=lambda each: -each[1])
    return Bottleneck(tuple((bound, share) for bound, share in found if share > 0))
