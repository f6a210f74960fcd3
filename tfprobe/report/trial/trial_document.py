"""Write a trial as a document (tfprobe.trial/1), and read one: gains are ratios, times s or ns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from tfprobe.analysis.compare.delays import Criticality, DelayLevel, DelaySlope
from tfprobe.analysis.compare.trials import (
    Interval,
    ResultsComparison,
    SameResults,
    TrialGain,
    Verdict,
)
from tfprobe.errors import Missing, UnreadableInput, UsageError
from tfprobe.findings.fixes import chosen
from tfprobe.findings.trials import (
    AppliedFix,
    BaseOutcome,
    DelayOutcome,
    FixOutcome,
    Prediction,
    Trial,
)
from tfprobe.report.documents.document import Document

SCHEMA = "tfprobe.trial/1"
_TOGETHER = " + "
E = TypeVar("E", bound=Enum)
T = TypeVar("T")


def trial_document(trial: Trial) -> Document:
    """Return what a trial found; what is not known is null, and `missing` says why."""
    return {
        "schema": SCHEMA,
        "command": list(trial.command),
        "cwd": trial.cwd,
        "started_unix_ns": trial.started_unix_ns,
        "took_s": round(trial.took_s, 3),
        "order": trial.order,
        "pressure_ratio": trial.pressure_ratio,
        "isolation": trial.isolation,
        "not_overlaid": list(trial.not_overlaid),
        "base": _base(trial.base),
        "fixes": [_fix(outcome) for outcome in trial.fixes],
        "delays": [_delay(outcome) for outcome in trial.delays],
        "combined": None if trial.combined is None else _fix(trial.combined),
        "written": list(trial.written),
        "not_tried": [{"fix": name, "why": why} for name, why in trial.not_tried],
        "interrupted": trial.interrupted,
    }


def _base(base: BaseOutcome) -> Document:
    return {
        "unit": {"kind": base.kind, "name": base.name},
        "unit_ns": round(base.unit_ns),
        "warm_up_s": base.warm_up_s,
        "error_ratio": base.error_ratio,
        "processes": base.processes,
    }


def _fix(outcome: FixOutcome) -> Document:
    measured = outcome.gain if isinstance(outcome.gain, TrialGain) else None
    results = outcome.results if isinstance(outcome.results, ResultsComparison) else None
    prediction = outcome.prediction
    losses = outcome.losses if isinstance(outcome.losses, ResultsComparison) else None
    parts: dict[str, Any] = {
        "gain": outcome.gain,
        "results": outcome.results,
        "losses": outcome.losses,
    }
    return {
        "fix": outcome.name,
        "ids": [chosen.fix.id for chosen in outcome.fixes],
        "verdict": outcome.verdict.value,
        "why": "" if measured is None else measured.why,
        "gain_ratio": None if measured is None else measured.wall.ratio,
        "low_ratio": None if measured is None else measured.wall.low_ratio,
        "high_ratio": None if measured is None else measured.wall.high_ratio,
        "cpu_gain_ratio": None if measured is None else measured.cpu.ratio,
        "cpu_low_ratio": None if measured is None else measured.cpu.low_ratio,
        "cpu_high_ratio": None if measured is None else measured.cpu.high_ratio,
        "cpu_tells": measured is not None and measured.cpu_tells,
        "error_ratio": None if measured is None else measured.error_ratio,
        "least_ratio": None if measured is None else measured.least_ratio,
        "predicted_ratio": None if prediction is None else prediction.likely_ratio,
        "predicted_most_ratio": None if prediction is None else prediction.most_ratio,
        "rule": None if prediction is None else prediction.rule,
        "results": None if results is None else results.same.value,
        "distance_ratio": _distance(results),
        "losses": None if losses is None else losses.same.value,
        "losses_distance_ratio": _distance(losses),
        "change": [chosen.change for chosen in outcome.fixes],
        "alters": [chosen.alters for chosen in outcome.fixes if chosen.alters],
        "applied": {
            name: {"times": one.applied, "skipped": dict(one.skipped), "source": one.source or None}
            for name, one in outcome.applied.items()
        },
        "warm_up_s": outcome.warm_up_s,
        "break_even_units": outcome.break_even_units,
        "processes": outcome.processes,
        "missing": {name: part.reason for name, part in parts.items() if isinstance(part, Missing)},
    }


def _distance(results: ResultsComparison | None) -> float | None:
    """Return how far results are apart; weights that are no numbers any more have no distance."""
    if results is None or not math.isfinite(results.distance_ratio):
        return None
    return results.distance_ratio


def _delay(outcome: DelayOutcome) -> Document:
    known = outcome.slope if isinstance(outcome.slope, DelaySlope) else None
    results = outcome.results if isinstance(outcome.results, ResultsComparison) else None
    losses = outcome.losses if isinstance(outcome.losses, ResultsComparison) else None
    parts: dict[str, Any] = {
        "slope": outcome.slope,
        "results": outcome.results,
        "losses": outcome.losses,
    }
    return {
        "part": outcome.part,
        "summary": outcome.summary,
        "verdict": outcome.verdict.value,
        "why": "" if known is None else known.why,
        "slope_ratio": None if known is None else known.slope.ratio,
        "slope_low_ratio": None if known is None else known.slope.low_ratio,
        "slope_high_ratio": None if known is None else known.slope.high_ratio,
        "share_ratio": None if known is None else known.share_ratio,
        "most_gain_ratio": None if known is None else known.most.ratio,
        "most_gain_low_ratio": None if known is None else known.most.low_ratio,
        "most_gain_high_ratio": None if known is None else known.most.high_ratio,
        "error_ratio": None if known is None else known.error_ratio,
        "levels": [
            {
                "delay_ratio": level.level,
                "delay_ns": round(level.delay_ns),
                "unit_ns": round(level.unit_ns),
                "processes": level.processes,
            }
            for level in (() if known is None else known.levels)
        ],
        "results": None if results is None else results.same.value,
        "distance_ratio": _distance(results),
        "losses": None if losses is None else losses.same.value,
        "losses_distance_ratio": _distance(losses),
        "skipped": list(outcome.skipped),
        "processes": outcome.processes,
        "missing": {name: part.reason for name, part in parts.items() if isinstance(part, Missing)},
    }


def trial_of(document: Mapping[str, Any]) -> Trial:
    """Return the trial that a document describes. Any: JSON, of whoever wrote it.

    Raises UnreadableInput for anything else, with what is wrong with it.
    """
    if document.get("schema") != SCHEMA:
        raise _damaged(f"it is no document of {SCHEMA}")
    fields = _Fields(document)
    base = fields.object("base")
    unit = base.object("unit")
    combined = fields.optional_object("combined")
    return Trial(
        command=tuple(fields.texts("command")),
        cwd=fields.text("cwd"),
        started_unix_ns=fields.whole("started_unix_ns"),
        took_s=fields.number("took_s"),
        order=fields.text("order"),
        pressure_ratio=fields.optional_number("pressure_ratio"),
        base=BaseOutcome(
            kind=unit.text("kind"),
            name=unit.text("name"),
            unit_ns=base.number("unit_ns"),
            warm_up_s=base.optional_number("warm_up_s"),
            error_ratio=base.optional_number("error_ratio"),
            processes=base.whole("processes"),
        ),
        fixes=tuple(_outcome(each) for each in fields.objects("fixes")),
        delays=tuple(_delay_outcome(each) for each in fields.objects("delays")),
        combined=None if combined is None else _outcome(combined),
        isolation=fields.text("isolation"),
        # Trials of before do not have it.
        not_overlaid=(
            () if fields.is_null("not_overlaid") else tuple(fields.texts("not_overlaid"))
        ),
        written=tuple(fields.texts("written")),
        not_tried=tuple(
            (each.text("fix"), each.text("why")) for each in fields.objects("not_tried")
        ),
        interrupted=fields.flag("interrupted"),
    )


def _outcome(fields: _Fields) -> FixOutcome:
    try:
        fixes = tuple(chosen(word) for word in fields.text("fix").split(_TOGETHER))
    except UsageError as exc:
        problem = exc.problem.rstrip(".")
        raise _damaged(f"this version of tfprobe does not know its fixes ({problem})") from exc
    verdict, missing = fields.one_of("verdict", Verdict), fields.object("missing")
    likely = fields.optional_number("predicted_ratio")
    break_even = fields.optional_number("break_even_units")
    applied = fields.object("applied")
    return FixOutcome(
        fixes=fixes,
        verdict=verdict,
        gain=Missing(missing.text("gain"))
        if fields.optional_number("gain_ratio") is None
        else _gain(fields, verdict),
        results=_compared(fields, "results", "distance_ratio"),
        losses=_compared(fields, "losses", "losses_distance_ratio"),
        applied={name: _applied(applied.object(name)) for name in applied.names},
        warm_up_s=fields.optional_number("warm_up_s"),
        break_even_units=None if break_even is None else int(break_even),
        processes=fields.whole("processes"),
        prediction=None
        if likely is None
        else Prediction(fields.text("rule"), likely, fields.number("predicted_most_ratio")),
    )


def _compared(fields: _Fields, name: str, distance_name: str) -> ResultsComparison | Missing:
    if fields.is_null(name):
        return Missing(fields.object("missing").text(name))
    distance = fields.optional_number(distance_name)
    same = fields.one_of(name, SameResults)
    return ResultsComparison(same, math.nan if distance is None else distance)


def _delay_outcome(fields: _Fields) -> DelayOutcome:
    verdict = fields.one_of("verdict", Criticality)
    return DelayOutcome(
        part=fields.text("part"),
        summary=fields.text("summary"),
        verdict=verdict,
        slope=Missing(fields.object("missing").text("slope"))
        if fields.optional_number("slope_ratio") is None
        else _slope(fields, verdict),
        results=_compared(fields, "results", "distance_ratio"),
        losses=_compared(fields, "losses", "losses_distance_ratio"),
        skipped=tuple(fields.texts("skipped")),
        processes=fields.whole("processes"),
    )


def _slope(fields: _Fields, verdict: Criticality) -> DelaySlope:
    slope, most = (
        Interval(
            *(fields.number(f"{name}{end}") for end in ("_ratio", "_low_ratio", "_high_ratio"))
        )
        for name in ("slope", "most_gain")
    )
    levels = tuple(
        DelayLevel(
            level.number("delay_ratio"),
            level.number("delay_ns"),
            level.number("unit_ns"),
            level.whole("processes"),
        )
        for level in fields.objects("levels")
    )
    if not levels:
        raise _damaged("it has no proper `levels`")
    return DelaySlope(
        verdict,
        slope,
        fields.number("share_ratio"),
        most,
        fields.number("error_ratio"),
        levels,
        fields.text("why"),
    )


def _gain(fields: _Fields, verdict: Verdict) -> TrialGain:
    return TrialGain(
        verdict,
        Interval(*(fields.number(name) for name in ("gain_ratio", "low_ratio", "high_ratio"))),
        Interval(
            *(fields.number(f"cpu_{name}_ratio") for name in ("gain", "low", "high")),
        ),
        error_ratio=fields.number("error_ratio"),
        least_ratio=fields.number("least_ratio"),
        why=fields.text("why"),
        # Trials of before do not have it.
        cpu_tells=not fields.is_null("cpu_tells") and fields.flag("cpu_tells"),
    )


def _applied(fields: _Fields) -> AppliedFix:
    skipped = fields.object("skipped")
    source = "" if fields.is_null("source") else fields.text("source")
    return AppliedFix(
        fields.whole("times"), {why: skipped.whole(why) for why in skipped.names}, source
    )


def _damaged(why: str) -> UnreadableInput:
    return UnreadableInput(f"The trial is not shown: {why}.")


class _Fields:
    """An object of a document; each method returns a field of it, or raises UnreadableInput."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._fields)

    def is_null(self, name: str) -> bool:
        return self._fields.get(name) is None

    def text(self, name: str) -> str:
        return self._of(name, str)

    def whole(self, name: str) -> int:
        return self._of(name, int)

    def flag(self, name: str) -> bool:
        return self._of(name, bool)

    def number(self, name: str) -> float:
        value = self._fields.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(name)
        try:
            number = float(value)
        except OverflowError:
            raise self._wrong(name) from None
        if not math.isfinite(number):
            raise self._wrong(name)
        return number

    def optional_number(self, name: str) -> float | None:
        return None if self.is_null(name) else self.number(name)

    def one_of(self, name: str, kind: type[E]) -> E:
        try:
            return kind(self._fields.get(name))
        except ValueError:
            raise self._wrong(name) from None

    def object(self, name: str) -> _Fields:
        return _Fields(self._of(name, dict))

    def optional_object(self, name: str) -> _Fields | None:
        return None if self.is_null(name) else self.object(name)

    def objects(self, name: str) -> tuple[_Fields, ...]:
        values = self._of(name, list)
        if not all(isinstance(value, dict) for value in values):
            raise self._wrong(name)
        return tuple(_Fields(value) for value in values)

    def texts(self, name: str) -> list[str]:
        values = self._of(name, list)
        if not all(isinstance(value, str) for value in values):
            raise self._wrong(name)
        return values

    def _of(self, name: str, kind: type[T]) -> T:
        value = self._fields.get(name)
        # True is an int, too.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self._wrong(name)
        return value

    def _wrong(self, name: str) -> UnreadableInput:
        return _damaged(f"it has no proper `{name}`")
