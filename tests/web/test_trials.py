"""The page of trials, of all commands and of a run's: what each fix won, drawn and in words."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.trials import DELAYED_ID, TRIAL, TRIAL_ID, keep
from tests.web.recordings import BROKEN_TRIAL, HOSTILE_TRIAL
from tests.web.visiting import PATIENCE_MS

expect.set_options(timeout=PATIENCE_MS)

WINDOWS = [("light", 1440), ("dark", 1280), ("light", 1024), ("dark", 800)]
_WIDE = "() => document.documentElement.scrollWidth > innerWidth"
_CUT = """() => [...document.querySelectorAll("main .table-place")]
  .map((place) => place.scrollWidth - place.clientWidth).filter((over) => over > 1)"""
# Left edge, right edge, mark and line of zero of each bar, in pixels.
_BARS = """() => [...document.querySelectorAll("main .table .gain-interval")].map((bar) => {
  const at = (name) => bar.querySelector(name).getBoundingClientRect();
  const range = at(".gain-range"), value = at(".gain-value");
  return {
    low: range.left, high: range.right, value: (value.left + value.right) / 2,
    zero: at(".gain-zero").left, label: bar.getAttribute("aria-label"),
    left: bar.getBoundingClientRect().left, right: bar.getBoundingClientRect().right,
  };
})"""


def test_all_trials_are_listed_and_open(visitor) -> None:
    """The newest first; one that is damaged is a paragraph above the others."""
    page = visitor.show_trials()

    expect(page.locator("main .table tbody tr")).to_have_count(3)
    expect(page.locator("main .trouble")).to_have_text(
        f"{BROKEN_TRIAL}: The trial is not shown: it is no JSON."
    )
    row = page.locator("main .table tbody tr").nth(1)
    expect(row).to_contain_text("python train.py --epochs 3")
    expect(row).to_contain_text("+86.0 % [82, 90]")
    row.get_by_role("link").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Trial of python train.py --epochs 3")
    assert TRIAL_ID in page.url


def test_a_trial_that_ends_appears_in_the_list(visitor, runs) -> None:
    """And goes again when its document is removed; nobody has to load the page again."""
    page = visitor.show_trials()

    path = keep(replace(TRIAL, command=("python", "new.py")), runs, "20261123-000000-new-dddddd")
    try:
        expect(page.locator("main .table tbody tr").first).to_contain_text("python new.py")
    finally:
        path.unlink()

    expect(page.locator("main .table tbody tr")).to_have_count(3)


def test_a_trial_says_what_each_fix_won_and_what_to_change(visitor) -> None:
    """As `tfprobe try` printed it, with what was predicted and how it was measured."""
    page = visitor.show("training", "trials", {"trial": TRIAL_ID})

    row = page.locator("main .table tbody tr").first
    for text in ("steps_per_execution=16", "won", "+82.5 % [77, 88]", "+38.0 %", "+76.0 %"):
        expect(row).to_contain_text(text)
    expect(row).to_contain_text("identical")
    card = page.locator("main .outcome").first
    expect(card).to_contain_text("The longer warm-up is made good after 1,234 steps.")
    expect(card).to_contain_text("Model.compile(steps_per_execution=16) applied at train.py:31")
    expect(card).to_contain_text("It changes more: callbacks see every 16th batch only.")
    expect(page.locator("main")).to_contain_text("Runs without a fix differ by up to 1.2 %")
    expect(page.locator("main")).to_contain_text("ran side by side in 182 s")
    expect(page.locator("main")).to_contain_text("cache was not tried: the budget was spent.")


def test_a_bar_shows_the_interval_and_where_zero_is(visitor) -> None:
    """All bars of a trial on one scale; what was not measured has none."""
    bars = visitor.show_trials(TRIAL_ID).evaluate(_BARS)

    won, lost, unknown, together = bars
    assert all(bar["left"] - 1 <= bar["low"] < bar["value"] < bar["high"] for bar in bars)
    assert all(bar["high"] <= bar["right"] + 1 for bar in bars)
    assert won["low"] > won["zero"]
    assert lost["high"] < lost["zero"]
    assert unknown["low"] < unknown["zero"] < unknown["high"]
    assert together["value"] > won["value"]
    assert won["label"] == "+82.5 % [77, 88], won"


def test_a_slower_part_says_what_waits_for_it(visitor) -> None:
    """The slope with its interval, and what a faster part wins at most."""
    page = visitor.show_trials(DELAYED_ID)

    critical, skipped = page.locator("main .table tbody tr").all()
    for text in ("input", "critical", "0.98 [0.90, 1.06]", "40.0 %", "+39.2 % [36, 42]"):
        expect(critical).to_contain_text(text)
    expect(skipped).to_contain_text("not applied")
    expect(page.locator("main .outcome").first).to_contain_text("at most 42.4 % of a step")


def test_a_finding_shows_what_was_measured_and_leads_to_it(visitor) -> None:
    """In place of the bound, as `tfprobe advise` does; a click copies what tries it."""
    page = visitor.show("ranks", "findings")
    finding = page.locator(".finding[data-rule=small_executions]")

    expect(finding).to_contain_text("measured +82.5 % [77, 88] (steps_per_execution=16)")
    expect(finding).not_to_contain_text("at most")
    expect(finding.locator(".gain-interval")).to_have_count(1)
    command = finding.get_by_role("button", name="tfprobe try steps_per_execution predict_direct")
    expect(command).to_be_visible()
    finding.get_by_role("link", name="Trials").click()

    visitor.settle("trials")
    expect(page.locator("main .table tbody tr")).to_have_count(1)


def test_without_a_trial_the_page_says_how_to_make_one(visitor) -> None:
    """In one sentence, with the command of the run."""
    page = visitor.show("stepless", "trials")

    expect(page.locator("main .empty")).to_have_text(
        "No trial of this command has been made; make one: tfprobe try -- python stepless.py"
    )


@pytest.mark.parametrize("trial", [BROKEN_TRIAL, "none", "..%2Ftraining"])
def test_a_trial_that_cannot_be_shown_is_a_paragraph(visitor, trial) -> None:
    """And the way to the others stays."""
    page = visitor.show_trials(trial)

    expect(page.locator("main .trouble")).to_have_count(1)
    page.get_by_role("link", name="Trials").click()
    expect(page.locator("main .table tbody tr")).to_have_count(3)


def test_names_of_a_stranger_are_text(visitor) -> None:
    """Whatever a job calls its files, its model and itself."""
    page = visitor.show_trials(HOSTILE_TRIAL)

    page.locator("main details summary").click()
    assert page.evaluate("() => window.hacked") is None
    assert page.locator("main script, main img").count() == 0
    assert not page.evaluate(_WIDE)


def test_keys_lead_to_the_trials_and_back(visitor) -> None:
    """As between the pages of a run."""
    page: Page = visitor.page

    page.keyboard.press("]")
    visitor.settle("trials")
    expect(page).to_have_url(re.compile("#/trials$"))
    page.keyboard.press("[")
    page.wait_for_selector("main .page-runs")
    page.keyboard.press("g")
    page.keyboard.press("t")
    visitor.settle("trials")
    expect(page.locator("nav.pages a[aria-current=page]")).to_have_text("Trials")


@pytest.mark.parametrize(("colours", "width"), WINDOWS)
def test_trials_fit_their_window_and_are_for_everybody(visit: Any, colours, width) -> None:
    """The list and a trial: nothing beyond the window, no last column cut, nothing for axe."""
    from axe_playwright_python.sync_playwright import Axe

    visitor = visit(viewport={"width": width, "height": 900}, color_scheme=colours)
    found = []

    for trial in ("", TRIAL_ID, DELAYED_ID, HOSTILE_TRIAL):
        page = visitor.show_trials(trial)
        assert not page.evaluate(_WIDE)
        if width >= 1280 or not trial:
            assert page.evaluate(_CUT) == []
        violations = Axe().run(page).response["violations"]
        found += [
            (trial, each["id"], node["html"][:200])
            for each in violations
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"][:3]
        ]

    assert found == []
