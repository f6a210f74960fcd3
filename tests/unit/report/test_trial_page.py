"""A trial says what a fix won, how sure that is, and what to change."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from tests.support.trials import CRITICAL
from tfprobe.analysis.compare.delays import Criticality
from tfprobe.analysis.compare.trials import (
    Interval,
    ResultsComparison,
    SameResults,
    TrialGain,
    Verdict,
)
from tfprobe.errors import Missing
from tfprobe.findings.engine import Advice
from tfprobe.findings.finding import Finding, Gain, Severity
from tfprobe.findings.fixes import FIXES, chosen
from tfprobe.findings.trials import (
    AppliedFix,
    BaseOutcome,
    FixOutcome,
    Prediction,
    Trial,
    not_applied,
    with_measured,
)
from tfprobe.report.text.findings import render_advice
from tfprobe.report.trial.trial_document import trial_document, trial_of
from tfprobe.report.trial.trial_page import render_fixes, render_trial
from tfprobe.runs.trials import trials_of
from tfprobe.trial.store import save

COMMAND = ("python", "train.py")
WON = FixOutcome(
    fixes=(chosen("steps_per_execution"),),
    verdict=Verdict.WON,
    gain=TrialGain(Verdict.WON, Interval(0.83, 0.77, 0.88), Interval(0.7, 0.6, 0.8), 0.02, 0.07),
    results=ResultsComparison(SameResults.IDENTICAL, 0.0),
    applied={"steps_per_execution": AppliedFix(1, {}, "train.py:31")},
    break_even_units=120,
    processes=2,
    prediction=Prediction("small_executions", 0.38, 0.76),
)
TRIAL = Trial(
    command=COMMAND,
    cwd="/job",
    started_unix_ns=1,
    took_s=90.0,
    order="one after the other",
    pressure_ratio=0.01,
    base=BaseOutcome("fit", "model", 12.3e6, 8.2, 0.012, 2),
    fixes=(WON,),
    isolation="overlay",
)


def page(trial: Trial) -> str:
    return " ".join(render_trial(trial, width=100, colour=False).split())


def test_a_fix_that_won_says_what_to_change_and_where() -> None:
    """The gain stands with its interval and with what was predicted."""
    text = page(TRIAL)

    assert "one step of fit model takes 12.3 ms" in text
    assert "steps_per_execution=16 won +83.0 % [77, 88] +38.0 %" in text
    assert "identical" in text
    assert "→ Model.compile(steps_per_execution=16) (applied at train.py:31)" in text
    assert "callbacks see every 16th batch only" in text
    assert "made good after 120 steps" in text


def test_one_step_is_no_steps() -> None:
    """The shortest warm-up that is made good."""
    fixes = (replace(TRIAL.fixes[0], break_even_units=1), *TRIAL.fixes[1:])

    assert "made good after 1 step." in page(replace(TRIAL, fixes=fixes))


def test_what_cannot_be_told_says_what_would_have_been_seen() -> None:
    """And no advice to change anything."""
    gain = TrialGain(
        Verdict.UNKNOWN, Interval(0.03, -0.04, 0.1), Interval(0, 0, 0), 0.05, 0.12, "it is noise"
    )

    text = page(replace(TRIAL, fixes=(replace(WON, verdict=Verdict.UNKNOWN, gain=gain),)))

    assert "It cannot be told: it is noise. A gain below 12.0 % would not have been seen." in text
    assert "→" not in text


def _told_by_cpu_time(ratio: float) -> FixOutcome:
    cpu = Interval(ratio, ratio - 0.03, ratio + 0.03)
    wall = Interval(ratio, -3.0, 0.9)
    gain = TrialGain(Verdict.UNKNOWN, wall, cpu, 0.5, 2.4, "it is noise", cpu_tells=True)
    return replace(WON, verdict=Verdict.UNKNOWN, gain=gain)


def test_cpu_time_is_told_where_throughput_cannot_tell() -> None:
    """As a witness: with its interval, and not as the answer."""
    fell, rose = (page(replace(TRIAL, fixes=(_told_by_cpu_time(at),))) for at in (0.63, -0.2))

    assert "CPU time per step fell by 63.0 % [60, 66]; that alone does not show" in fell
    assert "CPU time per step rose by 20.0 % [17, 23]; that alone does not show" in rose
    assert "→" not in fell


def test_advice_shows_the_cpu_time_that_a_trial_told(tmp_path) -> None:
    """Beside a gain that cannot be told apart from chance."""
    document = trial_document(replace(TRIAL, fixes=(_told_by_cpu_time(0.63),)))
    save(document, tmp_path, 1)

    advice = with_measured(ADVICE, trials_of(COMMAND, tmp_path))

    text = " ".join(render_advice(advice, "run", width=100, colour=False).split())
    assert "not told apart from chance: +63.0 % [\u2212300, 90], CPU time per step fell by" in text
    assert trial_of(document).fixes[0].gain == _told_by_cpu_time(0.63).gain
    # Trials of before do not say it.
    del document["fixes"][0]["cpu_tells"]
    save(document, tmp_path, 10**18)
    older = with_measured(ADVICE, trials_of(COMMAND, tmp_path)).findings[0].measured
    assert older[0].cpu is None


def test_what_was_not_applied_says_why() -> None:
    """Never as a gain of 0 %."""
    outcome = replace(
        WON,
        verdict=Verdict.NOT_APPLIED,
        gain=Missing("it was applied nowhere"),
        results=Missing("it was not applied"),
        applied={"steps_per_execution": AppliedFix(0, {"runs several already": 1})},
    )

    text = page(replace(TRIAL, fixes=(outcome,)))

    assert "Not applied: runs several already." in text
    assert " 0 %" not in text.replace("1.0 %", "")


def test_other_weights_are_warned_of() -> None:
    """A gain with other results is no fix."""
    results = ResultsComparison(SameResults.DIFFERENT, 0.3)

    assert "check the results" in page(replace(TRIAL, fixes=(replace(WON, results=results),)))


def test_a_document_has_what_the_page_has() -> None:
    """As JSON, with nulls and reasons for what is missing."""
    document = json.loads(json.dumps(trial_document(TRIAL)))

    (fix,) = document["fixes"]
    assert document["schema"] == "tfprobe.trial/1"
    assert (fix["fix"], fix["verdict"]) == ("steps_per_execution=16", "won")
    assert (fix["gain_ratio"], fix["low_ratio"], fix["high_ratio"]) == (0.83, 0.77, 0.88)
    assert (fix["predicted_ratio"], fix["results"]) == (0.38, "identical")
    assert fix["change"] == ["Model.compile(steps_per_execution=16)"]


def test_fixes_that_do_not_apply_are_named_apart() -> None:
    """With the reason, so that nobody wonders where one is."""
    why = {"prefetch": "no data set", "cache": "no data set", "pin_memory": "no accelerator"}
    offered = [chosen(fix.id) for fix in FIXES]

    shown = render_fixes(offered, why, is_of_job=True, width=100, colour=False)

    text = " ".join(shown.split())

    shown, _, left_out = text.partition("Not applied")
    assert "prefetch" not in shown
    assert "steps_per_execution" in shown
    assert "prefetch, cache: no data set. pin_memory: no accelerator." in left_out


def test_a_fix_that_was_never_tried_says_why() -> None:
    """The recording says that it can change nothing."""
    text = " ".join(page(replace(TRIAL, fixes=(not_applied(chosen("cache"), "no data"),))).split())

    assert "cache not applied" in text
    assert "Not applied: no data." in text


def test_a_fix_of_the_start_says_how_long_that_takes() -> None:
    """Its steps are as fast as before."""
    gain = TrialGain(
        Verdict.UNKNOWN, Interval(0.01, -0.1, 0.1), Interval(0, 0, 0), 0.05, 0.12, "it is noise"
    )
    outcome = FixOutcome(
        (chosen("compilation_cache"),),
        Verdict.UNKNOWN,
        gain,
        ResultsComparison(SameResults.IDENTICAL, 0.0),
        warm_up_s=3.0,
        processes=2,
    )

    text = page(replace(TRIAL, fixes=(outcome,)))

    assert "Its last process had a warm-up of 3.00 s; without the fix it takes 8.20 s." in text


ADVICE = Advice(
    findings=(
        Finding(
            "Steps are small",
            Severity.WARNING,
            (),
            "Run several in one call.",
            Gain(38, 76, 100),
            rule="small_executions",
            fixes=("steps_per_execution",),
        ),
    ),
    unchecked=(),
    together=Missing("one finding"),
)


def test_advice_shows_what_a_trial_measured(tmp_path) -> None:
    """In place of the bound, where the command is the same."""
    save(trial_document(TRIAL), tmp_path, 1)

    advice = with_measured(ADVICE, trials_of(COMMAND, tmp_path))

    text = render_advice(advice, "run", width=100, colour=False)
    assert "measured +83.0 % [77, 88] (steps_per_execution=16)" in text
    assert "at most" not in text
    assert "(tfprobe try steps_per_execution)" in text


def test_the_newest_trial_counts_and_damaged_ones_are_left_out(tmp_path) -> None:
    """Another command has its own."""
    save(trial_document(TRIAL), tmp_path, 10**18)
    lost = replace(WON, verdict=Verdict.LOST)
    save(trial_document(replace(TRIAL, fixes=(lost,))), tmp_path, 2 * 10**18)
    (tmp_path / "trials" / "zz.json").write_text("{")
    (tmp_path / "trials" / "zy.json").write_text(json.dumps({"command": list(COMMAND)}))

    assert len(list(trials_of(COMMAND, tmp_path))) == 3
    (measured,) = with_measured(ADVICE, trials_of(COMMAND, tmp_path)).findings[0].measured
    assert measured.verdict is Verdict.LOST
    assert with_measured(ADVICE, trials_of(("other",), tmp_path)) == ADVICE


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '{"fixes": 3}',
        '{"fixes": [{"fix": "a"}, 3]}',
        '{"fixes": [{"fix": "steps_per_execution", "verdict": "won", "gain_ratio": NaN, '
        '"low_ratio": 0, "high_ratio": 1}]}',
    ],
)
def test_a_strange_document_measures_nothing(tmp_path, content) -> None:
    """Whoever wrote it."""
    (tmp_path / "trials").mkdir()
    document = json.loads(content)
    if isinstance(document, dict):
        document["command"] = list(COMMAND)
    (tmp_path / "trials" / "a.json").write_text(json.dumps(document))

    assert with_measured(ADVICE, trials_of(COMMAND, tmp_path)) == ADVICE


def test_links_and_pipes_among_trials_are_left_out(tmp_path) -> None:
    """A directory of runs may be shared: nothing is read elsewhere, and nothing waits."""
    (tmp_path / "trials").mkdir()
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text(json.dumps({"command": list(COMMAND)}))
    (tmp_path / "trials" / "link.json").symlink_to(elsewhere)
    os.mkfifo(tmp_path / "trials" / "pipe.json")

    assert list(trials_of(COMMAND, tmp_path)) == []


def test_losses_are_told_beside_the_weights() -> None:
    """Where steps give any."""
    losses = ResultsComparison(SameResults.ROUNDING, 2e-7)
    trial = replace(TRIAL, fixes=(replace(WON, losses=losses),))

    assert "Losses at the same steps: rounding (2e-07)." in page(trial)
    (document,) = trial_document(trial)["fixes"]
    assert (document["losses"], document["losses_distance_ratio"]) == ("rounding", 2e-7)
    (without,) = trial_document(TRIAL)["fixes"]
    assert (without["losses"], without["missing"]["losses"]) == (None, "nothing was compared")


def test_a_part_that_a_step_waits_for_has_a_bound_that_was_measured() -> None:
    """With the slope that it comes from."""
    trial = replace(TRIAL, fixes=(), delays=(CRITICAL,))

    text = page(trial)

    assert "input critical 0.98 [0.90, 1.06] 40.0 % +39.2 % [36, 42] identical" in text
    assert "A second saved there is 0.98 s won: at most 42.4 % of a step." in text
    assert "12.0 ms if that takes 2.00 ms more" in text
    (document,) = trial_document(trial)["delays"]
    assert (document["verdict"], document["slope_ratio"]) == ("critical", 0.98)
    assert document["levels"][1]["delay_ns"] == 2_000_000


def test_a_part_that_is_not_there_says_why() -> None:
    """In place of a slope."""
    nowhere = Missing("no code of the job that could be slowed down ran")
    outcome = replace(
        CRITICAL, verdict=Criticality.NOT_APPLIED, slope=nowhere, results=nowhere, processes=0
    )
    trial = replace(TRIAL, fixes=(), delays=(outcome,))

    assert "Not applied: no code of the job that could be slowed down ran." in page(trial)
    (document,) = trial_document(trial)["delays"]
    assert document["slope_ratio"] is None
    assert document["missing"]["slope"] == nowhere.reason


def test_signs_of_a_loss_are_alike() -> None:
    """Of the gain and of its interval."""
    lost = TrialGain(Verdict.LOST, Interval(-0.37, -0.52, -0.24), Interval(0, 0, 0), 0.05, 0.12)

    text = page(replace(TRIAL, fixes=(replace(WON, verdict=Verdict.LOST, gain=lost),)))

    assert "−37.0 % [−52, −24]" in text
