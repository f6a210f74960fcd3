"""Decide whether a change should fail a build."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfprobe.analysis.compare.change_cause import CauseKind, ChangeCause
from tfprobe.analysis.compare.comparison import Diff, LoopDiff
from tfprobe.analysis.compare.measurements import Change
from tfprobe.analysis.compare.op_changes import OpChanges
from tfprobe.analysis.compare.several_runs import RunsChange
from tfprobe.analysis.compare.sides import NO_CHANGE_RATIO, RUN_MEASURES, Sides
from tfprobe.analysis.compare.step_changes import MEASURES
from tfprobe.errors import Missing

# What can be watched, in the words of the command line.
WATCHED: tuple[str, ...] = ("steps", "memory", "op")


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """Whether the build fails, and one line that says why.

    `is_known` is false if something grew and the cause is unknown.
    """

    fails: bool
    why: str
    is_known: bool = True

    @property
    def word(self) -> str:
        """Return the verdict for documents."""
        if self.fails:
            return "FAIL"
        return "pass" if self.is_known else "cannot be told"

    @property
    def label(self) -> str:
        """Return the verdict for texts."""
        return self.word if self.fails or self.is_known else "undecided"


@dataclass(frozen=True, slots=True)
class _Measure:
    """Something that was compared: how much it grew, and whether significantly."""

    what: str
    ratio: float
    is_significant: bool
    cause: ChangeCause | Missing | None = None

    @property
    def is_programs(self) -> bool:
        """Return whether the program is known to be the cause; of memory it always is."""
        return self.cause is None or (
            isinstance(self.cause, ChangeCause) and self.cause.kind is CauseKind.PROGRAM
        )


def judge(found: Diff, *, on: str, allowed_ratio: float, strict: bool = False) -> GateVerdict:
    """Return whether the program got significantly worse, by more than is allowed.

    A change of step times and ops must be significant, and unless `strict`, known not to be caused
    by the machine. Memory, with one measurement per side, must only be beyond what is allowed. If
    nothing can be compared it fails: a build that is not checked is not a good one.
    """
    measures = list(_measures(found, on))
    allowed = f"{allowed_ratio * 100:g} %"
    if not measures:
        return GateVerdict(True, f"{_LACKING[on]}, so nothing can be compared")
    over = [
        measure for measure in measures if measure.is_significant and measure.ratio > allowed_ratio
    ]
    if not over:
        return GateVerdict(False, f"nothing grew significantly by more than {allowed}")
    failing = over if strict else [measure for measure in over if measure.is_programs]
    worst = max(failing or over, key=lambda measure: measure.ratio)
    # On a busy machine the job may not be at fault.
    busy = f", but the load of the machine was {found.load}" if found.load and failing else ""
    grew = f"{worst.what} grew by {worst.ratio * 100:.1f} %; {allowed} are allowed{busy}"
    if failing:
        return GateVerdict(True, grew)
    causes = [measure.cause for measure in over]
    if all(isinstance(cause, ChangeCause) and cause.kind is CauseKind.MACHINE for cause in causes):
        return GateVerdict(False, f"{grew}, but that is the machine")
    unclear = "one run per side does not separate the program from the machine"
    return GateVerdict(False, f"{grew}, but {unclear}; compare several runs a side", is_known=False)


def judge_runs(found: Sides, *, on: str, allowed_ratio: float) -> GateVerdict:
    """Return whether the runs of B are significantly slower than those of A, by more than allowed.

    If the runs vary too much to decide, it passes; if nothing can be compared, it fails.
    """
    changes = list(_run_changes(found, on))
    if not changes:
        return GateVerdict(True, f"{_LACKING[on]}, so nothing can be compared")
    over = [
        (what, change)
        for what, change, is_decisive in changes
        if is_decisive and change.ratio > allowed_ratio
    ]
    allowed = f"{allowed_ratio * 100:g} %"
    if over:
        what, change = max(over, key=lambda item: item[1].ratio)
        return GateVerdict(
            True, f"{what} grew by {change.ratio * 100:.1f} %; {allowed} are allowed"
        )
    least_ratio = max(change.least_ratio for _, change, _ in changes)
    seen = f"{least_ratio * 100:.1f} % more would have been detected"
    if least_ratio > max(allowed_ratio, NO_CHANGE_RATIO):
        return GateVerdict(
            False,
            f"the runs vary too much: only {seen}",
            is_known=False,
        )
    return GateVerdict(False, f"nothing grew by more than {allowed}; {seen}")


def _run_changes(found: Sides, on: str) -> Iterator[tuple[str, RunsChange, bool]]:
    """Yield what is watched, its change, and whether that is decisive."""
    for loop in found.loops:
        if on == "steps":
            for name, change in loop.verdicts:
                is_decisive = name in dict(loop.decisive)
                yield f"the {RUN_MEASURES[name]} of {loop.name}", change, is_decisive
        elif on == "op" and loop.judged:
            for name, change in loop.ops.changes:
                yield f"the time of {name} in {loop.name}", change, change.is_significant


_LACKING: Mapping[str, str] = {
    "steps": "no kind of step has enough steps in both",
    "memory": "not both have memory data",
    "op": "no kind of step has enough traced steps in both",
}


def _measures(found: Diff, on: str) -> Iterator[_Measure]:
    if on == "steps":
        for loop in found.loops:
            yield from _steps(loop, found.judged)
    elif on == "op":
        for loop in found.loops:
            yield from _ops(loop)
    elif not isinstance(found.memory, Missing):
        for memory in found.memory:
            yield _Measure(memory.of, memory.ratio, is_significant=True)


def _steps(loop: LoopDiff, judged: Sequence[str]) -> Iterator[_Measure]:
    for name, change in loop.steps.measures:
        if name in judged and isinstance(change, Change):
            what = f"the {MEASURES[name]} of {loop.name}"
            yield _Measure(what, change.ratio, change.is_significant, loop.cause)


def _ops(loop: LoopDiff) -> Iterator[_Measure]:
    if not isinstance(loop.ops, OpChanges):
        return
    for op in loop.ops.types:
        if isinstance(op.change, Change):
            what = f"the time of {op.name} in {loop.name}"
            yield _Measure(what, op.change.ratio, op.change.is_significant, loop.op_cause)
