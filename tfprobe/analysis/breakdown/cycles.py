"""Divide every traced step with the time after it, and sum up over the steps of a loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.breakdown import step_breakdown
from tfprobe.analysis.breakdown.attribution import StepWindows
from tfprobe.analysis.breakdown.gap_breakdown import GapBreakdown, GapCause
from tfprobe.analysis.breakdown.row_kinds import names
from tfprobe.analysis.breakdown.step_breakdown import StepBreakdown
from tfprobe.analysis.breakdown.step_parts import ON_DEVICE, Part
from tfprobe.analysis.breakdown.watched_gaps import WatchedGaps, watched_gaps
from tfprobe.analysis.core.intervals import Intervals
from tfprobe.errors import Missing
from tfprobe.profile.activities import Activity
from tfprobe.profile.profile import Capture, Loop, Profile

# Causes of less than this share of all cycles tell nothing; of the others so many are kept.
SMALLEST_CAUSE_RATIO = 0.001
MOST_CAUSES = 50


@dataclass(frozen=True, slots=True)
class StepParts:
    """The cycle of one traced step, in ns: the step and the time up to the next one.

    `parts` sum to `cycle_ns` exactly, which is `step_ns + between_ns`: those `inside` the step, and
    those `after` it. `between_ns` is Missing where that time was not watched, or is no usual one;
    then the cycle is the step alone. `collectives` are those of `Inside`.
    """

    capture: Capture
    step_ns: int
    between_ns: int | Missing
    inside: Mapping[Part, int]
    after: Mapping[Part, int]
    causes_inside: tuple[GapCause, ...]
    causes_after: tuple[GapCause, ...]
    collectives: tuple[Intervals, ...] = ()

    @property
    def cycle_ns(self) -> int:
        return self.step_ns + (0 if isinstance(self.between_ns, Missing) else self.between_ns)

    @property
    def parts(self) -> Mapping[Part, int]:
        return _summed((self.inside, self.after))

    @property
    def causes(self) -> tuple[GapCause, ...]:
        return self.causes_inside + self.causes_after


@dataclass(frozen=True, slots=True)
class LoopParts:
    """The mean cycle of one loop: its mean traced step, and its mean watched time after one.

    `work` is Missing where none is known. `others` are usual gaps that were watched after steps
    that were not recorded.
    """

    loop: Loop | Missing
    steps: tuple[StepParts, ...]
    others: tuple[GapBreakdown, ...] = ()

    @property
    def watched(self) -> tuple[GapBreakdown, ...]:
        """Return the watched times up to the next step."""
        after = tuple(
            GapBreakdown(step.between_ns, step.after, step.causes_after)
            for step in self.steps
            if not isinstance(step.between_ns, Missing)
        )
        return after + self.others

    @property
    def cycle_ns(self) -> float:
        return sum(self.parts_ns.values())

    @property
    def step_ns(self) -> float:
        """Return the mean step, without what recording it took."""
        return sum(self._inside_ns.values())

    @property
    def between_ns(self) -> float | Missing:
        """Return the mean watched time up to the next step."""
        watched = self.watched
        if not watched:
            return Missing("the usual time after no step was watched")
        return sum(sum(gap.parts.values()) for gap in watched) / len(watched)

    @property
    def parts_ns(self) -> Mapping[Part, float]:
        """Return each part that is there, of the mean cycle, without what recording it took."""
        parts = dict(self._inside_ns)
        watched = self.watched
        for part, ns in _summed(gap.parts for gap in watched).items():
            parts[part] = parts.get(part, 0.0) + ns / len(watched)
        return parts

    @property
    def _inside_ns(self) -> Mapping[Part, float]:
        inside = _summed(step.inside for step in self.steps)
        inside.pop(Part.RECORDING, None)
        return {part: ns / len(self.steps) for part, ns in inside.items()}

    @property
    def shares(self) -> Mapping[Part, float]:
        """Return the share of each part that is there; together 1."""
        parts_ns = self.parts_ns
        total_ns = sum(parts_ns.values()) or 1
        return {part: ns / total_ns for part, ns in parts_ns.items()}

    @property
    def causes(self) -> tuple[GapCause, ...]:
        """Return what time went to in the mean cycle, longest first."""
        inside = _mean_causes([step.causes_inside for step in self.steps])
        after = _mean_causes([gap.causes for gap in self.watched])
        least_ns = SMALLEST_CAUSE_RATIO * self.cycle_ns
        found = [each for each in (*inside, *after) if each.duration_ns >= least_ns]
        return tuple(sorted(found, key=lambda cause: -cause.duration_ns)[:MOST_CAUSES])

    @property
    def weight_ns(self) -> float:
        """Return what all its steps took with the time between, as far as that was watched."""
        if isinstance(self.loop, Missing):
            return float(sum(step.cycle_ns for step in self.steps))
        watched = [gap.duration_ns for gap in self.watched]
        between_ns = float(np.median(watched)) if watched else 0.0
        return self.loop.times.sum_ns + self.loop.count * between_ns


def by_loop(profile: Profile) -> tuple[LoopParts, ...]:
    """Return the traced steps of each loop, the work with the most time first."""
    loops = {(loop.process, loop.index): loop for loop in profile.loops}
    gaps = watched_gaps(profile, loops)
    found: dict[tuple[int, int], list[tuple[StepParts, int]]] = {}
    for step, late_ns in _of_steps(profile, gaps):
        found.setdefault(_key(step.capture), []).append((step, late_ns))
    unknown = Missing("the recording does not say to which loop its steps belong")
    parts = [
        LoopParts(
            loops.get(key, unknown), tuple(step for step, _ in steps), _others(gaps.get(key), steps)
        )
        for key, steps in found.items()
    ]
    return tuple(sorted(parts, key=lambda part: -part.weight_ns))


def of_steps(profile: Profile) -> tuple[StepParts, ...]:
    """Return the parts of each traced step, in the order of the captures."""
    loops = {(loop.process, loop.index): loop for loop in profile.loops}
    return tuple(step for step, _ in _of_steps(profile, watched_gaps(profile, loops)))


def _others(
    gaps: WatchedGaps | None, steps: Sequence[tuple[StepParts, int]]
) -> tuple[GapBreakdown, ...]:
    """Return the usual gaps after steps that were not recorded, as those after recorded ones."""
    if gaps is None:
        return ()
    recorded = {step.capture.step for step, _ in steps}
    has_accelerator = any(set(ON_DEVICE) & set(step.inside) for step, _ in steps)
    late_ns = int(np.median([late_ns for _, late_ns in steps]))
    return tuple(
        gaps.divide(number, has_accelerator=has_accelerator, late_ns=late_ns)
        for number in gaps.by_step
        if number not in recorded
    )


def _of_steps(
    profile: Profile, gaps: Mapping[tuple[int, int], WatchedGaps]
) -> tuple[tuple[StepParts, int], ...]:
    """Return the parts of each traced step, and how much later than its call it ended."""
    loops = {(loop.process, loop.index): loop for loop in profile.loops}
    of_captures = [loops.get(_key(capture)) for capture in profile.captures]
    all_traced = [activity for activity in profile.activities if activity.kind == "trace"]
    traced = [list(step_breakdown.traced_in(all_traced, capture)) for capture in profile.captures]
    kinds = ["" if loop is None else loop.kind for loop in of_captures]
    steps = StepWindows(
        captures=profile.captures,
        rows=profile.executions,
        spans=profile.spans,
        traced=traced,
        fed_ns=list(map(step_breakdown.fed_ns, profile.captures, kinds)),
    )
    found = step_breakdown.divide(steps, names(profile.executions))
    return tuple(
        (_step(capture, step, own, gaps.get(_key(capture))), step.late_ns)
        for capture, step, own in zip(profile.captures, found, traced, strict=True)
    )


def _key(capture: Capture) -> tuple[int, int]:
    return capture.process, -1 if isinstance(capture.loop, Missing) else capture.loop


def _step(
    capture: Capture, step: StepBreakdown, traced: Sequence[Activity], gaps: WatchedGaps | None
) -> StepParts:
    between_ns: int | Missing = Missing("the usual time after this step was not watched")
    after = GapBreakdown(0, {}, ())
    if gaps is not None and capture.step in gaps.by_step:
        has_accelerator = bool(set(ON_DEVICE) & set(step.parts))
        after = gaps.divide(capture.step, has_accelerator=has_accelerator, late_ns=step.late_ns)
        between_ns = after.duration_ns
    return StepParts(
        capture=capture,
        step_ns=step.duration_ns,
        between_ns=between_ns,
        inside=step.parts,
        after=after.parts,
        causes_inside=tuple(_inside_causes(step, traced)),
        causes_after=after.causes,
        collectives=step.collectives,
    )


def _inside_causes(step: StepBreakdown, traced: Iterable[Activity]) -> Iterable[GapCause]:
    idle_ns = step.parts.get(Part.IDLE, 0)
    before_ns = min(step.idle_before_ns, idle_ns)
    if before_ns:
        yield GapCause(Part.IDLE, "before the first op", "", 0, before_ns)
    if idle_ns > before_ns:
        yield GapCause(Part.IDLE, "between ops", "", 0, idle_ns - before_ns)
    rest_ns = step.parts.get(Part.COMPILE, 0)
    for each in traced:
        traced_ns = min(each.end_ns - each.start_ns, rest_ns)
        rest_ns -= traced_ns
        yield GapCause(Part.COMPILE, f"tracing {each.name}", "", 0, traced_ns)
    if rest_ns:
        yield GapCause(Part.COMPILE, "preparing and compiling graphs", "", 0, rest_ns)


def _summed(each: Iterable[Mapping[Part, int]]) -> dict[Part, int]:
    total: dict[Part, int] = {}
    for parts in each:
        for part, ns in parts.items():
            total[part] = total.get(part, 0) + ns
    return total


def _mean_causes(steps: Sequence[Sequence[GapCause]]) -> list[GapCause]:
    total: dict[tuple[Part, str, str, int], int] = {}
    for causes in steps:
        for cause in causes:
            key = (cause.part, cause.what, cause.file, cause.line)
            total[key] = total.get(key, 0) + cause.duration_ns
    return [GapCause(*key, ns // len(steps)) for key, ns in total.items()]
