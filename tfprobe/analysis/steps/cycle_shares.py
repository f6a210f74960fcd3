"""Say what the cycles of all steps of a loop went to, by those that were traced and watched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tfprobe.analysis.breakdown.cycles import LoopParts
from tfprobe.analysis.breakdown.gap_breakdown import GapCause
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.analysis.core.source_lines import is_of_library
from tfprobe.analysis.steps.loop_timing import LoopTiming
from tfprobe.errors import Missing

_Sums = dict[str, float]


@dataclass(frozen=True, slots=True)
class CycleShares:
    """The exclusive parts of the mean cycle: a traced step and the time up to the next one.

    `shares` sum to 1, by the names of the breakdown view. `total_ns` is what the cycles of all
    steps, sampled or not, took; `causes` are of a sampled cycle, dearest first.
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
        """Return the dearest cause of these parts."""
        return next((cause for cause in self.causes if cause.part.value in names), None)


def cycle_shares(item: LoopParts, timing: LoopTiming) -> CycleShares:
    """Return the parts of all cycles.

    Where no time between steps was watched, the cycle is the step alone.
    """
    inside = _summed(step.inside for step in item.steps)
    behind = _summed(gap.parts for gap in item.watched)
    # What recording added goes with the recording: nobody wins it by changing the job.
    inside.pop(Part.RECORDING.value, None)
    total = _scaled(inside, timing.regular_step_ns)
    # Ends of epochs and other long gaps have parts of their own: usual gaps tell nothing of them.
    between_ns = item.between_ns
    usual_ns = 0.0 if isinstance(between_ns, Missing) else between_ns * timing.steps
    for name, ns in _scaled(behind, min(timing.regular_gap_ns, usual_ns)).items():
        total[name] = total.get(name, 0.0) + ns
    total_ns = sum(total.values())
    return CycleShares(
        shares={name: ns / total_ns for name, ns in total.items()} if total_ns else {},
        cycle_ns=item.cycle_ns,
        total_ns=min(total_ns, timing.thread_ns),
        causes=item.causes,
    )


def save_source(item: LoopParts) -> str:
    """Return the dearest line of the job that saves between its steps; "" where none was seen."""
    saves = [
        cause
        for cause in item.causes
        if cause.part is Part.CHECKPOINTS and cause.file and not is_of_library(cause.file)
    ]
    dearest = max(saves, key=lambda cause: cause.duration_ns, default=None)
    return "" if dearest is None else dearest.source


def _summed(steps: Iterable[Mapping[Part, int]]) -> _Sums:
    total: _Sums = {}
    for step in steps:
        for part, ns in step.items():
            total[part.value] = total.get(part.value, 0.0) + ns
    return total


def _scaled(sums: _Sums, whole_ns: float) -> _Sums:
    total = sum(sums.values())
    return {name: ns / total * whole_ns for name, ns in sums.items()} if total > 0 else {}
