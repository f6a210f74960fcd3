"""Set the runs of one job beside each other over time, each compared with the one before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tfprobe.analysis.account.account import merge
from tfprobe.analysis.account.collectives import of_run
from tfprobe.analysis.compare.change_cause import Cause
from tfprobe.analysis.compare.comparison import Diff, WorkDiff, diff
from tfprobe.analysis.compare.measurements import Change
from tfprobe.analysis.compare.step_time_changes import times_of
from tfprobe.errors import Missing
from tfprobe.profile.profile import Profile, Work
from tfprobe.profile.snapshots import RunLine

_FIRST = Missing("no run of the job with steps is before it")


@dataclass(frozen=True, slots=True)
class Step:
    """What changed in the steps of a run since the run of the job before it.

    `measure` is what the change is of, by its name in documents: the median step, or what changed
    significantly. `cause` is Missing where nothing did.
    """

    measure: str
    ratio: float
    is_significant: bool
    cause: Cause | Missing


@dataclass(frozen=True, slots=True)
class TrendRow:
    """A run of a job; `work` is its kind of step with most time, whose median is `step_p50_ns`.

    `goodput_ratio` is the share of its time that went to productive steps.
    """

    run: RunLine
    python: str | Missing
    tensorflow: str | Missing
    work: str | Missing
    step_p50_ns: float | Missing
    change: Step | Missing
    goodput_ratio: float | Missing


def trend(runs: Iterable[tuple[RunLine, Profile | Missing]]) -> Iterator[TrendRow]:
    """Give a row for each run of a job, given the oldest first; one that has no steps is skipped
    as a neighbour.
    """
    before: Profile | None = None
    for line, profile in runs:
        yield _row(line, profile, before)
        if not isinstance(profile, Missing) and profile.works:
            before = profile


def _row(line: RunLine, profile: Profile | Missing, before: Profile | None) -> TrendRow:
    if isinstance(profile, Missing):
        return TrendRow(line, *[profile] * 6)
    unknown = Missing("no process was recorded")
    process = profile.processes[0] if profile.processes else None
    work = max(profile.works, key=lambda work: work.times.sum_ns, default=None)
    if process is None or work is None:
        return TrendRow(line, *[unknown] * 6)
    return TrendRow(
        run=line,
        python=process.python,
        tensorflow=process.tensorflow,
        work=f"{work.kind} {work.name}".strip(),
        step_p50_ns=_median_ns(profile, work),
        change=_FIRST if before is None else _change(diff(before, profile), work),
        goodput_ratio=_goodput_ratio(profile),
    )


def _goodput_ratio(profile: Profile) -> float | Missing:
    found = merge(of_run(profile))
    if isinstance(found, Missing):
        return found
    return found.goodput_ratio if found.steps else Missing("no step made progress")


def _median_ns(profile: Profile, work: Work) -> float | Missing:
    step = times_of(profile, work).step
    return step.level if step.count else Missing("no step counts")


def _change(found: Diff | Missing, work: Work) -> Step | Missing:
    if isinstance(found, Missing):
        return found
    same = [each for each in found.works if each.pair.after is work]
    if not same:
        return Missing("the run before has no such step")
    return _step(same[0], found.judged)


def _step(work: WorkDiff, judged: tuple[str, ...]) -> Step | Missing:
    """Return the largest significant change of what is judged, else that of the median step."""
    changes = {name: change for name, change in work.steps.measures if isinstance(change, Change)}
    significant = [name for name in judged if name in changes and changes[name].is_significant]
    if significant:
        name = max(significant, key=lambda name: abs(changes[name].ratio))
        return Step(name, changes[name].ratio, True, work.cause)
    if "step" not in changes:
        return Missing("too few steps to compare")
    return Step("step", changes["step"].ratio, False, work.cause)
