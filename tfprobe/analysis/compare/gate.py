"""Decide whether a change is one that a build should fail over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfprobe.analysis.compare.change_cause import ChangeCause, Whose
from tfprobe.analysis.compare.comparison import Diff, LoopDiff
from tfprobe.analysis.compare.measurements import Change
from tfprobe.analysis.compare.op_changes import OpChanges
from tfprobe.analysis.compare.several_runs import RunsChange
from tfprobe.analysis.compare.sides import NO_CHANGE_RATIO, RUN_MEASURES, Sides
from tfprobe.analysis.compare.step_changes import MEASURES
from tfprobe.errors import Missing

# What to look at, in the words of the command line.
WATCHED: tuple[str, ...] = ("steps", "memory", "op")


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """Whether it fails, and one line that says why.

    `is_known` is false where something grew and nobody knows by whose doing.
    """

    fails: bool
    why: str
    is_known: bool = True

    @property
    def word(self) -> str:
        """Return the verdict as documents have it."""
        if self.fails:
            return "FAIL"
        return "pass" if self.is_known else "cannot be told"

    @property
    def label(self) -> str:
        """Return the verdict as texts have it."""
        return self.word if self.fails or self.is_known else "undecided"


@dataclass(frozen=True, slots=True)
class _Measure:
    """Something that was compared: by how much it grew, and whether that is no chance."""

    what: str
    ratio: float
    is_significant: bool
    cause: ChangeCause | Missing | None = None

    @property
    def is_programs(self) -> bool:
        """Say whether it is known to be the program's doing; memory is nobody else's."""
        return self.cause is None or (
            isinstance(self.cause, ChangeCause) and self.cause.whose is Whose.PROGRAM
        )


def judge(found: Diff, *, on: str, allowed_ratio: float, strict: bool = False) -> GateVerdict:
    """Return whether the program got worse by more than is allowed, and significantly.

    Step times and ops have to be outside their interval of no change, and it has to be known that
    the machine did not do it, unless `strict`. Memory, of which there is one measurement
    on each side, has to be only beyond what is allowed. Where nothing could be compared it fails: a
    build that is no longer looked at is not a good one.
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
    failing = over if strict else [each for each in over if each.is_programs]
    worst = max(failing or over, key=lambda each: each.ratio)
    # Then it may not be the job's fault.
    busy = f", but the load of the machine was {found.load}" if found.load and failing else ""
    grew = f"{worst.what} grew by {worst.ratio * 100:.1f} %; {allowed} are allowed{busy}"
    if failing:
        return GateVerdict(True, grew)
    if all(
        isinstance(each.cause, ChangeCause) and each.cause.whose is Whose.MACHINE for each in over
    ):
        return GateVerdict(False, f"{grew}, but that is the machine")
    unclear = "one run per side does not separate the program from the machine"
    return GateVerdict(False, f"{grew}, but {unclear}; compare several runs a side", is_known=False)


def judge_runs(found: Sides, *, on: str, allowed_ratio: float) -> GateVerdict:
    """Return whether the runs of B are significantly slower than those of A, by more than allowed.

    Where the runs scatter too far to tell it does not fail; where nothing could be compared it
    does.
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
        what, change = max(over, key=lambda each: each[1].ratio)
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
    """Give what is watched, its change, and whether that counts."""
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
        for each in found.memory:
            yield _Measure(each.of, each.ratio, is_significant=True)


def _steps(loop: LoopDiff, judged: Sequence[str]) -> Iterator[_Measure]:
    for name, change in loop.steps.measures:
        if name in judged and isinstance(change, Change):
            what = f"the {MEASURES[name]} of {loop.name}"
            yield _Measure(what, change.ratio, change.is_significant, loop.cause)


def _ops(loop: LoopDiff) -> Iterator[_Measure]:
    if not isinstance(loop.ops, OpChanges):
        return
    for each in loop.ops.types:
        if isinstance(each.change, Change):
            what = f"the time of {each.name} in {loop.name}"
            yield _Measure(what, each.change.ratio, each.change.is_significant, loop.op_cause)
