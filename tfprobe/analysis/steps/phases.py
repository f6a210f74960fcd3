"""Divide the life of a process into phases, which sum to its wall time exactly.

Each instant is in the first of these phases that applies:

 compile     a function is traced or compiled, or a first step takes over five usual ones
 checkpoint  a model or its weights are saved
 evaluation  an evaluation or prediction during training: its steps and the gaps between them
 warm-up     steps of a loop until they are as fast as later
 steady      steps and the gaps between them
 start-up    Python starts and modules are imported, up to TensorFlow
 set-up      from there to the first step
 end         after the last step
 between     none of them: from one fit to the next, or a pause between steps

A pause is a gap of more than ten usual steps and 100 ms. Where a loop no longer remembers its first
steps, the time since it was first seen counts as steady, or only its fits where these are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tfprobe.analysis.core.intervals import Intervals, union, within_ns
from tfprobe.analysis.steps.step_window import StepWindow, overlaps, recent_window, warm_up_steps
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop, Process, Profile
from tfprobe.profile.tables import Int64s

# In the order of a process's life.
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
# Where several phases apply at once, the first of these counts.
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
    "lower": "compile",
    "xla": "compile",
    "torch_compile": "compile",
    "compile": "compile",
    "save": "checkpoint",
    "evaluate": "evaluation",
    "predict": "evaluation",
}


@dataclass(frozen=True, slots=True)
class Segment:
    """An interval of one phase, in unix ns."""

    phase: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Life:
    """A process from its start to its end or last sign of life, in unix ns.

    Segments follow each other without holes. `knows_import` says whether the recording has the
    import of TensorFlow; without it, set-up is part of start-up.
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
        """Return the total length of a phase."""
        return sum(
            segment.end_ns - segment.start_ns for segment in self.segments if segment.phase == phase
        )


def drawn_segments(found: Life, columns: int) -> tuple[Segment, ...]:
    """Return the segments of a life as a bar of so many columns can show them.

    If there are more segments than half as many, each column is of the phase that takes most of it.
    """
    segments = found.segments
    if len(segments) <= columns // 2:
        return segments
    edges_ns = found.start_ns + np.linspace(0, found.wall_ns, columns + 1).astype(np.int64)
    taken_ns = [
        within_ns(_of_phase(segments, phase), edges_ns[:-1], edges_ns[1:]) for phase in PHASES
    ]
    longest = np.argmax(taken_ns, axis=0)
    bounds = [0, *(np.flatnonzero(np.diff(longest)) + 1).tolist(), columns]
    return tuple(
        Segment(PHASES[int(longest[first])], int(edges_ns[first]), int(edges_ns[end]))
        for first, end in pairwise(bounds)
    )


def _of_phase(segments: Sequence[Segment], phase: str) -> Intervals:
    times_ns = [(each.start_ns, each.end_ns) for each in segments if each.phase == phase]
    start_ns, end_ns = np.array(times_ns, dtype=np.int64).reshape(-1, 2).T
    return union(start_ns, end_ns)


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
    """Return the phases of a process, or why they are not known."""
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
    intervals = [
        *_of_activities(profile, process, with_evaluation=is_training(loops)),
        *_of_loops(loops, shift_ns),
        *_of_forgotten(profile, loops, shift_ns),
        *_of_rest(start_ns, imported_ns or first_ns, first_ns, last_ns, end_ns),
    ]
    segments = _painted(intervals, start_ns, end_ns)
    return Life(process, start_ns, end_ns, segments, knows_import=imported_ns is not None)


def _first_seen_ns(loop: Loop, shift_ns: int) -> int:
    remembered_ns = int(loop.recent.start_ns[0]) + shift_ns
    return min(loop.first_seen_ns or remembered_ns, remembered_ns)


def _imported_ns(profile: Profile, process: Process, first_ns: int) -> int | None:
    """Return when the last import before the first step ended."""
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
        yield _phase_intervals(
            phase,
            [
                (activity.start_ns, activity.end_ns)
                for activity in profile.activities
                if activity.process == process.index and activity.kind == kind
            ],
        )


def _of_loops(loops: Sequence[Loop], shift_ns: int) -> Iterator[PhaseIntervals]:
    for times in step_phases(loops):
        yield PhaseIntervals(times.phase, times.start_ns + shift_ns, times.end_ns + shift_ns)


def _of_forgotten(
    profile: Profile, loops: Sequence[Loop], shift_ns: int
) -> Iterator[PhaseIntervals]:
    """Yield the time of steps that are no longer remembered: of fits if they are known."""
    for loop in loops:
        evaluates = is_training(loops) and loop.kind in EVALUATION_KINDS
        if not loop.recent.first_step or evaluates:
            continue
        until_ns = int(loop.recent.start_ns[0]) + shift_ns
        forgotten = (_first_seen_ns(loop, shift_ns), until_ns)
        fits = [
            (activity.start_ns, min(activity.end_ns, until_ns))
            for activity in profile.activities
            if activity.process == loop.process
            and activity.kind == "train"
            and activity.start_ns < until_ns
        ]
        yield _phase_intervals("steady", fits if fits and loop.kind == "fit" else [forgotten])


def _of_rest(
    start_ns: int, imported_ns: int, first_ns: int, last_ns: int, end_ns: int
) -> Iterator[PhaseIntervals]:
    yield _phase_intervals("start-up", [(start_ns, imported_ns)])
    yield _phase_intervals("set-up", [(imported_ns, first_ns)])
    yield _phase_intervals("end", [(last_ns, end_ns)])
    yield _phase_intervals("between", [(start_ns, end_ns)])


def _phase_intervals(phase: str, intervals: Sequence[tuple[int, int]]) -> PhaseIntervals:
    start_ns, end_ns = np.array(intervals, dtype=np.int64).reshape(-1, 2).T
    return PhaseIntervals(phase, start_ns, end_ns)


def _painted(
    intervals: Sequence[PhaseIntervals], start_ns: int, end_ns: int
) -> tuple[Segment, ...]:
    """Return the segments of a life: where phases overlap, the one of higher priority counts."""
    clipped = [_clipped(times, start_ns, end_ns) for times in intervals]
    edges = np.unique(np.concatenate([edge for _, *both in clipped for edge in both]))
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


def _clipped(times: PhaseIntervals, start_ns: int, end_ns: int) -> tuple[str, Int64s, Int64s]:
    starts = np.clip(times.start_ns, start_ns, end_ns)
    ends = np.clip(times.end_ns, start_ns, end_ns)
    is_real = ends > starts
    return times.phase, starts[is_real], ends[is_real]


# During training these are evaluation.
EVALUATION_KINDS = ("evaluate", "predict", "test_on_batch", "predict_on_batch")
# A pause is longer than both; the end of an epoch with few short steps is shorter.
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
    """Return whether the loops do anything other than evaluating."""
    return any(loop.kind not in EVALUATION_KINDS for loop in loops)


def step_phases(loops: Sequence[Loop]) -> Iterator[PhaseIntervals]:
    """Yield the phases of the loops of one process, in monotonic ns."""
    evaluating = [loop for loop in loops if is_training(loops) and loop.kind in EVALUATION_KINDS]
    main = [loop for loop in loops if loop not in evaluating]
    between = _all_steps(main)
    for loop in loops:
        window = recent_window(loop, loops)
        yield from _first_step(window)
        if loop in evaluating:
            yield PhaseIntervals("evaluation", *_spans(window, 0, len(window), between))
        else:
            yield from _of_main(window)


def _first_step(window: StepWindow) -> Iterator[PhaseIntervals]:
    """Yield the first step if it took as long as only tracing does."""
    usual_ns = window.step_ns[window.counts][1:]
    if window.first_step or not len(usual_ns):
        return
    if window.step_ns[0] > TRACED_TIMES * np.median(usual_ns):
        yield PhaseIntervals("compile", window.start_ns[:1], window.end_ns[:1])


def _of_main(window: StepWindow) -> Iterator[PhaseIntervals]:
    warm_up = warm_up_steps(window)
    warm_from = 0 if isinstance(warm_up, Missing) else warm_up
    no_steps = _all_steps(())
    yield PhaseIntervals("warm-up", *_spans(window, 0, warm_from, no_steps))
    # From the last step of the warm-up on, so that the gap between the two is covered.
    yield PhaseIntervals("steady", *_spans(window, max(warm_from - 1, 0), len(window), no_steps))


def _spans(
    window: StepWindow, first: int, end: int, between: tuple[Int64s, Int64s]
) -> tuple[Int64s, Int64s]:
    """Return steps joined across gaps that are no pause and hold no step of `between`."""
    start_ns, end_ns = window.start_ns[first:end], window.end_ns[first:end]
    if not len(start_ns):
        return start_ns, end_ns
    gaps_ns = window.gap_ns[first + 1 : end]
    pauses = window.gap_counts[first + 1 : end] & (gaps_ns > _pause_ns(window))
    # Between the steps of two threads there is no gap, but there may be a pause.
    is_first = ~window.has_gap[first + 1 : end]
    pauses |= is_first & (start_ns[1:] - end_ns[:-1] > _pause_ns(window))
    pauses |= overlaps(end_ns[:-1], start_ns[1:], *between)
    at = np.flatnonzero(pauses)
    return start_ns[np.append(0, at + 1)], end_ns[np.append(at, len(end_ns) - 1)]


def _pause_ns(window: StepWindow) -> float:
    periods_ns = window.step_ns + window.gap_ns
    return max(PAUSE_NS, PAUSE_STEPS * float(np.median(periods_ns)))


def _all_steps(loops: Sequence[Loop]) -> tuple[Int64s, Int64s]:
    """Return the start and the end of all steps of these loops, sorted by start."""
    none: Int64s = np.zeros(0, dtype=np.int64)
    start_ns = np.concatenate([none, *(loop.recent.start_ns for loop in loops)])
    end_ns = np.concatenate([none, *(loop.recent.end_ns for loop in loops)])
    order = np.argsort(start_ns, kind="stable")
    return start_ns[order], end_ns[order]
