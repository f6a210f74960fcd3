"""Trials of fixes: which there are beside the runs, and what one of them found."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from tfprobe.analysis.compare.trials import TrialGain, Verdict
from tfprobe.errors import Missing, NoAnswer, UnreadableInput
from tfprobe.findings.trials import DelayOutcome, FixOutcome, Trial
from tfprobe.report.documents.document import Document
from tfprobe.report.trial.trial_document import trial_document, trial_of
from tfprobe.report.trial.trial_page import (
    base_sentence,
    changes,
    circumstances,
    delay_results_text,
    delay_sentence,
    gain_text,
    interval_text,
    not_tried,
    notes,
    outcome_sentence,
    results_text,
    slope_text,
)
from tfprobe.runs.trials import trial_document_of, trial_ids
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages.findings import code_parts
from tfprobe.web.params import Params
from tfprobe.web.values import shortened, shown_name

# More than a person looks through; newest are first.
MOST_TRIALS = 500
_MOST_WRITTEN = 100
_TEXT_CHARACTERS = 2000
_SHELL = "export "


def document(run: OpenRun, question: Params) -> Document:
    """Return the trials of a run's command, or the one that `trial=` names.

    Raises NoAnswer where there is none of that name, or where it cannot be read.
    """
    command = run.early.profile.run.command
    return _document(run.folder.root.parent, question, command)


def directory_document(output: Path, question: Params) -> Document:
    """Return the trials of all commands below the directory of all runs; else as `document`."""
    return _document(output, question, None)


def _document(output: Path, question: Params, command: Sequence[str] | Missing | None) -> Document:
    wanted = question.text("trial")
    if wanted:
        return _trial(output, wanted, command)
    ids = trial_ids(output)
    rows, problems = [], []
    for name in ids[:MOST_TRIALS]:
        try:
            trial = _read(output, name)
        except UnreadableInput as exc:
            # Whose it is cannot be told: it stands in the list of all.
            if command is None:
                problems.append({"id": shown_name(name), "why": shortened(exc.problem)})
            continue
        if _is_of(trial, command):
            rows.append(_row(name, trial))
    return {
        "command": _line(command) if isinstance(command, tuple) else None,
        "trials": rows,
        "left_out": max(len(ids) - MOST_TRIALS, 0),
        "problems": problems,
    }


def _read(output: Path, name: str) -> Trial:
    found = trial_document_of(name, output)
    if isinstance(found, Missing):
        raise UnreadableInput(f"The trial is not shown: {found.reason}.")
    return trial_of(found)


def _is_of(trial: Trial, command: Sequence[str] | Missing | None) -> bool:
    return command is None or trial.command == command


def _line(command: Sequence[str]) -> str:
    return shown_name(shlex.join(command), _TEXT_CHARACTERS)


def _row(name: str, trial: Trial) -> Document:
    verdicts = [outcome.verdict for outcome in trial.fixes]
    return {
        "id": name,
        "started_unix_ns": trial.started_unix_ns,
        "command": _line(trial.command),
        "verdicts": {verdict.value: verdicts.count(verdict) for verdict in Verdict},
        "delays": [{"part": one.part, "verdict": one.verdict.value} for one in trial.delays],
        "best": _best(trial),
        "order": shown_name(trial.order),
        "took_ns": _ns(trial.took_s),
        "interrupted": trial.interrupted,
    }


def _best(trial: Trial) -> Document | None:
    """Return what won most; None if nothing did."""
    won = [
        (outcome.gain.wall.ratio, outcome)
        for outcome in trial.outcomes
        if outcome.verdict is Verdict.WON and isinstance(outcome.gain, TrialGain)
    ]
    if not won:
        return None
    _, outcome = max(won, key=lambda pair: pair[0])
    return {"fix": outcome.name, **_gain(outcome)}


def _gain(outcome: FixOutcome) -> Document:
    """Return a gain for its bar, and in words; nulls where nothing was measured."""
    gain = outcome.gain
    wall = None if isinstance(gain, Missing) else gain.wall
    return {
        "verdict": outcome.verdict.value,
        "gain_text": gain_text(outcome),
        "gain_ratio": None if wall is None else wall.ratio,
        "low_ratio": None if wall is None else wall.low_ratio,
        "high_ratio": None if wall is None else wall.high_ratio,
    }


def _trial(output: Path, name: str, command: Sequence[str] | Missing | None) -> Document:
    """Return the document of a trial, with the sentences of `tfprobe try` about it."""
    if name not in trial_ids(output):
        raise NoAnswer("There is no trial of that name here; it may have been removed.")
    try:
        trial = _read(output, name)
    except UnreadableInput as exc:
        raise NoAnswer(exc.problem) from exc
    if not _is_of(trial, command):
        raise NoAnswer("That trial is one of another command.")
    found: Document = shortened(trial_document(trial), _TEXT_CHARACTERS)
    outcomes = [*found["fixes"], *([found["combined"]] if found["combined"] else [])]
    return {
        "id": name,
        **{name: part for name, part in found.items() if name not in ("fixes", "combined")},
        "command": _line(trial.command),
        "written": found["written"][:_MOST_WRITTEN],
        "base_text": base_sentence(trial),
        "warm_up_ns": _ns(trial.base.warm_up_s),
        "took_ns": _ns(trial.took_s),
        "not_tried": list(not_tried(trial)),
        "circumstances": list(circumstances(trial)),
        "outcomes": [
            {**part, **_words(outcome), "is_combined": outcome is trial.combined}
            for part, outcome in zip(outcomes, trial.outcomes, strict=True)
        ],
        "delays": [
            {**part, **_delay_words(outcome)}
            for part, outcome in zip(found["delays"], trial.delays, strict=True)
        ],
    }


def _delay_words(outcome: DelayOutcome) -> Document:
    slope = None if isinstance(outcome.slope, Missing) else outcome.slope
    return {
        "slope_text": "" if slope is None else slope_text(slope.slope),
        "most_text": "" if slope is None else interval_text(slope.most),
        "results_text": delay_results_text(outcome),
        "text": delay_sentence(outcome),
    }


def _words(outcome: FixOutcome) -> Document:
    return {
        **_gain(outcome),
        "warm_up_ns": _ns(outcome.warm_up_s),
        "text": outcome_sentence(outcome),
        "results_text": results_text(outcome),
        "change": [{"parts": _parts(text), "source": source} for text, source in changes(outcome)],
        "notes": list(notes(outcome)),
    }


def _parts(change: str) -> list[Document]:
    """Return a change in parts, each with whether it is code; a line of a shell is one piece."""
    parts = ((change, True),) if change.startswith(_SHELL) else code_parts(change)
    return [{"text": text, "is_code": is_code} for text, is_code in parts]


def _ns(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e9)


def further(run: OpenRun) -> Iterator[dict[str, str]]:
    """Yield the arguments of each trial of a run's command, the newest first."""
    for row in document(run, Params())["trials"]:
        yield {"trial": row["id"]}
