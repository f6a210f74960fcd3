"""Divide the time between two steps into parts, from the gaps that the agent watched.

Watching lengthens a gap of many short calls several times, and the agent cannot measure by how
much. The unwatched gaps of the loop can: a watched gap says how the time between steps divides,
not how long it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfprobe.analysis.breakdown.gap_calls import OwnTime, Usual, added_ns, own_times, usual_gaps
from tfprobe.analysis.breakdown.step_parts import Part
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
class GapCause:
    """Something that time went to, by the call or the phase it was spent in.

    `file` is "" and `line` 0 where no line of Python stands for it.
    """

    part: Part
    what: str
    file: str
    line: int
    duration_ns: int

    @property
    def source(self) -> str:
        """Return the line as "file:line", "" where there is none."""
        return f"{self.file}:{self.line}" if self.file else ""


@dataclass(frozen=True, slots=True)
class GapBreakdown:
    """The parts of the time between two steps, summing to `duration_ns`, and what they went to.

    What watching cost is taken out.
    """

    duration_ns: int
    parts: Mapping[Part, int]
    causes: tuple[GapCause, ...]


def divide_gap(gap: Gap, *, has_accelerator: bool, usual: Usual | None = None) -> GapBreakdown:
    """Return the parts of a gap. Without an accelerator, reading a value waits for nothing.

    Where watching made it several times as long, it is taken to have been as long as is `usual`.
    """
    parts: dict[Part, int] = {}
    causes: dict[tuple[Part, str, str, int], int] = {}
    whole_ns = 0
    for each in own_times(gap, usual):
        part = _meant(each, has_accelerator=has_accelerator)
        parts[part] = parts.get(part, 0) + each.own_ns
        key = (part, each.what, each.file, each.line)
        causes[key] = causes.get(key, 0) + each.own_ns
        whole_ns += each.own_ns
    found = [GapCause(*key, duration_ns=ns) for key, ns in causes.items() if ns]
    return GapBreakdown(
        duration_ns=whole_ns,
        parts={part: ns for part, ns in parts.items() if ns},
        causes=tuple(sorted(found, key=lambda cause: -cause.duration_ns)),
    )


def resize_gap(item: GapBreakdown, kept_ns: int) -> GapBreakdown:
    """Return a gap made so long, each part in its share; what a division leaves over is idle."""
    whole_ns = item.duration_ns or 1
    parts = {part: ns * kept_ns // whole_ns for part, ns in item.parts.items()}
    left_ns = kept_ns - sum(parts.values())
    if left_ns:
        parts[Part.IDLE] = parts.get(Part.IDLE, 0) + left_ns
    causes = tuple(
        replace(cause, duration_ns=cause.duration_ns * kept_ns // whole_ns) for cause in item.causes
    )
    return GapBreakdown(kept_ns, {part: ns for part, ns in parts.items() if ns}, causes)


def _meant(own: OwnTime, *, has_accelerator: bool) -> Part:
    """Return the part of a call; without an accelerator reading a value waits for nothing."""
    if own.part is not Part.SYNC_WAIT or has_accelerator:
        return own.part
    return Part.CALLBACKS if own.in_callback else Part.FETCH


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
        found = divide_gap(gap, has_accelerator=has_accelerator, usual=self.usual)
        # While late kernels ran, the thread was already on its way to the next step.
        return resize_gap(found, max(int(found.duration_ns * self.scale) - late_ns, 0))


def watched_gaps(
    profile: Profile, loops: Mapping[tuple[int, int], Loop]
) -> dict[tuple[int, int], WatchedGaps]:
    """Return the watched gaps that are no longer than usual, by process and work."""
    of_loops: dict[tuple[int, int], list[Gap]] = {}
    for gap in gaps_before_steps(profile):
        of_loops.setdefault((gap.process, gap.loop), []).append(gap)
    return {key: _usual(loops.get(key), gaps) for key, gaps in of_loops.items()}


def _usual(loop: Loop | None, gaps: Sequence[Gap]) -> WatchedGaps:
    usual = None if loop is None else usual_gaps(loop)
    if usual is None:
        return WatchedGaps(_by_step(gaps))
    if sum(gap.cost_ns for gap in gaps) < LEAST_COST_RATIO * sum(map(_computed_ns, gaps)):
        return WatchedGaps(_by_step(gap for gap in gaps if gap.duration_ns <= usual.longest_ns))
    kept = _undisturbed(gaps, usual)
    mean_ns = float(np.mean([gap.duration_ns - added_ns(gap, usual) for gap in kept]))
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


def gaps_before_steps(profile: Profile, *, with_foreseen: bool = False) -> tuple[Gap, ...]:
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
