"""The catalogue of fixes: each can be named, and findings lead to those that apply."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.source import ROOT
from tfprobe.errors import Missing, UsageError
from tfprobe.findings.finding import Finding, Gain, Severity
from tfprobe.findings.fixes import BY_ID, DELAYS, FIXES, ResultsClass, chosen, unasked
from tfprobe.findings.rules import RULES


def test_no_fix_is_there_twice() -> None:
    """Its id names it."""
    assert len(BY_ID) == len(FIXES)


def test_the_agent_can_apply_what_is_offered() -> None:
    """Its table and this one name the same fixes."""
    source = (ROOT / "sitecustomize_hooks/tfprobe_agent/trial/fixes/__init__.py").read_text()
    (table,) = (node.value for node in ast.parse(source).body if isinstance(node, ast.Assign))

    offered = (*FIXES, *DELAYS.values())
    assert {fix.id for fix in offered if fix.is_of_agent} == set(ast.literal_eval(table))


def test_every_rule_that_leads_to_a_fix_exists() -> None:
    """A rule that was renamed would lead nowhere."""
    named = {rule for fix in FIXES for rule in fix.rules}

    assert named - {rule.name for rule in RULES} == set()


@pytest.mark.parametrize("fix", FIXES, ids=lambda fix: fix.id)
def test_a_fix_says_what_to_change(fix) -> None:
    """And what else it changes, if it changes what the job does."""
    one = chosen(fix.id)

    assert one.change
    assert "{" not in one.change + one.summary + one.alters
    if fix.results is ResultsClass.SEMANTICS:
        assert one.alters


@pytest.mark.parametrize("fix", FIXES, ids=lambda fix: fix.id)
def test_the_page_of_trials_has_each_fix(fix) -> None:
    """With what it does to results."""
    page = (ROOT / "docs/try.md").read_text().partition("## Fixes")[2]

    (row,) = [line for line in page.splitlines() if re.match(rf"\| `{fix.id}\b", line)]

    word = "changes" if fix.results is ResultsClass.SEMANTICS else fix.results.value
    assert row.endswith(f"| {word} |")


def test_a_value_can_be_given() -> None:
    """As in steps_per_execution=32."""
    one = chosen("steps_per_execution=32")

    assert one.value == 32
    assert one.change == "Model.compile(steps_per_execution=32)"


def test_variables_are_shown_as_they_are_exported() -> None:
    """So that the line can be copied."""
    one = chosen("threads=3")

    assert one.fix.environment(one.value)["OMP_NUM_THREADS"] == "3"
    assert one.change.startswith("export OMP_NUM_THREADS=3 ")


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("faster", "no fix faster"),
        ("prefetch=3", "takes no value"),
        ("threads=many", "whole number"),
        ("threads=0", "whole number"),
        ("threads=", "whole number"),
    ],
)
def test_a_wrong_word_is_refused(word, why) -> None:
    """In one sentence."""
    with pytest.raises(UsageError, match=why):
        chosen(word)


TENTH = Gain(5, 10, 100)


def _finding(*fixes: str, gain: Gain | Missing = TENTH) -> Finding:
    return Finding("t", Severity.INFO, (), "do", gain, fixes=fixes)


def test_what_changes_the_job_must_be_named() -> None:
    """A finding alone never makes a trial save less often; the order of the findings stays."""
    found = unasked([_finding("cache", "save_every"), _finding("prefetch", "cache")])

    assert [one.fix.id for one in found] == ["cache", "prefetch"]


def test_what_promises_less_than_a_trial_can_see_must_be_named() -> None:
    """A pipeline that takes 0.6 % of the time is left as it is; an unknown gain is tried."""
    found = unasked(
        [
            _finding("prefetch", gain=Gain(1, 6, 1000)),
            _finding("cache", gain=Missing("no trace")),
            _finding("threads", gain=Gain(5, 10, 1000)),
        ]
    )

    assert [one.fix.id for one in found] == ["cache", "threads"]
