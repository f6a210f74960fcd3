"""The usual gaps of each loop that were watched, set right by those that nobody watched.

Watching lengthens a gap of many short calls several times, and the agent cannot tell by how much.
The gaps beside it can: so a watched gap divides the time between steps, and does not measure it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.breakdown import gap_breakdown
from tfprobe.analysis.breakdown.gap_breakdown import GapBreakdown, Usual
from tfprobe.errors import Missing
from tfprobe.profile.activities import Gap
from tfprobe.profile.profile import Loop, Profile

# Where watching took less of the CPU time of gaps than this, they are taken to be as long as they
# were seen to be.
LEAST_COST_RATIO = 0.1
# A thread that computes is off its CPU for less than this part of the time, unless others run.
_OFF_CPU_RATIO = 0.2
# So many gaps are kept, whatever came between.
_FEWEST_KEPT = 3


@dataclass(frozen=True, slots=True)
class WatchedGaps:
    """Those of one work by the number of the step before; what is left counts `scale` times.

    `usual` is given where watching made them so much longer that they are measured by it.
    """

    by_step: Mapping[int, Gap]
    usual: Usual | None = None
    scale: float = 1.0

    def divide(self, step: int, *, has_accelerator: bool, late_ns: int) -> GapBreakdown:
        """Return the parts of the gap after a step whose kernels ended so much after its call."""
        gap = self.by_step[step]
        found = gap_breakdown.divide(gap, has_accelerator=has_accelerator, usual=self.usual)
        # While late kernels ran, the thread was already on its way to the next step.
        return gap_breakdown.resized(found, max(int(found.duration_ns * self.scale) - late_ns, 0))


def watched_gaps(
    profile: Profile, loops: Mapping[tuple[int, int], Loop]
) -> dict[tuple[int, int], WatchedGaps]:
    """Return the watched gaps that are no longer than usual, by process and work."""
    of_loops: dict[tuple[int, int], list[Gap]] = {}
    for gap in followed(profile):
        of_loops.setdefault((gap.process, gap.loop), []).append(gap)
    return {key: _usual(loops.get(key), gaps) for key, gaps in of_loops.items()}


def _usual(loop: Loop | None, gaps: Sequence[Gap]) -> WatchedGaps:
    usual = None if loop is None else gap_breakdown.usual_gaps(loop)
    if usual is None:
        return WatchedGaps(_by_step(gaps))
    if sum(gap.cost_ns for gap in gaps) < LEAST_COST_RATIO * sum(map(_computed_ns, gaps)):
        return WatchedGaps(_by_step(gap for gap in gaps if gap.duration_ns <= usual.longest_ns))
    kept = _undisturbed(gaps, usual)
    mean_ns = float(np.mean([gap.duration_ns - gap_breakdown.added_ns(gap, usual) for gap in kept]))
    # Watching makes no gap shorter: others that are longer are so for reasons of their own.
    return WatchedGaps(_by_step(kept), usual, min(usual.mean_ns / mean_ns, 1.0) if mean_ns else 1.0)


def _by_step(gaps: Iterable[Gap]) -> dict[int, Gap]:
    return {gap.step: gap for gap in gaps}


def _undisturbed(gaps: Sequence[Gap], usual: Usual) -> list[Gap]:
    """Return the gaps in which the thread kept its CPU, and waited no longer than is usual.

    Of what was cut one sees the beginning alone: it counts where there is nothing else.
    """
    whole = [gap for gap in gaps if not gap.cut] or gaps
    by_wait = sorted(whole, key=_off_cpu_ns)
    kept = [
        gap
        for gap in by_wait
        if _off_cpu_ns(gap) <= max(usual.median_ns, _OFF_CPU_RATIO * gap.duration_ns)
    ]
    return kept if len(kept) >= _FEWEST_KEPT else by_wait[:_FEWEST_KEPT]


def _computed_ns(gap: Gap) -> int:
    return gap.duration_ns if isinstance(gap.cpu_ns, Missing) else gap.cpu_ns


def _off_cpu_ns(gap: Gap) -> int:
    return gap.duration_ns - _computed_ns(gap)


def followed(profile: Profile, *, with_foreseen: bool = False) -> tuple[Gap, ...]:
    """Return the gaps without those that were watched because a long one was due, unless wanted.

    Without those after the last step of a loop, too: they led to no step. A gap that is cut before
    that is kept: only its watch ended early.
    """
    executed = {(loop.process, loop.index): loop.executed for loop in profile.loops}
    return tuple(
        gap
        for gap in profile.gaps
        if with_foreseen or gap.why != "foreseen"
        if not gap.cut or gap.step + 1 < executed.get((gap.process, gap.loop), 0)
    )
