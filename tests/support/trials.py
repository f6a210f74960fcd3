"""Trials as `tfprobe try` keeps them: one with each verdict."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.rundir import UNIX_NS
from tfprobe.analysis.compare.delays import Criticality, DelayLevel, DelaySlope
from tfprobe.analysis.compare.trials import (
    Interval,
    ResultsComparison,
    SameResults,
    TrialGain,
    Verdict,
)
from tfprobe.errors import Missing
from tfprobe.findings.fixes import chosen
from tfprobe.findings.trials import (
    SIDE_BY_SIDE,
    AppliedFix,
    BaseOutcome,
    DelayOutcome,
    FixOutcome,
    Prediction,
    Trial,
)
from tfprobe.report.trial.trial_document import trial_document

# The command of `rundir.write_run`.
COMMAND = ("python", "train.py", "--epochs", "3")
TRIAL_ID = "20261120-200418-train-aaaaaa"


def _gain(verdict: Verdict, ratio: float, margin: float, why: str = "") -> TrialGain:
    wall = Interval(ratio, ratio - margin, ratio + margin)
    cpu = Interval(ratio - 0.1, ratio - margin - 0.1, ratio + margin - 0.1)
    return TrialGain(verdict, wall, cpu, 0.02, margin + 0.02, why)


WON = FixOutcome(
    fixes=(chosen("steps_per_execution"),),
    verdict=Verdict.WON,
    gain=_gain(Verdict.WON, 0.825, 0.055),
    results=ResultsComparison(SameResults.IDENTICAL, 0.0),
    applied={"steps_per_execution": AppliedFix(1, {}, "train.py:31")},
    warm_up_s=9.5,
    break_even_units=1234,
    processes=2,
    prediction=Prediction("small_executions", 0.38, 0.76),
)
LOST = FixOutcome(
    fixes=(chosen("jit_compile"),),
    verdict=Verdict.LOST,
    gain=_gain(Verdict.LOST, -0.37, 0.1),
    results=ResultsComparison(SameResults.DIFFERENT, 0.03),
    applied={"jit_compile": AppliedFix(3, {})},
    warm_up_s=31.0,
    processes=2,
)
UNKNOWN = FixOutcome(
    fixes=(chosen("threads=4"),),
    verdict=Verdict.UNKNOWN,
    gain=_gain(Verdict.UNKNOWN, 0.03, 0.1, "the interval does not clear the difference"),
    results=Missing("two runs without a fix differ already"),
    applied={"threads": AppliedFix(1, {})},
    warm_up_s=8.2,
    processes=2,
)
NOT_APPLIED = FixOutcome(
    fixes=(chosen("predict_direct"),),
    verdict=Verdict.NOT_APPLIED,
    gain=Missing("it was applied nowhere"),
    results=Missing("it was applied nowhere"),
    applied={"predict_direct": AppliedFix(0, {"the job predicts nothing": 2})},
    processes=1,
)
TOGETHER = FixOutcome(
    fixes=(chosen("steps_per_execution"), chosen("prefetch")),
    verdict=Verdict.WON,
    gain=_gain(Verdict.WON, 0.86, 0.04),
    results=ResultsComparison(SameResults.ROUNDING, 3e-7),
    applied={
        "steps_per_execution": AppliedFix(1, {}, "train.py:31"),
        "prefetch": AppliedFix(1, {}),
    },
    warm_up_s=9.9,
    processes=1,
)
TRIAL = Trial(
    command=COMMAND,
    cwd="/home/ada",
    started_unix_ns=UNIX_NS,
    took_s=181.5,
    order=SIDE_BY_SIDE,
    pressure_ratio=0.43,
    base=BaseOutcome("fit", "model", 12_300_000, 8.2, 0.012, 4),
    fixes=(WON, LOST, UNKNOWN, NOT_APPLIED),
    combined=TOGETHER,
    isolation="overlay",
    not_overlaid=("/lustre",),
    written=("logs/events.1", "logs/events.2"),
    not_tried=(("cache", "the budget was spent"),),
)
CRITICAL = DelayOutcome(
    part="input",
    summary="make the Python code that makes the input take 25 to 50 % longer",
    verdict=Criticality.CRITICAL,
    slope=DelaySlope(
        Criticality.CRITICAL,
        Interval(0.98, 0.9, 1.06),
        0.4,
        Interval(0.392, 0.36, 0.424),
        0.01,
        (DelayLevel(0.0, 0.0, 10_000_000, 2), DelayLevel(0.5, 2_000_000, 12_000_000, 2)),
    ),
    results=ResultsComparison(SameResults.IDENTICAL, 0.0),
    processes=4,
)
# Of another command: parts of it were slowed down.
DELAYED = replace(
    TRIAL,
    command=("python", "waits.py"),
    fixes=(),
    combined=None,
    delays=(
        CRITICAL,
        DelayOutcome(
            part="between",
            summary="make what the program does between steps take 25 to 50 % longer",
            verdict=Criticality.NOT_APPLIED,
            slope=Missing("no code of the job that could be slowed down ran"),
            results=Missing("no code of the job that could be slowed down ran"),
            skipped=("nothing runs between steps",),
        ),
    ),
)
DELAYED_ID = "20261119-200418-waits-eeeeee"


def keep(trial: Trial | Mapping[str, Any] | str, output: Path, name: str = TRIAL_ID) -> Path:
    """Write a trial, a document or any text as a trial beside the runs; return its file."""
    folder = output / "trials"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    found = trial_document(trial) if isinstance(trial, Trial) else trial
    path.write_text(found if isinstance(found, str) else json.dumps(found))
    return path


def hostile(texts: Sequence[str]) -> dict[str, Any]:
    """Return the document of a trial in which everything that a job may choose is one of these."""
    document = trial_document(TRIAL)
    first, second, *_ = texts
    (won, lost, *others) = document["fixes"]
    won["applied"]["steps_per_execution"]["source"] = f"{first}:3"
    others[-1]["applied"]["predict_direct"]["skipped"] = {second: 1}
    return {
        **document,
        "command": ["python", *texts],
        "cwd": first,
        "order": first,
        "base": {**document["base"], "unit": {"kind": "fit", "name": second}},
        "written": list(texts),
        "not_tried": [{"fix": first, "why": second}],
        "fixes": [won, {**lost, "rule": first}, *others],
    }
