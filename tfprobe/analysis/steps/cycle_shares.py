"""Say what the cycles of all steps of a loop went to, from traced steps and watched gaps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tfprobe.analysis.breakdown.cycles import LoopParts
from tfprobe.analysis.breakdown.gap_breakdown import GapCause
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.analysis.steps.loop_timing import LoopTiming
from tfprobe.errors import Missing
from tfprobe.profile.graph import is_of_library

_Sums = dict[str, float]


@dataclass(frozen=True, slots=True)
class CycleShares:
    """The exclusive parts of the mean cycle: a traced step and the time up to the next one.

    `shares` sum to 1, by the names of parts in the breakdown. `total_ns` is the time of the cycles
    of all steps, traced or not. `causes` are those of the mean cycle, longest first.
    """

    shares: Mapping[str, float]
    cycle_ns: float
    total_ns: float
    causes: tuple[GapCause, ...] = ()

    def ratio(self, *names: str) -> float:
        """Return the share of these parts together."""
        return sum(self.shares.get(name, 0.0) for name in names)

    def of_all_steps(self, *names: str) -> float:
        """Return what these parts took over all steps, in ns."""
        return self.ratio(*names) * self.total_ns

    def cause(self, *names: str) -> GapCause | None:
        """Return the cause that takes longest in these parts."""
        return next((cause for cause in self.causes if cause.part.value in names), None)


def cycle_shares(item: LoopParts, timing: LoopTiming) -> CycleShares:
    """Return the parts of all cycles; a cycle is the step alone if no gap was watched."""
    inside = _summed(step.inside for step in item.steps)
    after = _summed(gap.parts for gap in item.watched)
    # What recording added ends with the recording: no change of the job saves it.
    inside.pop(Part.RECORDING.value, None)
    total = _scaled(inside, timing.regular_step_ns)
    # Ends of epochs and other long gaps have other parts than usual gaps.
    between_ns = item.between_ns
    usual_ns = 0.0 if isinstance(between_ns, Missing) else between_ns * timing.steps
    for name, ns in _scaled(after, min(timing.regular_gap_ns, usual_ns)).items():
        total[name] = total.get(name, 0.0) + ns
    total_ns = sum(total.values())
    return CycleShares(
        shares={name: ns / total_ns for name, ns in total.items()} if total_ns else {},
        cycle_ns=item.cycle_ns,
        total_ns=min(total_ns, timing.thread_ns),
        causes=item.causes,
    )


def save_source(item: LoopParts) -> str:
    """Return the line of the job that saves longest between its steps, "" if none was seen."""
    saves = [
        cause
        for cause in item.causes
        if cause.part is Part.CHECKPOINTS and cause.file and not is_of_library(cause.file)
    ]
    longest = max(saves, key=lambda cause: cause.duration_ns, default=None)
    return "" if longest is None else longest.source


def _summed(steps: Iterable[Mapping[Part, int]]) -> _Sums:
    total: _Sums = {}
    for step in steps:
        for part, ns in step.items():
            total[part.value] = total.get(part.value, 0.0) + ns
    return total


def _scaled(sums: _Sums, total_ns: float) -> _Sums:
    total = sum(sums.values())
    return {name: ns / total * total_ns for name, ns in sums.items()} if total > 0 else {}
