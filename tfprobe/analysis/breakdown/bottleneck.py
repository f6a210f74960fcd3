"""Answer the question people bring: is it the input, the host, the bus, the device, or others?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tfprobe.analysis.breakdown.step_parts import DEVICE_COMPUTE, Part


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
    Bound.AFTERWARDS: "sees to results, callbacks and checkpoints",
    Bound.PYTHON: "is left to Python and the executor",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Shares of the cycle by whom it waits for, largest first; those of nothing are left out."""

    shares: tuple[tuple[Bound, float], ...]

    @property
    def first(self) -> tuple[Bound, float]:
        return self.shares[0]


def judge(shares: Mapping[Part, float]) -> Verdict:
    """Return the verdict over the shares of a cycle, of what is not spent on recording it."""
    sums = {bound: sum(shares.get(part, 0.0) for part in parts) for bound, parts in BOUNDS.items()}
    whole = sum(sums.values()) or 1.0
    sums = {bound: share / whole for bound, share in sums.items()}
    found = sorted(sums.items(), key=lambda each: -each[1])
    return Verdict(tuple((bound, share) for bound, share in found if share > 0))
