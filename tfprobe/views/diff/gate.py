"""Decide whether a change is one that a build should fail over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfprobe.errors import Missing
from tfprobe.views.diff.compare import Change
from tfprobe.views.diff.ops import OpChanges
from tfprobe.views.diff.step_times import MEASURES
from tfprobe.views.diff.whole import Diff, WorkDiff

# What to look at, in the words of the command line.
WATCHED: tuple[str, ...] = ("steps", "memory", "op")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether it fails, and one line that says why."""

    fails: bool
    why: str


@dataclass(frozen=True, slots=True)
class _Measure:
    """Something that was compared: by how much it grew, and whether that is no chance."""

    what: str
    ratio: float
    is_significant: bool


def judge(found: Diff, *, on: str, allowed_ratio: float) -> Verdict:
    """Return whether something watched got worse by more than is allowed, and significantly.

    Step times and ops have to be outside their interval of no change; memory, of which there is one
    measurement on each side, only beyond what is allowed. Where nothing could be compared it fails:
    a build that is no longer looked at is not a good one.
    """
    measures = list(_measures(found, on))
    allowed = f"{allowed_ratio * 100:g} %"
    if not measures:
        return Verdict(True, f"{_LACKING[on]}, so it cannot be told")
    over = [each for each in measures if each.is_significant and each.ratio > allowed_ratio]
    if not over:
        return Verdict(False, f"nothing grew by more than {allowed}, as far as can be told")
    worst = max(over, key=lambda each: each.ratio)
    # Then it may not be the job's fault.
    busy = f", but the load of the machine was {found.load}" if found.load else ""
    why = f"{worst.what} grew by {worst.ratio * 100:.1f} %; {allowed} are allowed{busy}"
    return Verdict(True, why)


_LACKING: Mapping[str, str] = {
    "steps": "no kind of step has enough steps in both",
    "memory": "they do not both tell of memory",
    "op": "no kind of step has enough sampled steps in both",
}


def _measures(found: Diff, on: str) -> Iterator[_Measure]:
    if on == "steps":
        for work in found.works:
            yield from _steps(work, found.judged)
    elif on == "op":
        for work in found.works:
            yield from _ops(work)
    elif not isinstance(found.memory, Missing):
        for each in found.memory:
            yield _Measure(each.of, each.ratio, is_significant=True)


def _steps(work: WorkDiff, judged: Sequence[str]) -> Iterator[_Measure]:
    for name, change in work.steps.measures:
        if name in judged and isinstance(change, Change):
            what = f"the {MEASURES[name]} of {work.name}"
            yield _Measure(what, change.ratio, change.is_significant)


def _ops(work: WorkDiff) -> Iterator[_Measure]:
    if not isinstance(work.ops, OpChanges):
        return
    for each in work.ops.types:
        if isinstance(each.change, Change):
            what = f"the time of {each.name} in {work.name}"
            yield _Measure(what, each.change.ratio, each.change.is_significant)
