"""Thresholds are settings: named, with a unit, and a mistake says what was meant."""

from __future__ import annotations

import re

import pytest

from tests.architecture.source import ROOT
from tfprobe.errors import UsageError
from tfprobe.findings.finding import Gain
from tfprobe.findings.rules import RULES
from tfprobe.findings.thresholds import (
    CALIBRATIONS,
    DEFAULTS,
    calibrated,
    changed,
    parse,
    settings,
)


@pytest.mark.parametrize(
    ("text", "value"), [("0.2", 0.2), ("20%", 0.2), ("1e-2", 0.01), ("0", 0.0)]
)
def test_a_threshold_is_a_number_or_a_percentage(text: str, value: float) -> None:
    """As NAME=VALUE."""
    limits = changed(DEFAULTS, parse((f"input_ratio={text}",)), source="--threshold")

    assert limits.input_ratio == value


def test_what_is_not_named_stays() -> None:
    """Only the given ones change."""
    limits = changed(DEFAULTS, {"input_ratio": 0.5}, source="tfprobe.toml")

    assert limits.callbacks_ratio == DEFAULTS.callbacks_ratio


def test_an_unknown_name_lists_the_nearest() -> None:
    """So that a slip of the finger costs nothing."""
    with pytest.raises(UsageError, match="input_ratio"):
        changed(DEFAULTS, {"inputs_ratio": 0.5}, source="--threshold")


@pytest.mark.parametrize("value", ["much", "-1", "nan", "inf", "", True, None, [1]])
def test_a_value_that_is_no_number_is_a_mistake(value: object) -> None:
    """In tfprobe.toml as on the command line."""
    with pytest.raises(UsageError, match="not a number"):
        changed(DEFAULTS, {"input_ratio": value}, source="tfprobe.toml")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("retraces_least=5%", "percentage"),
        ("small_step_us=5%", "percentage"),
        ("copies_least=2.5", "whole"),
        ("copy_bytes=0.5", "whole"),
    ],
)
def test_what_is_no_ratio_is_no_percentage_and_counts_are_whole(word: str, message: str) -> None:
    """5 % of how many retraces nobody could say."""
    with pytest.raises(UsageError, match=message):
        changed(DEFAULTS, parse((word,)), source="--threshold")


def test_a_name_without_a_value_is_a_mistake() -> None:
    """Nothing is guessed."""
    with pytest.raises(UsageError, match="NAME=VALUE"):
        parse(("input_ratio",))


def test_the_page_lists_every_threshold_with_its_default() -> None:
    """docs/advice.md is what --threshold refers to."""
    page = (ROOT / "docs" / "advice.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", page, re.MULTILINE))

    assert {name: float(value) for name, value in rows.items()} == {
        each.name: each.default for each in settings()
    }


def test_the_page_lists_every_rule() -> None:
    """In the order of RULES."""
    page = (ROOT / "docs" / "advice.md").read_text(encoding="utf-8")

    assert re.findall(r"^\| \*\*(\w+)\*\* \|", page, re.MULTILINE) == [each.name for each in RULES]


def test_calibrated_rules_exist_and_are_of_one_class() -> None:
    """A rule that was renamed would keep its own share without a word."""
    calibrated_rules = [rule for each in CALIBRATIONS for rule in each.rules]

    assert set(calibrated_rules) <= {rule.name for rule in RULES}
    assert len(set(calibrated_rules)) == len(calibrated_rules)
    assert all(0 < each.ratio < 1 for each in CALIBRATIONS)


@pytest.mark.parametrize(
    ("rule", "low", "likely"),
    [
        ("eager_loop", 40, 90),
        ("input_bound", 40, 80),
        ("input_bound", 95, 95),
        ("input_bound", 0, 0),
        ("xla_off", 40, 40),
    ],
)
def test_a_likely_gain_is_raised_to_what_was_measured(rule, low, likely) -> None:
    """Never lowered, and not where a rule says that nothing is likely, or nothing was measured."""
    assert calibrated(rule, Gain(low, 100, 200)) == Gain(likely, 100, 200)
