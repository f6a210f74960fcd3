"""What a trial of fixes found (analysis/compare/trials.py judges, `trial` runs)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tfprobe.analysis.compare.delays import Criticality, DelaySlope
from tfprobe.analysis.compare.trials import Interval, ResultsComparison, TrialGain, Verdict
from tfprobe.errors import Missing
from tfprobe.findings.finding import MeasuredGain
from tfprobe.findings.fixes import ChosenFix

if TYPE_CHECKING:
    # The engine imports every rule.
    from tfprobe.findings.engine import Advice

# How arms run; the value is its word in documents and texts.
IN_TURN = "one after the other"
SIDE_BY_SIDE = "side by side"


_NOT_COMPARED = Missing("nothing was compared")


@dataclass(frozen=True, slots=True)
class AppliedFix:
    """What the agent says of a fix: how often it was applied, where first, and why not elsewhere.

    `source` is "file:line" of the job, "" if it is not known.
    """

    applied: int
    skipped: Mapping[str, int]
    source: str = ""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a finding said of a fix before the trial: ratios of the time of the loop."""

    rule: str
    likely_ratio: float
    most_ratio: float


@dataclass(frozen=True, slots=True)
class FixOutcome:
    """What became of one set of fixes.

    `gain` is Missing with the reason where nothing was measured. `applied` is what the agent says
    of each fix, by id. `results` compares the weights, `losses` the losses of the first steps.
    `warm_up_s` is the time from the start of the interpreter to the first
    measured unit, `break_even_units` after how many units a longer warm-up is made good, None if it
    is not longer or the fix did not win. `processes` is how many were measured.
    """

    fixes: tuple[ChosenFix, ...]
    verdict: Verdict
    gain: TrialGain | Missing
    results: ResultsComparison | Missing
    losses: ResultsComparison | Missing = _NOT_COMPARED
    applied: dict[str, AppliedFix] = field(default_factory=dict)
    warm_up_s: float | None = None
    break_even_units: int | None = None
    processes: int = 0
    prediction: Prediction | None = None
    # Whether it was compared with another set of fixes and not with the base.
    against: tuple[ChosenFix, ...] = ()

    @property
    def name(self) -> str:
        return " + ".join(chosen.text for chosen in self.fixes)


def not_applied(chosen: ChosenFix, why: str, prediction: Prediction | None = None) -> FixOutcome:
    """Return what became of a fix that was not tried because it can change nothing in the job."""
    nothing = Missing(why)
    return FixOutcome(
        (chosen,), Verdict.NOT_APPLIED, nothing, nothing, nothing, prediction=prediction
    )


@dataclass(frozen=True, slots=True)
class DelayOutcome:
    """What became of the delays of one part.

    `slope` is Missing with the reason where nothing was measured. `skipped` says why the agent
    could not slow it down in some place. `processes` is how many were measured, without the base's.
    """

    part: str
    summary: str
    verdict: Criticality
    slope: DelaySlope | Missing
    results: ResultsComparison | Missing
    losses: ResultsComparison | Missing = _NOT_COMPARED
    skipped: tuple[str, ...] = ()
    processes: int = 0


@dataclass(frozen=True, slots=True)
class BaseOutcome:
    """The job without a fix: kind and name of the unit, its mean time, and the warm-up.

    `error_ratio` is the largest difference between two bases, None with one base.
    """

    kind: str
    name: str
    unit_ns: float
    warm_up_s: float | None
    error_ratio: float | None
    processes: int


@dataclass(frozen=True, slots=True)
class Trial:
    """All that a trial of one command found.

    `order` is IN_TURN or SIDE_BY_SIDE. `pressure_ratio` is the share of time in
    which tasks of this machine waited for a CPU before the trial, None if the kernel does not say.
    `written` are files that arms wrote and that would have been among the user's.
    """

    command: tuple[str, ...]
    cwd: str
    started_unix_ns: int
    took_s: float
    order: str
    pressure_ratio: float | None
    base: BaseOutcome
    fixes: tuple[FixOutcome, ...]
    delays: tuple[DelayOutcome, ...] = ()
    combined: FixOutcome | None = None
    isolation: str = ""
    # Directories of users over which the kernel allows no overlay.
    not_overlaid: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    not_tried: tuple[tuple[str, str], ...] = ()
    interrupted: bool = False

    @property
    def outcomes(self) -> tuple[FixOutcome, ...]:
        """What became of each fix alone, and of those that won together."""
        return (*self.fixes, *((self.combined,) if self.combined else ()))


def with_measured(advice: Advice, trials: Iterable[Mapping[str, Any]]) -> Advice:
    """Return the advice with what trials of the same command found of its fixes.

    `trials` are documents, `tfprobe.trial/1`, the newest first; the newest counts for each fix.
    Any: JSON, perhaps damaged.
    """
    newest: dict[str, MeasuredGain] = {}
    for document in trials:
        for measured in _measured(document):
            newest.setdefault(measured.fix.partition("=")[0], measured)
    if not newest:
        return advice
    findings = (
        replace(finding, measured=tuple(newest[fix] for fix in finding.fixes if fix in newest))
        for finding in advice.findings
    )
    return replace(advice, findings=tuple(findings))


def _measured(document: Mapping[str, Any]) -> Iterator[MeasuredGain]:
    """Yield what a document says of single fixes."""
    fixes = document.get("fixes")
    for fix in fixes if isinstance(fixes, list) else ():
        try:
            wall = _interval(fix, "")
            # Trials of before do not say whether CPU time tells anything.
            cpu = _interval(fix, "cpu_") if fix.get("cpu_tells") is True else None
            name, verdict = str(fix["fix"]), Verdict(fix["verdict"])
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            continue  # nothing was measured
        yield MeasuredGain(name, verdict, wall.ratio, wall.low_ratio, wall.high_ratio, cpu)


def _interval(fix: Mapping[str, Any], prefix: str) -> Interval:
    """Return a gain of a document with its interval. Raises what is wrong with it."""
    ratios = [float(fix[prefix + name]) for name in ("gain_ratio", "low_ratio", "high_ratio")]
    if not all(map(math.isfinite, ratios)):
        raise ValueError(f"{prefix}gain_ratio is no number")
    return Interval(*ratios)
