"""A document of a trial is read as it was written, or refused with what is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.trials import DELAYED, TRIAL, WON
from tfprobe.analysis.compare.trials import ResultsComparison, SameResults
from tfprobe.errors import UnreadableInput
from tfprobe.report.trial.trial_document import trial_document, trial_of
from tfprobe.report.trial.trial_page import render_trial


def written() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(trial_document(TRIAL), allow_nan=False))
    return found


def test_a_trial_comes_back_from_its_document() -> None:
    """So whoever reads the document says what `tfprobe try` said."""
    assert trial_of(written()) == TRIAL
    assert trial_of(json.loads(json.dumps(trial_document(DELAYED)))) == DELAYED
    assert render_trial(trial_of(written()), width=100, colour=False) == render_trial(
        TRIAL, width=100, colour=False
    )


def test_weights_that_are_no_numbers_have_no_distance() -> None:
    """JSON has no NaN; the results are different all the same."""
    results = ResultsComparison(SameResults.DIFFERENT, math.nan)
    document = trial_document(replace(TRIAL, fixes=(replace(WON, results=results),)))

    (fix,) = json.loads(json.dumps(document, allow_nan=False))["fixes"]
    assert fix["distance_ratio"] is None
    found = trial_of(document).fixes[0].results
    assert isinstance(found, ResultsComparison)
    assert found.same is SameResults.DIFFERENT


def _set(*keys: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        part: Any = document
        for key in keys[:-1]:
            part = part[key]
        part[keys[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_set("schema", to="tfprobe.trial/2"), "no document of tfprobe.trial/1"),
        (_set("command", to="python"), "`command`"),
        (_set("command", to=[1]), "`command`"),
        (_set("started_unix_ns", to=True), "`started_unix_ns`"),
        (_set("took_s", to=math.nan), "`took_s`"),
        (_set("took_s", to=10**400), "`took_s`"),
        (_set("base", to=None), "`base`"),
        (_set("base", "unit", "name", to=None), "`name`"),
        (_set("fixes", to=[3]), "`fixes`"),
        (_set("fixes", 0, "fix", to="from_a_later_version"), "does not know its fixes"),
        (_set("fixes", 0, "verdict", to="perhaps"), "`verdict`"),
        (_set("fixes", 0, "verdict", to=[]), "`verdict`"),
        (_set("fixes", 0, "low_ratio", to=None), "`low_ratio`"),
        (_set("fixes", 0, "high_ratio", to=-math.inf), "`high_ratio`"),
        (_set("fixes", 0, "results", to="the same"), "`results`"),
        (_set("fixes", 0, "applied", "steps_per_execution", to=1), "`steps_per_execution`"),
        (_set("fixes", 0, "break_even_units", to=math.inf), "`break_even_units`"),
        (_set("fixes", 3, "missing", to={}), "`gain`"),
        (_set("combined", to=[]), "`combined`"),
    ],
)
def test_anything_else_is_refused_with_what_is_wrong(change, why) -> None:
    """Whoever wrote it: a sentence, and nothing else."""
    document = written()
    change(document)

    with pytest.raises(UnreadableInput) as caught:
        trial_of(document)

    assert why in caught.value.problem
