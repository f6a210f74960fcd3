"""The page of trials says what `tfprobe try` said, of the documents beside the runs."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import trials
from tests.support.open_runs import ToldRun
from tests.support.profiles import profile, timed_loop
from tests.support.trials import COMMAND, DELAYED, TRIAL, TRIAL_ID, keep
from tfprobe.errors import NoAnswer
from tfprobe.report.trial.trial_page import render_trial
from tfprobe.runs.layout import RunFolder
from tfprobe.web import answers
from tfprobe.web.html_export import key_of, page
from tfprobe.web.pages.trials import directory_document
from tfprobe.web.params import Params

OTHER = replace(TRIAL, command=("python", "other.py"), combined=None)


def asked(output: Path, **arguments: str) -> dict[str, Any]:
    found = directory_document(output, Params(arguments))
    assert json.loads(json.dumps(found, allow_nan=False))
    return found


def beside(output: Path) -> ToldRun:
    """Return a run of the command of the trial, in the same directory."""
    told = profile(loops=[timed_loop([10_000_000] * 50)])
    opened = ToldRun(replace(told, run=replace(told.run, command=COMMAND)))
    opened.folder = RunFolder(output / "r1")
    return opened


def test_trials_are_listed_newest_first(tmp_path):
    """With what they found: how many fixes won, and which won most."""
    keep(TRIAL, tmp_path)
    keep(OTHER, tmp_path, "20261121-000000-other-bbbbbb")

    other, mine = asked(tmp_path)["trials"]

    assert (mine["id"], mine["command"]) == (TRIAL_ID, "python train.py --epochs 3")
    assert (other["command"], other["best"]["fix"]) == ("python other.py", "steps_per_execution=16")
    assert mine["best"]["fix"] == "steps_per_execution=16 + prefetch"
    assert mine["best"]["gain_text"] == "+86.0 % [82, 90]"
    assert mine["verdicts"] == {"won": 1, "lost": 1, "cannot be told": 1, "not applied": 1}


def test_without_trials_the_list_is_empty(tmp_path):
    """The page says then how to make one."""
    assert asked(tmp_path) == {"command": None, "trials": [], "left_out": 0, "problems": []}


def test_a_run_has_the_trials_of_its_command(tmp_path):
    """And no other's, nor those that nobody can read."""
    keep(TRIAL, tmp_path)
    keep(OTHER, tmp_path, "20261121-000000-other-bbbbbb")
    keep("{", tmp_path, "20261122-000000-broken-cccccc")

    found = answers.answer(beside(tmp_path), "trials", Params())

    assert found["command"] == "python train.py --epochs 3"
    assert [each["id"] for each in found["trials"]] == [TRIAL_ID]
    assert found["problems"] == []
    with pytest.raises(NoAnswer, match="another command"):
        answers.answer(
            beside(tmp_path), "trials", Params({"trial": "20261121-000000-other-bbbbbb"})
        )


def test_one_trial_says_what_the_shell_said(tmp_path):
    """Each sentence, gain and change of it stands in the page of `tfprobe try`."""
    keep(TRIAL, tmp_path)
    shell = " ".join(render_trial(TRIAL, width=400, colour=False).split())

    found = asked(tmp_path, trial=TRIAL_ID)

    assert found["base_text"] in shell
    assert " ".join(found["circumstances"]) in shell
    assert all(sentence in shell for sentence in found["not_tried"])
    assert len(found["outcomes"]) == 5
    for outcome in found["outcomes"]:
        assert f"{outcome['fix']}: {outcome['text']}" in shell
        assert all(note in shell for note in outcome["notes"])
        for name in ("gain_text", "results_text", "verdict"):
            assert outcome[name] in shell
        for change in outcome["change"]:
            assert f"→ {''.join(part['text'] for part in change['parts'])}" in shell


def test_one_trial_has_all_of_its_document(tmp_path):
    """Ratios to draw intervals of, what was predicted, break-even and the A/A error."""
    keep(TRIAL, tmp_path)

    found = asked(tmp_path, trial=TRIAL_ID)

    won, lost, unknown, skipped, together = found["outcomes"]
    assert won["low_ratio"] < won["gain_ratio"] < won["high_ratio"]
    assert (won["predicted_ratio"], won["predicted_most_ratio"]) == (0.38, 0.76)
    assert (won["break_even_units"], won["warm_up_ns"]) == (1234, 9_500_000_000)
    assert won["change"][0]["source"] == "train.py:31"
    assert lost["change"] == unknown["change"] == []
    assert skipped["gain_ratio"] is None
    assert skipped["missing"]["gain"] == "it was applied nowhere"
    assert (won["is_combined"], together["is_combined"]) == (False, True)
    assert found["base"]["error_ratio"] == 0.012
    assert (
        "43.0 % of the time, so what is compared ran at the same time" in found["circumstances"][1]
    )


def test_a_trial_of_slower_parts_says_what_the_shell_said(tmp_path):
    """What waits for each part, and what is won there at most."""
    keep(DELAYED, tmp_path)
    shell = " ".join(render_trial(DELAYED, width=400, colour=False).split())

    found = asked(tmp_path, trial=TRIAL_ID)

    critical, skipped = found["delays"]
    for delay in found["delays"]:
        assert f"{delay['part']}: {delay['text']}" in shell
    for name in ("slope_text", "most_text", "results_text"):
        assert critical[name]
        assert critical[name] in shell
        assert skipped[name] == ""
    assert found["base_text"] in shell
    (row,) = asked(tmp_path)["trials"]
    assert row["delays"][0] == {"part": "input", "verdict": "critical"}


def test_a_line_of_a_shell_is_one_piece_of_code(tmp_path):
    """To be copied whole."""
    fixed = replace(trials.WON, fixes=(trials.chosen("threads=4"),))
    keep(replace(TRIAL, fixes=(fixed,), combined=None), tmp_path)

    (change,) = asked(tmp_path, trial=TRIAL_ID)["outcomes"][0]["change"]

    assert [part["is_code"] for part in change["parts"]] == [True]
    assert change["parts"][0]["text"].startswith("export ")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "it is no JSON"),
        ("[" * 100_000, "it is no JSON"),
        ("[]", "it is no JSON object"),
        ("{}", "it is no document of tfprobe.trial/1"),
        ('{"schema": "tfprobe.trial/1"}', "it has no proper `base`"),
        ("\xff", "it is no"),
    ],
)
def test_a_damaged_trial_is_one_sentence(tmp_path, content, why):
    """In the list, which shows the others, and in its own place."""
    keep(TRIAL, tmp_path)
    keep(content, tmp_path, "20261122-000000-broken-cccccc")

    (problem,) = asked(tmp_path)["problems"]

    assert problem["id"] == "20261122-000000-broken-cccccc"
    assert why in problem["why"]
    with pytest.raises(NoAnswer, match="The trial is not shown"):
        asked(tmp_path, trial="20261122-000000-broken-cccccc")


def test_links_among_trials_lead_nowhere(tmp_path):
    """And pipes are not waited for: a directory of runs may be shared."""
    secret = keep(TRIAL, tmp_path / "elsewhere")
    (tmp_path / "runs" / "trials").mkdir(parents=True)
    (tmp_path / "runs" / "trials" / "link.json").symlink_to(secret)
    os.mkfifo(tmp_path / "runs" / "trials" / "pipe.json")

    found = asked(tmp_path / "runs")

    assert found["trials"] == []
    assert [each["id"] for each in found["problems"]] == ["pipe", "link"]


@pytest.mark.parametrize("name", ["..", "../r1", "none", "a/b", "\x00", "x" * 4000])
def test_only_what_is_listed_is_a_trial(tmp_path, name):
    """No name leads anywhere else."""
    keep(TRIAL, tmp_path)
    (tmp_path / "none.json").write_text("{}")

    with pytest.raises(NoAnswer, match="no trial of that name"):
        asked(tmp_path, trial=name)


def test_the_one_file_holds_the_trials_of_its_command(tmp_path):
    """The list, and each of them."""
    keep(TRIAL, tmp_path)
    keep(OTHER, tmp_path, "20261121-000000-other-bbbbbb")

    text = page(beside(tmp_path))

    assert f'"{key_of("r1", "trials", {})}"' in text
    assert f'"{key_of("r1", "trials", {"trial": TRIAL_ID})}"' in text
    assert "other-bbbbbb" not in text
