"""Compare two recordings: steps, ops, parts and memory, and the cause of each change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfprobe.analysis.breakdown.cycles import LoopParts, parts_by_loop
from tfprobe.analysis.compare.change_cause import (
    CauseKind,
    ChangeCause,
    ChangeEvidence,
    Processor,
    cause,
    of_cycle,
    of_ops,
    of_parts,
    processor,
)
from tfprobe.analysis.compare.matching_loops import LoopPair, match
from tfprobe.analysis.compare.measurements import Change
from tfprobe.analysis.compare.op_changes import CostChange, OpChanges, op_changes
from tfprobe.analysis.compare.parity import (
    Difference,
    differences,
    fed_bytes,
    fed_growth_ratio,
    load_description,
)
from tfprobe.analysis.compare.step_changes import (
    JUDGED,
    JUDGED_WHEN_BUSY,
    MemoryChange,
    StepChange,
    memory_changes,
    part_changes,
    requested_growth_ratio,
    step_changes,
)
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop, Profile, Run


@dataclass(frozen=True, slots=True)
class LoopDiff:
    """What changed in a pair of loops.

    `cause` is that of the change of steps, `op_cause` that of ops; `before` and `after` are the
    processor time of a step.
    """

    pair: LoopPair
    steps: StepChange
    ops: OpChanges | Missing
    parts: tuple[CostChange, ...] | Missing
    cause: ChangeCause | Missing
    op_cause: ChangeCause | Missing
    before: Processor | Missing
    after: Processor | Missing

    @property
    def name(self) -> str:
        return f"{self.pair.before.kind} {self.pair.before.name}".strip()


@dataclass(frozen=True, slots=True)
class Diff:
    """What changed from A (`before`) to B; loops with most time in A first.

    `load` describes the load of the machines if it was too high, else "".
    """

    before: Run
    after: Run
    differences: tuple[Difference, ...]
    loops: tuple[LoopDiff, ...]
    only_before: tuple[Loop, ...]
    only_after: tuple[Loop, ...]
    memory: tuple[MemoryChange, ...] | Missing
    load: str

    @property
    def judged(self) -> tuple[str, ...]:
        """Return which measures of steps are judged: fewer on a busy machine."""
        return _judged(self.load)

    @property
    def cause_kind(self) -> CauseKind | None:
        """Return what caused the change of steps: the program if it did in any loop.

        None if no step time changed significantly.
        """
        kinds = {loop.cause.kind for loop in self.loops if isinstance(loop.cause, ChangeCause)}
        return next(
            (kind for kind in (CauseKind.PROGRAM, CauseKind.UNKNOWN) if kind in kinds), None
        ) or (CauseKind.MACHINE if kinds else None)

    @property
    def changed_steps(self) -> tuple[tuple[LoopDiff, str, Change], ...]:
        """Return the step times that changed significantly, with their measure."""
        return tuple(
            (loop, what, change)
            for loop in self.loops
            for what, change in loop.steps.measures
            if what in self.judged and isinstance(change, Change) and change.is_significant
        )


def diff(before: Profile, after: Profile) -> Diff | Missing:
    """Return what changed, or why nothing can be compared."""
    matches = match(before, after)
    if not matches.pairs:
        return Missing(_no_common(before, after))
    fed = [fed_bytes(before, after, pair) for pair in matches.pairs]
    programs = differences(before, after, matches)
    setup = _Setup(
        before,
        after,
        parts=(parts_by_loop(before), parts_by_loop(after)),
        is_same=not programs,
        load=load_description(before, after),
    )
    return Diff(
        before=before.run,
        after=after.run,
        differences=(*programs, *(difference for difference in fed if difference is not None)),
        loops=tuple(_loop(setup, change) for change in step_changes(before, after, matches)),
        only_before=matches.only_before,
        only_after=matches.only_after,
        memory=memory_changes(before, after, matches.pairs),
        load=setup.load,
    )


@dataclass(frozen=True, slots=True)
class _Setup:
    """Both recordings, and whether comparing them is fair."""

    before: Profile
    after: Profile
    parts: tuple[Sequence[LoopParts], Sequence[LoopParts]]
    is_same: bool
    load: str


def _loop(setup: _Setup, steps: StepChange) -> LoopDiff:
    before, after, pair = setup.before, setup.after, steps.pair
    ops = op_changes(before, after, pair)
    parts = part_changes(*setup.parts, pair)
    processors = (processor(before, pair.before), processor(after, pair.after))
    evidence = ChangeEvidence(
        0.0,
        *processors,
        shapes=(),
        fed_ratio=fed_growth_ratio(before, after, pair),
        requested_ratio=requested_growth_ratio(before, after, pair),
        same_setup=setup.is_same,
        is_busy=bool(setup.load),
    )
    shapes = tuple(
        shape
        for shape in (of_cycle(steps), of_parts(parts), of_ops(ops))
        if not isinstance(shape, Missing)
    )
    return LoopDiff(
        pair,
        steps,
        ops,
        parts,
        _cause(replace(evidence, shapes=shapes), steps, _judged(setup.load)),
        _op_cause(evidence, ops),
        *processors,
    )


def _cause(
    evidence: ChangeEvidence, steps: StepChange, judged: tuple[str, ...]
) -> ChangeCause | Missing:
    """Return the cause of the largest significant change."""
    changes = [
        change.ratio
        for name, change in steps.measures
        if name in judged and isinstance(change, Change) and change.is_significant
    ]
    if not changes:
        return Missing("its step times have not changed significantly")
    return cause(replace(evidence, growth_ratio=max(changes, key=abs)))


def _op_cause(evidence: ChangeEvidence, ops: OpChanges | Missing) -> ChangeCause | Missing:
    """Return the cause of the change in the time of all ops together."""
    shape = of_ops(ops)
    if isinstance(shape, Missing):
        return shape
    return cause(replace(evidence, shapes=(shape,), growth_ratio=shape.growth_ratio))


def _judged(load: str) -> tuple[str, ...]:
    return JUDGED_WHEN_BUSY if load else JUDGED


def _no_common(before: Profile, after: Profile) -> str:
    kinds = [
        ", ".join(sorted({f"{loop.kind} {loop.name}" for loop in side.loops})[:10]) or "none"
        for side in (before, after)
    ]
    return f"they have no kind of step in common: A has {kinds[0]}; B has {kinds[1]}"
