"""Measure how much of a cycle each loop waits for input, for what, and what would help.

The levels are XProf's (input_pipeline_analyzer: highly input-bound from 20 %, moderately from 5 %),
but of the whole cycle of a step, so that Python between steps counts, and without copies to the
device, which are not input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from tfprobe.analysis.breakdown.cycles import LoopParts, parts_by_loop
from tfprobe.analysis.core.intervals import Intervals, one
from tfprobe.analysis.core.main_loop import fills_queue
from tfprobe.analysis.core.releases import Release, in_names_of, release_of
from tfprobe.analysis.input.input_sources import (
    INPUT_PARTS,
    ITERATOR,
    InputSource,
    Producer,
    SourceKind,
    closes_queue,
    is_full,
    producer,
    sources,
)
from tfprobe.analysis.input.remedies import remedies
from tfprobe.analysis.input.stage_stats import PipelineUse, pipeline_use
from tfprobe.analysis.input.stages import SLOW_CALL_NS
from tfprobe.errors import Missing
from tfprobe.profile.activities import ResourceSample
from tfprobe.profile.profile import Capture, Loop, Profile
from tfprobe.profile.tables import T

# A computing thread uses one CPU. Samples are a second apart.
_WAITING_CPUS = 0.5
_FEWEST_SAMPLES = 3


class InputLevel(Enum):
    """How input-bound a loop is. The value is its name in documents."""

    HIGH = "high"
    MODERATE = "moderate"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class InputThresholds:
    """From which share on a loop is input-bound, and how long a slow call of an iterator takes."""

    high_ratio: float = 0.20
    moderate_ratio: float = 0.05
    slow_call_ns: int = SLOW_CALL_NS


@dataclass(frozen=True, slots=True)
class LoopInput:
    """The input of one loop, which waits for it for `ratio` of its mean cycle.

    `is_watched`: the time between its steps is known; else the cycle is the step alone. `fed_bytes`
    are those of the arrays that a mean step was fed. `remedies` are sentences.
    """

    loop: Loop | Missing
    captures: int
    cycle_ns: float
    is_watched: bool
    wait_ns: float
    ratio: float
    level: InputLevel
    sources: tuple[InputSource, ...]
    pipeline: PipelineUse | Missing
    producers: tuple[Producer, ...]
    fed_bytes: int | Missing
    remedies: tuple[str, ...]
    is_queue_full: bool = False

    @property
    def title(self) -> str:
        """Return kind and name of the loop."""
        return "" if isinstance(self.loop, Missing) else f"{self.loop.kind} {self.loop.name}"

    @property
    def keeps_up(self) -> bool:
        """Return whether elements are ready when needed, and there is little else to wait for."""
        has_next = not isinstance(self.pipeline, Missing) and self.pipeline.keeps_up
        return (has_next or self.is_queue_full) and self.level is InputLevel.NONE


def judge(
    profile: Profile,
    thresholds: InputThresholds | None = None,
    loops: Sequence[LoopParts] | None = None,
) -> tuple[LoopInput, ...]:
    """Return the input of each loop with traced steps, the loop with most time first.

    `loops` are those with their traced steps, if they are known already.
    """
    limits = thresholds or InputThresholds()
    return tuple(
        _judged(item, profile, limits)
        for item in (parts_by_loop(profile) if loops is None else loops)
        if isinstance(item.loop, Missing) or not fills_queue(item.loop)
    )


def _judged(item: LoopParts, profile: Profile, limits: InputThresholds) -> LoopInput:
    captures = [step.capture for step in item.steps]
    wait_ns = item.cycle_ns * sum(item.shares.get(part, 0.0) for part in INPUT_PARTS)
    ratio = wait_ns / item.cycle_ns if item.cycle_ns else 0.0
    executions = _of(profile.executions, captures)
    windows = {capture.index: _window(capture) for capture in captures}
    input_sources = sources(item, executions)
    pipeline = pipeline_use(
        _of(profile.spans, captures),
        executions,
        windows,
        slow_call_ns=limits.slow_call_ns,
        cycle_wait_ns=sum(
            source.time_ns for source in input_sources if source.kind is SourceKind.ITERATOR
        ),
    )
    queues = [source for source in input_sources if source.kind is SourceKind.QUEUE]
    fillers = _producers(item, profile) if queues else ()
    full_ratio = sum(source.ratio for source in queues if is_full(source, fillers))
    level = _level(ratio - _handed_over_ratio(input_sources, pipeline) - full_ratio, limits)
    return LoopInput(
        loop=item.loop,
        captures=len(captures),
        cycle_ns=item.cycle_ns,
        is_watched=any(not isinstance(step.between_ns, Missing) for step in item.steps),
        wait_ns=wait_ns,
        ratio=ratio,
        level=level,
        sources=input_sources,
        pipeline=pipeline,
        producers=fillers,
        fed_bytes=_fed_bytes(captures),
        remedies=()
        if level is InputLevel.NONE
        else tuple(
            in_names_of(_release(item.loop, profile), remedy)
            for remedy in remedies(
                input_sources, pipeline, fillers, waits=_waits(item.loop, profile)
            )
        ),
        is_queue_full=full_ratio > 0,
    )


def _waits(loop: Loop | Missing, profile: Profile) -> bool:
    """Return whether a process used so little CPU time that even one thread mostly waited."""
    if isinstance(loop, Missing):
        return False
    samples = [
        sample
        for sample in profile.resource_samples
        if sample.process == loop.process and sample.steps
    ]
    if len(samples) < _FEWEST_SAMPLES:
        return False
    first, last = min(samples, key=_at), max(samples, key=_at)
    used_ns = [
        after - before
        for before, after in ((first.user_ns, last.user_ns), (first.system_ns, last.system_ns))
        if not isinstance(before, Missing) and not isinstance(after, Missing)
    ]
    lasted_ns = last.at_ns - first.at_ns
    return len(used_ns) == 2 and lasted_ns > 0 and sum(used_ns) < _WAITING_CPUS * lasted_ns


def _at(sample: ResourceSample) -> int:
    return sample.at_ns


def _release(loop: Loop | Missing, profile: Profile) -> Release | Missing:
    return (
        loop
        if isinstance(loop, Missing)
        else release_of(profile.processes[loop.process].tensorflow)
    )


def _fed_bytes(captures: list[Capture]) -> int | Missing:
    known = [
        capture.fed_bytes for capture in captures if not isinstance(capture.fed_bytes, Missing)
    ]
    if not known:
        return Missing("the recording has no feed sizes")
    return sum(known) // len(known)


def _handed_over_ratio(found: tuple[InputSource, ...], pipeline: PipelineUse | Missing) -> float:
    """Return the part of the cycle in which ready elements are handed over.

    It can be long: a thread may have to wait for a core before it can take one.
    """
    if isinstance(pipeline, Missing) or not pipeline.keeps_up:
        return 0.0
    return sum(source.ratio for source in found if source.what == ITERATOR)


def _level(ratio: float, limits: InputThresholds) -> InputLevel:
    if ratio >= limits.high_ratio:
        return InputLevel.HIGH
    return InputLevel.MODERATE if ratio >= limits.moderate_ratio else InputLevel.NONE


def _of(rows: T, captures: list[Capture]) -> T:
    return rows.only(np.isin(rows.capture, [capture.index for capture in captures]))


def _window(capture: Capture) -> Intervals:
    return one(capture.start_ns, capture.start_ns + max(capture.duration_ns, 1))


def _producers(item: LoopParts, profile: Profile) -> tuple[Producer, ...]:
    if isinstance(item.loop, Missing):
        return ()
    process = item.loop.process
    loops = [loop for loop in profile.loops if loop.process == process]
    fillers = [loop for loop in loops if fills_queue(loop) and not closes_queue(loop)]
    return tuple(
        sorted(
            (_producer(filler, profile) for filler in fillers),
            key=lambda item: (-item.step_ns * item.steps, item.thread),
        )
    )


def _producer(loop: Loop, profile: Profile) -> Producer:
    captures = _captures(loop, profile)
    recorded_ns = sum(capture.duration_ns for capture in captures)
    return producer(loop, _of(profile.executions, captures), recorded_ns)


def _captures(loop: Loop, profile: Profile) -> list[Capture]:
    key = (loop.process, loop.index)
    return [capture for capture in profile.captures if (capture.process, capture.loop) == key]
