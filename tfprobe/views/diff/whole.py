"""Gather all that changed from one recording to another."""

from __future__ import annotations

from dataclasses import dataclass

from tfprobe.errors import Missing
from tfprobe.model.profile import Profile, Run, Work
from tfprobe.views.breakdown.cycles import by_work
from tfprobe.views.diff.compare import Change
from tfprobe.views.diff.match import Pair, match
from tfprobe.views.diff.memory import MemoryChange, memory_changes
from tfprobe.views.diff.ops import CostChange, OpChanges, op_changes
from tfprobe.views.diff.parity import Difference, differences, fed_bytes, load_told
from tfprobe.views.diff.parts import part_changes
from tfprobe.views.diff.step_times import JUDGED, JUDGED_WHEN_BUSY, StepChange, step_changes


@dataclass(frozen=True, slots=True)
class WorkDiff:
    """What changed in a pair of works."""

    pair: Pair
    steps: StepChange
    ops: OpChanges | Missing
    parts: tuple[CostChange, ...] | Missing

    @property
    def name(self) -> str:
        return f"{self.pair.before.kind} {self.pair.before.name}".strip()


@dataclass(frozen=True, slots=True)
class Diff:
    """What changed from A (`before`) to B; works with most time in A first.

    `load` says how busy the machines were, where they were too busy.
    """

    before: Run
    after: Run
    differences: tuple[Difference, ...]
    works: tuple[WorkDiff, ...]
    only_before: tuple[Work, ...]
    only_after: tuple[Work, ...]
    memory: tuple[MemoryChange, ...] | Missing
    load: str

    @property
    def judged(self) -> tuple[str, ...]:
        """Return which measures of steps say something of the job: on a busy machine one alone."""
        return JUDGED_WHEN_BUSY if self.load else JUDGED

    @property
    def changed_steps(self) -> tuple[tuple[WorkDiff, str, Change], ...]:
        """Return the step times that changed significantly, and what of them."""
        return tuple(
            (work, what, change)
            for work in self.works
            for what, change in work.steps.measures
            if what in self.judged and isinstance(change, Change) and change.is_significant
        )


def diff(before: Profile, after: Profile) -> Diff | Missing:
    """Return what changed, or why nothing can be compared."""
    matches = match(before, after)
    if not matches.pairs:
        return Missing(_no_common(before, after))
    changes = step_changes(before, after, matches)
    parts = (by_work(before), by_work(after))
    fed = [fed_bytes(before, after, pair) for pair in matches.pairs]
    return Diff(
        before=before.run,
        after=after.run,
        differences=(
            *differences(before, after, matches),
            *(each for each in fed if each is not None),
        ),
        works=tuple(
            WorkDiff(
                pair=change.pair,
                steps=change,
                ops=op_changes(before, after, change.pair),
                parts=part_changes(*parts, change.pair),
            )
            for change in changes
        ),
        only_before=matches.only_before,
        only_after=matches.only_after,
        memory=memory_changes(before, after, matches.pairs),
        load=load_told(before, after),
    )


def _no_common(before: Profile, after: Profile) -> str:
    told = [
        ", ".join(sorted({f"{work.kind} {work.name}" for work in side.works})[:10]) or "none"
        for side in (before, after)
    ]
    return f"they have no kind of step in common: A has {told[0]}; B has {told[1]}"
