"""Write a trial as a document (tfprobe.trial/1): gains are ratios, times are in s or ns."""

from __future__ import annotations

from typing import Any

from tfprobe.analysis.compare.delays import DelaySlope
from tfprobe.analysis.compare.trials import ResultsComparison, TrialGain
from tfprobe.errors import Missing
from tfprobe.findings.trials import BaseOutcome, DelayOutcome, FixOutcome, Trial
from tfprobe.report.documents.document import Document

SCHEMA = "tfprobe.trial/1"


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
    parts: dict[str, Any] = {"gain": outcome.gain, "results": outcome.results}
    return {
        "fix": outcome.name,
        "ids": [chosen.fix.id for chosen in outcome.fixes],
        "verdict": outcome.verdict.value,
        "why": "" if measured is None else measured.why,
        "gain_ratio": None if measured is None else measured.wall.ratio,
        "low_ratio": None if measured is None else measured.wall.low_ratio,
        "high_ratio": None if measured is None else measured.wall.high_ratio,
        "cpu_gain_ratio": None if measured is None else measured.cpu.ratio,
        "error_ratio": None if measured is None else measured.error_ratio,
        "least_ratio": None if measured is None else measured.least_ratio,
        "predicted_ratio": None if prediction is None else prediction.likely_ratio,
        "predicted_most_ratio": None if prediction is None else prediction.most_ratio,
        "rule": None if prediction is None else prediction.rule,
        "results": None if results is None else results.same.value,
        "distance_ratio": None if results is None else results.distance_ratio,
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


def _delay(outcome: DelayOutcome) -> Document:
    known = outcome.slope if isinstance(outcome.slope, DelaySlope) else None
    results = outcome.results if isinstance(outcome.results, ResultsComparison) else None
    parts: dict[str, Any] = {"slope": outcome.slope, "results": outcome.results}
    return {
        "part": outcome.part,
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
        "distance_ratio": None if results is None else results.distance_ratio,
        "skipped": list(outcome.skipped),
        "processes": outcome.processes,
        "missing": {name: part.reason for name, part in parts.items() if isinstance(part, Missing)},
    }
