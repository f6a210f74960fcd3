"""The steps of a work as columns: for the overview and the page of steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfprobe.analysis.steps import outliers
from tfprobe.analysis.steps.outliers import Outlier, Outliers
from tfprobe.analysis.steps.phases import life
from tfprobe.analysis.steps.slow_step_causes import Cause, describe_cause
from tfprobe.analysis.steps.step_series import StepSeries, bands
from tfprobe.analysis.steps.step_window import StepWindow
from tfprobe.errors import Missing
from tfprobe.profile.profile import Profile
from tfprobe.report.documents.document import Document
from tfprobe.report.documents.step_report import (
    LoopStepReport,
    outlier_document,
    outliers_document,
)
from tfprobe.web.values import whole

# Of more only the number and the time are shown.
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


def shown_outliers(found: Outliers | Missing, *, most: int = SHOWN_OUTLIERS) -> Document:
    """Return the document of outliers with their causes in words, and at most so many of them."""
    if isinstance(found, Missing):
        return outliers_document(found)
    causes = outliers.by_cause(found)
    document = outliers_document(found)
    return {
        **document,
        "causes": [
            {**shown, **_why(cause)}
            for shown, (cause, _, _) in zip(document["causes"], causes, strict=True)
        ],
        "longest": [shown_outlier(outlier) for outlier in found.found[:most]],
    }


def shown_outlier(outlier: Outlier) -> Document:
    """Return the document of one step, or of the gap before it, with its cause in words."""
    return {**outlier_document(outlier), "z": round(outlier.z, 1), **_why(outlier.cause)}


def _why(cause: Cause | Missing) -> Document:
    name = None if isinstance(cause, Missing) else cause.name[:_CAUSE_CHARACTERS]
    return {"cause_name": name, "why": describe_cause(cause)[:_CAUSE_CHARACTERS]}


def marked_steps(remembered: StepWindow, flags: np.ndarray[Any, Any]) -> list[int]:
    """Return the numbers of the latest steps that have a flag."""
    return whole(remembered.numbers[np.flatnonzero(flags)[-_MOST_MARKS:]])
