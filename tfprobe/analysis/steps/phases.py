"""Divide the life of a process into phases, which sum to its wall time exactly.

At each instant the first of these that holds:

 compile     a function is traced or compiled, or it is a first step that took five usual ones
 checkpoint  a model or its weights are saved
 evaluation  an evaluation or prediction beside training: its steps, and what is between them
 warm-up     steps of a loop until its times have come down to what they are later
 steady      steps, and what is between them
 start-up    Python starts and modules are imported, up to TensorFlow's
 set-up      from there to the first step
 end         after the last step
 between     none of them: from one fit to the next, or a pause between steps

A pause is a gap of more than ten usual steps and 100 ms. Where a loop has forgotten its first
steps, the time since it was first seen counts as steady, or of it that of the fits that are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tfprobe.analysis.steps.step_window import StepWindow, overlaps, recent_window, warm_up_steps
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop, Process, Profile
from tfprobe.profile.tables import Int64s

# In the order of a life.
PHASES: tuple[str, ...] = (
    "start-up",
    "set-up",
    "compile",
    "warm-up",
    "steady",
    "evaluation",
    "checkpoint",
    "between",
    "end",
)
# Of several that hold at once it is the first.
_PRIORITY: tuple[str, ...] = (
    "compile",
    "checkpoint",
    "evaluation",
    "warm-up",
    "steady",
    "start-up",
    "set-up",
    "end",
    "between",
)
_PHASE_OF_ACTIVITY: Mapping[str, str] = {
    "trace": "compile",
    "compile": "compile",
    "save": "checkpoint",
    "evaluate": "evaluation",
    "predict": "evaluation",
}


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of one phase, in unix ns."""

    phase: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Life:
    """A process from its start to its end, or to its last sign of life, in unix ns.

    Segments follow each other without holes. `knows_import` says whether the recording tells when
    TensorFlow was imported; where it does not, set-up is in start-up.
    """

    process: Process
    start_ns: int
    end_ns: int
    segments: tuple[Segment, ...]
    knows_import: bool

    @property
    def wall_ns(self) -> int:
        return self.end_ns - self.start_ns

    def total_ns(self, phase: str) -> int:
        """Return how long a phase lasted in all."""
        return sum(
            segment.end_ns - segment.start_ns for segment in self.segments if segment.phase == phase
        )


class ProcessClock(NamedTuple):
    """How far unix time is ahead of the clock of steps, and the last end that a process noted."""

    shift_ns: int
    noted_end_ns: int


def process_clock(process: Process) -> ProcessClock | Missing:
    """Return the bounds of a process on the unix clock, or why they are not known."""
    if isinstance(process.hooks, Missing):
        return process.hooks
    if isinstance(process.unix_minus_monotonic_ns, Missing):
        return Missing("the recording has no times of its steps")
    if not process.started_unix_ns or not process.hooks.wall_ns:
        return Missing("the recording has no start or end of the process")
    noted_end_ns = process.started_unix_ns + process.hooks.wall_ns
    return ProcessClock(process.unix_minus_monotonic_ns, noted_end_ns)


def life(profile: Profile, process: Process) -> Life | Missing:
    """Return the phases of a process, or why they cannot be told."""
    bounds = process_clock(process)
    if isinstance(bounds, Missing):
        return bounds
    loops = [
        loop
        for loop in profile.loops
        if loop.process == process.index and len(loop.recent.start_ns)
    ]
    if not loops:
        return Missing("it took no step")
    shift_ns, start_ns = bounds.shift_ns, process.started_unix_ns
    last_ns = max(int(loop.recent.end_ns.max()) for loop in loops) + shift_ns
    # The last end that a killed process noted may be older than its last step.
    end_ns = max(bounds.noted_end_ns, last_ns)
    first_ns = min(_first_seen_ns(loop, shift_ns) for loop in loops)
    imported_ns = _imported_ns(profile, process, first_ns)
    stretches = [
        *_of_activities(profile, process, with_evaluation=is_training(loops)),
        *_of_loops(loops, shift_ns),
        *_of_forgotten(profile, loops, shift_ns),
        *_of_rest(start_ns, imported_ns or first_ns, first_ns, last_ns, end_ns),
    ]
    segments = _painted(stretches, start_ns, end_ns)
    return Life(process, start_ns, end_ns, segments, knows_import=imported_ns is not None)


def _first_seen_ns(loop: Loop, shift_ns: int) -> int:
    remembered_ns = int(loop.recent.start_ns[0]) + shift_ns
    return min(loop.first_seen_ns or remembered_ns, remembered_ns)


def _imported_ns(profile: Profile, process: Process, first_ns: int) -> int | None:
    """Return when the last of the imports before the first step was over."""
    ends_ns = (
        min(activity.end_ns, first_ns)
        for activity in profile.activities
        if activity.process == process.index
        and activity.kind == "import"
        and activity.start_ns < first_ns
    )
    return max(ends_ns, default=None)


def _of_activities(
    profile: Profile, process: Process, *, with_evaluation: bool
) -> Iterator[PhaseIntervals]:
    for kind, phase in _PHASE_OF_ACTIVITY.items():
        if phase == "evaluation" and not with_evaluation:
            continue
        these = [a for a in profile.activities if a.process == process.index and a.kind == kind]
        yield _stretches(phase, [(each.start_ns, each.end_ns) for each in these])


def _of_loops(loops: Sequence[Loop], shift_ns: int) -> Iterator[PhaseIntervals]:
    for each in step_phases(loops):
        yield PhaseIntervals(each.phase, each.start_ns + shift_ns, each.end_ns + shift_ns)


def _of_forgotten(
    profile: Profile, loops: Sequence[Loop], shift_ns: int
) -> Iterator[PhaseIntervals]:
    """Give the time of steps that are no longer remembered: of fits if they are known."""
    for loop in loops:
        beside = is_training(loops) and loop.kind in EVALUATION_KINDS
        if not loop.recent.first_step or beside:
            continue
        until_ns = int(loop.recent.start_ns[0]) + shift_ns
        whole = (_first_seen_ns(loop, shift_ns), until_ns)
        fits = [
            (activity.start_ns, min(activity.end_ns, until_ns))
            for activity in profile.activities
            if activity.process == loop.process
            and activity.kind == "train"
            and activity.start_ns < until_ns
        ]
        yield _stretches("steady", fits if fits and loop.kind == "fit" else [whole])


def _of_rest(
    start_ns: int, imported_ns: int, first_ns: int, last_ns: int, end_ns: int
) -> Iterator[PhaseIntervals]:
    yield _stretches("start-up", [(start_ns, imported_ns)])
    yield _stretches("set-up", [(imported_ns, first_ns)])
    yield _stretches("end", [(last_ns, end_ns)])
    yield _stretches("between", [(start_ns, end_ns)])


def _stretches(phase: str, intervals: Sequence[tuple[int, int]]) -> PhaseIntervals:
    start_ns, end_ns = np.array(intervals, dtype=np.int64).reshape(-1, 2).T
    return PhaseIntervals(phase, start_ns, end_ns)


def _painted(
    stretches: Sequence[PhaseIntervals], start_ns: int, end_ns: int
) -> tuple[Segment, ...]:
    """Return which phase holds when: what comes earlier in the list of priorities lies on top."""
    clipped = [_clipped(stretch, start_ns, end_ns) for stretch in stretches]
    edges = np.unique(np.concatenate([part for each in clipped for part in each[1:]]))
    phase = np.full(len(edges) - 1, len(_PRIORITY) - 1)
    for name, starts, ends in clipped:
        marks = np.zeros(len(edges), dtype=np.int64)
        np.add.at(marks, np.searchsorted(edges, starts), 1)
        np.add.at(marks, np.searchsorted(edges, ends), -1)
        covered = np.cumsum(marks)[:-1] > 0
        phase = np.where(covered, np.minimum(phase, _PRIORITY.index(name)), phase)
    changes = np.flatnonzero(phase[1:] != phase[:-1]) + 1
    starts_at = np.concatenate([[0], changes])
    ends_at = np.concatenate([changes, [len(phase)]])
    return tuple(
        Segment(_PRIORITY[int(phase[first])], int(edges[first]), int(edges[last]))
        for first, last in zip(starts_at, ends_at, strict=True)
    )


def _clipped(each: PhaseIntervals, start_ns: int, end_ns: int) -> tuple[str, Int64s, Int64s]:
    starts, ends = np.clip(each.start_ns, start_ns, end_ns), np.clip(each.end_ns, start_ns, end_ns)
    kept = ends > starts
    return each.phase, starts[kept], ends[kept]


# Beside training these are evaluation.
EVALUATION_KINDS = ("evaluate", "predict", "test_on_batch", "predict_on_batch")
# A pause is longer than both: an epoch of a few short steps ends sooner.
PAUSE_STEPS = 10
PAUSE_NS = 100_000_000
# A first step this much longer than the usual one traced its function.
TRACED_TIMES = 5


@dataclass(frozen=True, slots=True)
class PhaseIntervals:
    """Intervals of a phase, in any order and clock."""

    phase: str
    start_ns: Int64s
    end_ns: Int64s


def is_training(loops: Sequence[Loop]) -> bool:
    """Say whether evaluation is beside something else, and not all there is."""
    return any(loop.kind not in EVALUATION_KINDS for loop in loops)


def step_phases(loops: Sequence[Loop]) -> Iterator[PhaseIntervals]:
    """Give the stretches of the loops of one process, in monotonic ns."""
    beside = [loop for loop in loops if is_training(loops) and loop.kind in EVALUATION_KINDS]
    main = [loop for loop in loops if loop not in beside]
    between = _all_steps(main)
    for loop in loops:
        remembered = recent_window(loop, loops)
        yield from _first_step(remembered)
        if loop in beside:
            yield PhaseIntervals("evaluation", *_spans(remembered, 0, len(remembered), between))
        else:
            yield from _of_main(remembered)


def _first_step(remembered: StepWindow) -> Iterator[PhaseIntervals]:
    """Give the first step if it took as long as only tracing does."""
    usual_ns = remembered.step_ns[remembered.counts][1:]
    if remembered.first_step or not len(usual_ns):
        return
    if remembered.step_ns[0] > TRACED_TIMES * np.median(usual_ns):
        yield PhaseIntervals("compile", remembered.start_ns[:1], remembered.end_ns[:1])


def _of_main(remembered: StepWindow) -> Iterator[PhaseIntervals]:
    warm_up = warm_up_steps(remembered)
    warm_from = 0 if isinstance(warm_up, Missing) else warm_up
    nobody = _all_steps(())
    yield PhaseIntervals("warm-up", *_spans(remembered, 0, warm_from, nobody))
    # From the end of the warm-up on, so that the gap between the two is in one of them.
    yield PhaseIntervals(
        "steady", *_spans(remembered, max(warm_from - 1, 0), len(remembered), nobody)
    )


def _spans(
    remembered: StepWindow, first: int, end: int, between: tuple[Int64s, Int64s]
) -> tuple[Int64s, Int64s]:
    """Return steps joined across gaps that are no pause and hold no step of `between`."""
    start_ns, end_ns = remembered.start_ns[first:end], remembered.end_ns[first:end]
    if not len(start_ns):
        return start_ns, end_ns
    gaps_ns = remembered.gap_ns[first + 1 : end]
    pauses = remembered.gap_counts[first + 1 : end] & (gaps_ns > _pause_ns(remembered))
    # Between the steps of two threads is no gap, and there may be a pause.
    is_first = ~remembered.has_gap[first + 1 : end]
    pauses |= is_first & (start_ns[1:] - end_ns[:-1] > _pause_ns(remembered))
    pauses |= overlaps(end_ns[:-1], start_ns[1:], *between)
    at = np.flatnonzero(pauses)
    return start_ns[np.append(0, at + 1)], end_ns[np.append(at, len(end_ns) - 1)]


def _pause_ns(remembered: StepWindow) -> float:
    periods_ns = remembered.step_ns + remembered.gap_ns
    return max(PAUSE_NS, PAUSE_STEPS * float(np.median(periods_ns)))


def _all_steps(loops: Sequence[Loop]) -> tuple[Int64s, Int64s]:
    """Return when steps of these loops were, sorted by start."""
    none: Int64s = np.zeros(0, dtype=np.int64)
    start_ns = np.concatenate([none, *(loop.recent.start_ns for loop in loops)])
    end_ns = np.concatenate([none, *(loop.recent.end_ns for loop in loops)])
    order = np.argsort(start_ns, kind="stable")
    return start_ns[order], end_ns[order]
