"""The steps of a work as columns: for the overview and the page of steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfprobe.analysis.steps import outliers
from tfprobe.analysis.steps.outliers import Outlier, Outliers
from tfprobe.analysis.steps.phases import life
from tfprobe.analysis.steps.slow_step_causes import Cause, describe_cause
from tfprobe.analysis.steps.step_series import StepSeries, Trend, bands
from tfprobe.analysis.steps.step_window import StepWindow
from tfprobe.errors import Missing
from tfprobe.profile.profile import Profile
from tfprobe.report.documents.step_report import LoopStepReport
from tfprobe.web.values import Document, whole

# More are told of by their number and their time.
SHOWN_OUTLIERS = 200
# Steps that tfprobe traced, or that raised: as many as a curve has points.
_MOST_MARKS = 2_000
# Names of functions and callbacks may be as long as somebody wants.
_CAUSE_CHARACTERS = 200


def bands_of(profile: Profile, found: LoopStepReport) -> list[Document]:
    """Return the phases of the steps of a loop, in order."""
    shift_ns = found.process.unix_minus_monotonic_ns
    if isinstance(shift_ns, Missing):
        return []
    return [
        {"phase": band.phase, "first_step": band.first_step, "last_step": band.last_step}
        for band in bands(found.remembered, life(profile, found.process), shift_ns)
    ]


def series_document(found: StepSeries) -> Document:
    """Return a curve; where a bucket is one step, least and most are left out."""
    document: Document = {
        "first_step": found.first_step,
        "end_step": found.end_step,
        "steps_each": found.steps_each,
        "step": whole(found.first_steps),
        "median_ns": whole(found.median_ns),
        "gap_ns": whole(found.gap_ns),
    }
    if found.steps_each > 1:
        document |= {"min_ns": whole(found.min_ns), "max_ns": whole(found.max_ns)}
    return document


def outliers_document(found: Outliers | Missing, *, most: int = SHOWN_OUTLIERS) -> Document:
    """Return what stands out: in all, by cause, and the longest."""
    if isinstance(found, Missing):
        return {"missing": found.reason}
    return {
        "looked_at": found.looked_at,
        "count": len(found.found),
        "usual_ns": round(found.usual_ns),
        "excess_ns": found.excess_ns,
        "share_ratio": found.share_ratio,
        "causes": [
            {**cause_document(cause), "count": count, "excess_ns": excess_ns}
            for cause, count, excess_ns in outliers.by_cause(found)
        ],
        "periods": [
            {
                "every": period.every,
                "first": period.first,
                "times": period.times,
                "turns": period.turns,
            }
            for period in found.periods
        ],
        "longest": [outlier_document(each) for each in found.found[:most]],
    }


def outlier_document(each: Outlier) -> Document:
    """Return one step, or the gap before it."""
    return {
        "step": each.step,
        "duration_ns": each.duration_ns,
        "excess_ns": each.excess_ns,
        "z": round(each.z, 1),
        **cause_document(each.cause),
    }


def cause_document(cause: Cause | Missing) -> Document:
    """Return why something took long, in words; its kind is None where that is not known."""
    kind = None if isinstance(cause, Missing) else cause.kind
    return {"cause": kind, "why": describe_cause(cause)[:_CAUSE_CHARACTERS]}


def marked_steps(remembered: StepWindow, flags: np.ndarray[Any, Any]) -> list[int]:
    """Return the numbers of the latest steps that have a flag."""
    return whole(remembered.numbers[np.flatnonzero(flags)[-_MOST_MARKS:]])


def trend_document(found: Trend | Missing) -> Document:
    """Return how step times change over the run."""
    if isinstance(found, Missing):
        return {"missing": found.reason}
    return {
        "first_step": found.first_step,
        "last_step": found.last_step,
        "change_ratio": found.change_ratio,
        "low_ratio": found.low_ratio,
        "high_ratio": found.high_ratio,
        "p_value": found.p_value,
        "is_significant": found.is_significant,
    }
