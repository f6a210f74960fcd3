"""Divide the cycles of traced steps, and sum them up for each loop and for the run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from tfprobe.analysis.breakdown import step_breakdown
from tfprobe.analysis.breakdown.attribution import StepWindows
from tfprobe.analysis.breakdown.gap_breakdown import (
    GapBreakdown,
    GapCause,
    WatchedGaps,
    watched_gaps,
)
from tfprobe.analysis.breakdown.step_breakdown import ALIKE, StepBreakdown, compiling_ratio
from tfprobe.analysis.breakdown.step_parts import (
    DEVICE_COMPUTE,
    GROUPS,
    ON_DEVICE,
    Part,
    part_names,
)
from tfprobe.analysis.breakdown.torch_phases import StepPhases
from tfprobe.analysis.core.intervals import Intervals
from tfprobe.analysis.core.main_loop import unknown_times
from tfprobe.analysis.core.source_lines import innermost
from tfprobe.errors import Missing
from tfprobe.profile.activities import COMPILING, Activity
from tfprobe.profile.graph import Node
from tfprobe.profile.profile import Capture, Loop, Profile

# Causes below this share of all cycles are dropped; of the others, so many are kept.
SMALLEST_CAUSE_RATIO = 0.001
MOST_CAUSES = 50


@dataclass(frozen=True, slots=True)
class StepParts:
    """The cycle of one traced step, in ns: the step and the time up to the next one.

    `parts` sum to `cycle_ns` exactly, which is `step_ns + between_ns`: those `inside` the step and
    those `after` it. `between_ns` is Missing where that time was not watched or is unusually long;
    then the cycle is the step alone. `collectives` are those of `StepBreakdown`. `compiles` says
    whether a function was traced or compiled in the step.
    """

    capture: Capture
    step_ns: int
    between_ns: int | Missing
    inside: Mapping[Part, int]
    after: Mapping[Part, int]
    causes_inside: tuple[GapCause, ...]
    causes_after: tuple[GapCause, ...]
    collectives: tuple[Intervals, ...] = ()
    compiles: bool = False

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
    """The mean cycle of one loop: its mean traced step and its mean watched gap.

    `loop` is Missing where the recording does not say it. `others` are usual gaps that were watched
    after steps that were not traced. `compiling_ratio` is the share of all steps that compile, if
    only some of the traced ones do: in the mean, they have this weight.
    """

    loop: Loop | Missing
    steps: tuple[StepParts, ...]
    others: tuple[GapBreakdown, ...] = ()
    compiling_ratio: float | Missing = ALIKE

    @property
    def watched(self) -> tuple[GapBreakdown, ...]:
        """Return the watched gaps up to the next step."""
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
        """Return the mean length of a step, without recording."""
        return sum(self._inside_ns.values())

    @property
    def between_ns(self) -> float | Missing:
        """Return the mean watched gap up to the next step."""
        watched = self.watched
        if not watched:
            return Missing("the usual time after no step was watched")
        return sum(sum(gap.parts.values()) for gap in watched) / len(watched)

    @property
    def parts_ns(self) -> Mapping[Part, float]:
        """Return the parts of the mean cycle, without recording."""
        parts = dict(self._inside_ns)
        watched = self.watched
        for part, ns in _summed(gap.parts for gap in watched).items():
            parts[part] = parts.get(part, 0.0) + ns / len(watched)
        return parts

    @property
    def _inside_ns(self) -> Mapping[Part, float]:
        inside: dict[Part, float] = {}
        for kind, weight in self._kinds:
            for part, ns in _summed(step.inside for step in kind).items():
                inside[part] = inside.get(part, 0.0) + ns * weight / len(kind)
        inside.pop(Part.RECORDING, None)
        return inside

    @property
    def _kinds(self) -> tuple[tuple[tuple[StepParts, ...], float], ...]:
        """Return the steps of each kind, compiling or not, with the share of such steps."""
        if isinstance(self.compiling_ratio, Missing):
            return ((self.steps, 1.0),)
        compiling = tuple(step for step in self.steps if step.compiles)
        others = tuple(step for step in self.steps if not step.compiles)
        return ((compiling, self.compiling_ratio), (others, 1 - self.compiling_ratio))

    @property
    def shares(self) -> Mapping[Part, float]:
        """Return the share of each part in the mean cycle; they sum to 1."""
        parts_ns = self.parts_ns
        total_ns = sum(parts_ns.values()) or 1
        return {part: ns / total_ns for part, ns in parts_ns.items()}

    @property
    def causes(self) -> tuple[GapCause, ...]:
        """Return the causes of time in the mean cycle, longest first."""
        inside = _mean_causes(
            *(([step.causes_inside for step in kind], weight) for kind, weight in self._kinds)
        )
        after = _mean_causes(([gap.causes for gap in self.watched], 1.0))
        least_ns = SMALLEST_CAUSE_RATIO * self.cycle_ns
        causes = [cause for cause in (*inside, *after) if cause.duration_ns >= least_ns]
        return tuple(sorted(causes, key=lambda cause: -cause.duration_ns)[:MOST_CAUSES])

    @property
    def weight_ns(self) -> float:
        """Return the time of all steps of the loop, with the gaps between them where watched."""
        if isinstance(self.loop, Missing):
            return float(sum(step.cycle_ns for step in self.steps))
        watched = [gap.duration_ns for gap in self.watched]
        between_ns = float(np.median(watched)) if watched else 0.0
        return self.loop.times.sum_ns + self.loop.count * between_ns


def parts_by_loop(profile: Profile) -> tuple[LoopParts, ...]:
    """Return the parts of each loop with traced steps, the loop with the most time first."""
    loops = {(loop.process, loop.index): loop for loop in profile.loops}
    gaps = _gaps_of_divisible(profile, loops)
    by_loop: dict[tuple[int, int], list[tuple[StepParts, int]]] = {}
    for step, late_ns in _of_steps(profile, gaps):
        by_loop.setdefault(_key(step.capture), []).append((step, late_ns))
    unknown = Missing("the recording does not say to which loop its steps belong")
    parts = [
        LoopParts(
            loop := loops.get(key, unknown),
            tuple(step for step, _ in steps),
            _others(gaps.get(key), steps),
            _compiling_ratio(profile, loop, [step.compiles for step, _ in steps]),
        )
        for key, steps in by_loop.items()
    ]
    return tuple(sorted(parts, key=lambda part: -part.weight_ns))


def _compiling_ratio(
    profile: Profile, loop: Loop | Missing, compiles: Sequence[bool]
) -> float | Missing:
    if isinstance(loop, Missing):
        return loop
    # What is watched live is a part of a process, without its facts.
    clocks = {each.index: each.unix_minus_monotonic_ns for each in profile.processes}
    shift_ns = clocks.get(loop.process, Missing("the process is not known"))
    activities = [activity for activity in profile.activities if activity.kind in COMPILING]
    return compiling_ratio(loop, activities, compiles, shift_ns)


def _gaps_of_divisible(
    profile: Profile, loops: Mapping[tuple[int, int], Loop]
) -> dict[tuple[int, int], WatchedGaps]:
    """Return the watched gaps of loops in which no step still runs in a gap."""
    gaps = watched_gaps(profile, loops)
    return {
        key: of for key, of in gaps.items() if key not in loops or unknown_times(loops[key]) is None
    }


def _others(
    gaps: WatchedGaps | None, steps: Sequence[tuple[StepParts, int]]
) -> tuple[GapBreakdown, ...]:
    """Return the usual gaps after untraced steps, divided like those after traced steps."""
    if gaps is None:
        return ()
    traced = {step.capture.step for step, _ in steps}
    has_accelerator = any(set(ON_DEVICE) & set(step.inside) for step, _ in steps)
    late_ns = int(np.median([late_ns for _, late_ns in steps]))
    return tuple(
        gaps.divide(number, has_accelerator=has_accelerator, late_ns=late_ns)
        for number in gaps.by_step
        if number not in traced
    )


def _of_steps(
    profile: Profile, gaps: Mapping[tuple[int, int], WatchedGaps]
) -> tuple[tuple[StepParts, int], ...]:
    """Return the parts of each traced step, and how long after its call it ended."""
    loops = {(loop.process, loop.index): loop for loop in profile.loops}
    of_captures = [loops.get(_key(capture)) for capture in profile.captures]
    all_traced = [activity for activity in profile.activities if activity.kind in COMPILING]
    traced = [list(step_breakdown.traced_in(all_traced, capture)) for capture in profile.captures]
    kinds = ["" if loop is None else loop.kind for loop in of_captures]
    steps = StepWindows(
        captures=profile.captures,
        rows=profile.executions,
        spans=profile.spans,
        traced=traced,
        fed_ns=list(map(step_breakdown.fed_ns, profile.captures, kinds)),
    )
    divided = step_breakdown.divide_steps(steps, part_names(profile.executions))
    return tuple(
        (
            _step(
                capture,
                step,
                own,
                loop,
                gaps.get(_key(capture)),
                profile.nodes.get(capture.process, {}),
            ),
            step.late_ns,
        )
        for capture, step, own, loop in zip(
            profile.captures, divided, traced, of_captures, strict=True
        )
    )


def _key(capture: Capture) -> tuple[int, int]:
    return capture.process, -1 if isinstance(capture.loop, Missing) else capture.loop


def _step(
    capture: Capture,
    step: StepBreakdown,
    traced: Sequence[Activity],
    loop: Loop | None,
    gaps: WatchedGaps | None,
    nodes: Mapping[str, Node],
) -> StepParts:
    undivided = None if loop is None else unknown_times(loop)
    between_ns: int | Missing = undivided or Missing(
        "the usual time after this step was not watched"
    )
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
        causes_inside=(*_inside_causes(step, traced), *_of_phases(step.phases, nodes)),
        causes_after=after.causes,
        collectives=step.collectives,
        compiles=bool(traced),
    )


_DOES = {
    "trace": "tracing {}",
    "lower": "lowering {}",
    "xla": "XLA compiles {}",
    "torch_compile": "torch.compile compiles {}",
}


def _inside_causes(step: StepBreakdown, traced: Iterable[Activity]) -> Iterable[GapCause]:
    idle_ns = step.parts.get(Part.IDLE, 0)
    before_ns = min(step.idle_before_ns, idle_ns)
    in_phases = step.phases.times_ns.items()
    in_phases_ns = sum(ns for (part, _), ns in in_phases if part is Part.IDLE)
    left_ns = {"before the first op": before_ns, "between ops": idle_ns - before_ns - in_phases_ns}
    for python, ns in step.phases.python_ns.items():
        when = "before the first op" if python.is_before else "between ops"
        known_ns = min(ns, left_ns[when])
        left_ns[when] -= known_ns
        file, _, line = python.source.rpartition(":")
        if known_ns > 0:
            what = f"{when}, {python.name}"
            yield GapCause(Part.IDLE, what, file, int(line or 0), known_ns)
    for when, ns in left_ns.items():
        if ns > 0:
            yield GapCause(Part.IDLE, when, "", 0, ns)
    rest_ns = step.parts.get(Part.COMPILE, 0)
    for activity in traced:
        traced_ns = min(activity.end_ns - activity.start_ns, rest_ns)
        rest_ns -= traced_ns
        yield GapCause(Part.COMPILE, _DOES[activity.kind].format(activity.name), "", 0, traced_ns)
    if rest_ns:
        yield GapCause(Part.COMPILE, "preparing and compiling graphs", "", 0, rest_ns)


def _of_phases(phases: StepPhases, nodes: Mapping[str, Node]) -> Iterable[GapCause]:
    """Yield what a step of PyTorch computed in, and the ops and lines in which it waited."""
    for (part, name), ns in phases.times_ns.items():
        what = f"between ops, {name}" if part is Part.IDLE else name
        yield GapCause(part, what, "", 0, ns)
    for name, ns in phases.waits_ns.items():
        node = nodes.get(name)
        frame = innermost(node.trace or ()) if node is not None else None
        what = node.op if node is not None else name
        file, line = (frame.file, frame.line) if frame is not None else ("", 0)
        if ns:
            yield GapCause(Part.SYNC_WAIT, what, file, line, ns)


def _summed(rows: Iterable[Mapping[Part, int]]) -> dict[Part, int]:
    total: dict[Part, int] = {}
    for parts in rows:
        for part, ns in parts.items():
            total[part] = total.get(part, 0) + ns
    return total


def _mean_causes(*kinds: tuple[Sequence[Sequence[GapCause]], float]) -> list[GapCause]:
    """Return the mean causes of steps, which are of several kinds with their shares."""
    mean: dict[tuple[Part, str, str, int], int] = {}
    for steps, ratio in kinds:
        total: dict[tuple[Part, str, str, int], int] = {}
        for cause in itertools.chain.from_iterable(steps):
            key = (cause.part, cause.what, cause.file, cause.line)
            total[key] = total.get(key, 0) + cause.duration_ns
        for key, ns in total.items():
            mean[key] = mean.get(key, 0) + int(ns * ratio // len(steps))
    return [GapCause(*key, ns) for key, ns in mean.items()]


# Shares are multiples of 1 / RESOLUTION, which floats represent exactly: they sum to exactly 1.
RESOLUTION = 1 << 20


@dataclass(frozen=True, slots=True)
class Cycle:
    """The mean cycle of one loop without its steps: what the breakdown of a run needs of it.

    `weight_ns` is the time of all steps of the loop, traced or not, with the gaps between them.
    """

    weight_ns: float
    cycle_ns: float
    shares: Mapping[Part, float]
    causes: tuple[GapCause, ...]


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The share of every part in the cycles of all loops; shares sum to exactly 1.

    Loops are weighted by their time and sorted by it, longest first.
    """

    shares: Mapping[Part, float]
    loops: tuple[Cycle, ...]
    captures: int
    has_accelerator: bool

    @property
    def total_ns(self) -> float:
        """Return the time of all cycles of all loops, summed over processes."""
        return sum(loop.weight_ns for loop in self.loops)

    @property
    def causes(self) -> tuple[tuple[GapCause, float], ...]:
        """Return the causes of time in the cycles of all loops with their shares, largest first."""
        total_ns = self.total_ns or 1
        shares: dict[tuple[Part, str, str, int], tuple[GapCause, float]] = {}
        for loop in self.loops:
            for cause in loop.causes:
                share = cause.duration_ns / (loop.cycle_ns or 1) * loop.weight_ns / total_ns
                key = (cause.part, cause.what, cause.file, cause.line)
                known, before = shares.get(key, (cause, 0.0))
                shares[key] = (known, before + share)
        return tuple(sorted(shares.values(), key=lambda pair: -pair[1]))

    def group(self, name: str) -> float:
        """Return the share of a group of parts: before, on, after or other."""
        return sum(self.shares[part] for part in GROUPS[name])


def mean_cycle(item: LoopParts) -> Cycle:
    """Return the mean cycle of a loop, without its steps."""
    return Cycle(item.weight_ns, item.cycle_ns, item.shares, item.causes)


def merge_cycles(loops: Iterable[Cycle], captures: int) -> Breakdown | Missing:
    """Return the breakdown of a run with so many captures from the mean cycles of its loops."""
    if not captures:
        return Missing("no step was traced")
    ordered = tuple(sorted(loops, key=lambda loop: -loop.weight_ns))
    weighted: dict[Part, float] = {}
    for loop in ordered:
        for part, share in loop.shares.items():
            weighted[part] = weighted.get(part, 0.0) + share * loop.weight_ns
    total_ns = sum(weighted.values())
    if total_ns <= 0:
        return Missing("the traced steps took no time")
    on_device = set(ON_DEVICE)
    return Breakdown(
        shares=_exact({part: ns / total_ns for part, ns in weighted.items()}),
        loops=ordered,
        captures=captures,
        has_accelerator=any(on_device & set(loop.shares) for loop in ordered),
    )


def run_breakdown(
    profile: Profile, loops: Iterable[LoopParts] | None = None
) -> Breakdown | Missing:
    """Return the breakdown of a run; `loops` are its traced steps, if already divided."""
    parts = parts_by_loop(profile) if loops is None else loops
    return merge_cycles(map(mean_cycle, parts), len(profile.captures))


def _exact(shares: Mapping[Part, float]) -> dict[Part, float]:
    """Return the shares of all parts, which sum to exactly 1: what rounding leaves is idle."""
    units = {part: int(shares.get(part, 0.0) * RESOLUTION) for part in Part}
    units[Part.IDLE] += RESOLUTION - sum(units.values())
    return {part: number / RESOLUTION for part, number in units.items()}


class Bound(Enum):
    """What bounds a step at a moment."""

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


# What a step does in such moments.
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
    """The shares of a cycle by what bounds it, largest first, without empty ones."""

    shares: tuple[tuple[Bound, float], ...]

    @property
    def first(self) -> tuple[Bound, float]:
        return self.shares[0]


def bottleneck(shares: Mapping[Part, float]) -> Bottleneck:
    """Return what bounds a cycle with these shares, recording left out."""
    sums = {bound: sum(shares.get(part, 0.0) for part in parts) for bound, parts in BOUNDS.items()}
    total = sum(sums.values()) or 1.0
    ordered = sorted(sums.items(), key=lambda item: -item[1] / total)
    return Bottleneck(tuple((bound, share / total) for bound, share in ordered if share > 0))
