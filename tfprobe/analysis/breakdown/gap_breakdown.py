"""Divide the time between two steps into parts, from the gaps that the agent watched.

Watching makes a gap of many short calls several times longer, and the agent cannot measure by how
much. The length is therefore taken from the unwatched gaps of the loop; a watched gap only says how
that time divides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfprobe.analysis.breakdown.gap_calls import (
    OwnTime,
    Usual,
    added_ns,
    own_times,
    usual_gaps,
)
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.errors import Missing
from tfprobe.profile.activities import Gap
from tfprobe.profile.profile import Loop, Profile

# Where watching took a smaller share of the CPU time of gaps than this, their measured length is
# used.
LEAST_COST_RATIO = 0.1
# A thread that computes is off its CPU for a smaller share of the time, unless others run.
_OFF_CPU_RATIO = 0.2
# At least so many gaps are kept, even if their thread had to wait.
_FEWEST_KEPT = 3


@dataclass(frozen=True, slots=True)
class GapCause:
    """Time spent in one part, by the call or the phase it was spent in.

    `file` is "" and `line` 0 where no line of Python is known.
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
    """The parts of the time between two steps, which sum to `duration_ns`, and their causes.

    The cost of watching is excluded.
    """

    duration_ns: int
    parts: Mapping[Part, int]
    causes: tuple[GapCause, ...]


def divide_gap(gap: Gap, *, has_accelerator: bool, usual: Usual | None = None) -> GapBreakdown:
    """Return the parts of a gap. Reading a value waits for an accelerator.

    With `usual`, a gap that watching made several times longer counts with its usual length.
    """
    parts: dict[Part, int] = {}
    times_ns: dict[tuple[Part, str, str, int], int] = {}
    for own in own_times(gap, usual):
        part = _part(own, has_accelerator=has_accelerator)
        parts[part] = parts.get(part, 0) + own.own_ns
        key = (part, own.what, own.file, own.line)
        times_ns[key] = times_ns.get(key, 0) + own.own_ns
    causes = [GapCause(*key, duration_ns=ns) for key, ns in times_ns.items() if ns]
    return GapBreakdown(
        duration_ns=sum(parts.values()),
        parts={part: ns for part, ns in parts.items() if ns},
        causes=tuple(sorted(causes, key=lambda cause: -cause.duration_ns)),
    )


def resize_gap(gap: GapBreakdown, duration_ns: int) -> GapBreakdown:
    """Return a gap scaled to a duration, its parts in proportion; what rounding leaves is idle."""
    before_ns = gap.duration_ns or 1
    parts = {part: ns * duration_ns // before_ns for part, ns in gap.parts.items()}
    left_ns = duration_ns - sum(parts.values())
    if left_ns:
        parts[Part.IDLE] = parts.get(Part.IDLE, 0) + left_ns
    causes = tuple(
        replace(cause, duration_ns=cause.duration_ns * duration_ns // before_ns)
        for cause in gap.causes
    )
    return GapBreakdown(duration_ns, {part: ns for part, ns in parts.items() if ns}, causes)


def _after_kernels(gap: GapBreakdown, late_ns: int) -> GapBreakdown:
    """Return what is left of a gap without the `late_ns` in which kernels of the step still ran.

    That time is part of the step; what waited for the step in the gap was the same time.
    """
    waited_ns = gap.parts.get(Part.SYNC_WAIT, 0)
    left_ns = max(gap.duration_ns - late_ns, 0)
    if not waited_ns or not late_ns:
        return resize_gap(gap, left_ns)
    kept_ns = max(waited_ns - late_ns, 0)
    parts = {**gap.parts, Part.SYNC_WAIT: kept_ns}
    causes = (
        replace(cause, duration_ns=cause.duration_ns * kept_ns // waited_ns)
        if cause.part is Part.SYNC_WAIT
        else cause
        for cause in gap.causes
    )
    rest = GapBreakdown(
        gap.duration_ns - waited_ns + kept_ns,
        {part: ns for part, ns in parts.items() if ns},
        tuple(cause for cause in causes if cause.duration_ns),
    )
    return resize_gap(rest, left_ns)


def _part(own: OwnTime, *, has_accelerator: bool) -> Part:
    """Return the part of a call's own time; without an accelerator, reading a value is no wait."""
    if own.part is not Part.SYNC_WAIT or has_accelerator:
        return own.part
    return Part.CALLBACKS if own.in_callback else Part.FETCH


@dataclass(frozen=True, slots=True)
class WatchedGaps:
    """The watched gaps of one loop by the number of the step before; each counts `scale` times.

    `usual` is set where watching made them so much longer that their length is taken from it.
    """

    by_step: Mapping[int, Gap]
    usual: Usual | None = None
    scale: float = 1.0

    def divide(self, step: int, *, has_accelerator: bool, late_ns: int) -> GapBreakdown:
        """Return the parts of the gap after a step whose kernels ended `late_ns` after its call.

        While late kernels ran, the thread was already on its way to the next step.
        """
        gap = divide_gap(self.by_step[step], has_accelerator=has_accelerator, usual=self.usual)
        return _after_kernels(resize_gap(gap, int(gap.duration_ns * self.scale)), late_ns)


def watched_gaps(
    profile: Profile, loops: Mapping[tuple[int, int], Loop]
) -> dict[tuple[int, int], WatchedGaps]:
    """Return the watched gaps that are no longer than usual, by process and loop."""
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
    # Watching makes no gap shorter: where unwatched gaps are longer, something else made them so.
    return WatchedGaps(_by_step(kept), usual, min(usual.mean_ns / mean_ns, 1.0) if mean_ns else 1.0)


def _by_step(gaps: Iterable[Gap]) -> dict[int, Gap]:
    return {gap.step: gap for gap in gaps}


def _undisturbed(gaps: Sequence[Gap], usual: Usual) -> list[Gap]:
    """Return the gaps in which the thread kept its CPU, and waited no longer than is usual.

    A cut gap shows only its beginning: it counts where there are no others.
    """
    complete = [gap for gap in gaps if not gap.cut] or gaps
    by_wait = sorted(complete, key=_off_cpu_ns)
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
    """Return the watched gaps that led to another step.

    Gaps that were watched because a long one was due (`foreseen`) are left out unless wanted. A cut
    gap before the last step is kept: only its watch ended early.
    """
    executed = {(loop.process, loop.index): loop.executed for loop in profile.loops}
    return tuple(
        gap
        for gap in profile.gaps
        if with_foreseen or gap.why != "foreseen"
        if not gap.cut or gap.step + 1 < executed.get((gap.process, gap.loop), 0)
    )
