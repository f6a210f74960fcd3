"""Compare how long the steps of a work take in two recordings, and the time between them.

Compared are steps that count (see step_window.py) from the end of the warm-up on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.compare.matching_loops import Matches, Pair
from tfprobe.analysis.compare.measurements import (
    LEAST_BLOCKS,
    Change,
    Level,
    Sample,
    compare,
    sample,
)
from tfprobe.analysis.steps.step_window import remember, warm_up_steps
from tfprobe.errors import Missing
from tfprobe.profile.profile import Profile, Work

# The median of fewer jumps about.
STEPS_A_BLOCK = 4
LEAST_STEPS = LEAST_BLOCKS * STEPS_A_BLOCK

# What is compared, by its name in documents, and in words.
MEASURES: Mapping[str, str] = {
    "step": "median step",
    "fast": "fast step (p10)",
    "gap": "median gap",
    "cycle": "mean step with gap",
    "fast_cycle": "fast step with gap (p10)",
}
# A longer gap by itself says little, and is in the cycle.
JUDGED: tuple[str, ...] = ("step", "fast", "cycle")
# Where others keep the CPUs busy, medians and means are theirs as much as the job's.
JUDGED_WHEN_BUSY: tuple[str, ...] = ("fast", "fast_cycle")

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StepChange:
    """How the steps of a work changed, in ns.

    `step` is the median step and `fast` the step that a tenth are faster than, which others that
    keep the machine busy hardly move; `gap` is the median time between two. `cycle` is the mean of
    a step with its gap, so that a few long ones count as well: one over it is the rate of steps.
    `fast_cycle` is the step with its gap that a tenth are faster than.
    """

    pair: Pair
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
    """What is compared of one recording."""

    step: Sample
    fast: Sample
    gap: Sample
    cycle: Sample
    fast_cycle: Sample


def step_changes(before: Profile, after: Profile, matches: Matches) -> tuple[StepChange, ...]:
    """Return how steps changed in each pair of works; those with too few say so."""
    sides = [(times_of(before, p.before), times_of(after, p.after)) for p in matches.pairs]
    # All are looked at for a change, in every work that has enough.
    asked = len(MEASURES) * sum(
        min(one.step.count, other.step.count) >= LEAST_STEPS for one, other in sides
    )
    return tuple(
        StepChange(
            pair=pair,
            step=compare(one.step, other.step, asked=asked),
            fast=compare(one.fast, other.fast, asked=asked),
            gap=compare(one.gap, other.gap, asked=asked),
            cycle=compare(one.cycle, other.cycle, asked=asked),
            fast_cycle=compare(one.fast_cycle, other.fast_cycle, asked=asked),
        )
        for pair, (one, other) in zip(matches.pairs, sides, strict=True)
    )


def times_of(profile: Profile, work: Work) -> Times:
    """Return the steps of a work that count, from the end of the warm-up on."""
    remembered = remember(work, profile.works)
    warm_up = warm_up_steps(remembered)
    is_warm = remembered.numbers >= (0 if isinstance(warm_up, Missing) else warm_up)
    steps = remembered.counts & is_warm
    gaps = remembered.gap_counts & is_warm
    cycles_ns = (remembered.step_ns + remembered.gap_ns)[steps & gaps]
    return Times(
        step=_sample(remembered.step_ns[steps], Level.MEDIAN),
        fast=_sample(remembered.step_ns[steps], Level.FAST),
        gap=_sample(remembered.gap_ns[gaps], Level.MEDIAN),
        cycle=_sample(cycles_ns, Level.MEAN),
        fast_cycle=_sample(cycles_ns, Level.FAST),
    )


def _sample(times_ns: Int64s, level: Level) -> Sample:
    return sample(times_ns, each_block=STEPS_A_BLOCK, level=level)
