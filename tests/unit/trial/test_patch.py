"""A fix is written into the source only where it is one argument of one call."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.report.test_trial_page import WON
from tfprobe.analysis.compare.trials import Verdict
from tfprobe.errors import Missing
from tfprobe.findings.fixes import chosen
from tfprobe.findings.trials import AppliedFix, FixOutcome
from tfprobe.trial.patch import patch_of, with_argument


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("DataLoader(data)", "DataLoader(data, num_workers=2)"),
        ("DataLoader()", "DataLoader(num_workers=2)"),
        ("DataLoader(data, num_workers=0)", "DataLoader(data, num_workers=2)"),
        ("utils.DataLoader(data, 32)", "utils.DataLoader(data, 32, num_workers=2)"),
        ("f(DataLoader(g(data)))", "f(DataLoader(g(data), num_workers=2))"),
        ("DataLoader(\n    data,\n)", "DataLoader(\n    data, num_workers=2,\n)"),
        ("DataLoader(\n    data,  # a, b\n)", "DataLoader(\n    data, num_workers=2,  # a, b\n)"),
        ("DataLoader(\n    data  # a\n)", "DataLoader(\n    data, num_workers=2  # a\n)"),
        ("ä = DataLoader('ü', shuffle=True)", "ä = DataLoader('ü', shuffle=True, num_workers=2)"),
    ],
)
def test_an_argument_is_added_or_replaced(before, after) -> None:
    """Nothing else of the source changes."""
    assert with_argument(before, 1, "DataLoader", "num_workers", "2") == after


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("DataLoader(data, num_workers=count)", "no literal"),
        ("DataLoader(data, **options)", "from elsewhere"),
        ("a, b = DataLoader(x), DataLoader(y)", "not one call"),
        ("print(data)", "not one call"),
        ("DataLoader((data))", "cannot be added to"),
        ("DataLoader(x for x in data)", "cannot be added to"),
        ("DataLoader(", "cannot be read"),
    ],
)
def test_what_is_written_otherwise_is_left_alone(source, why) -> None:
    """With the reason."""
    found = with_argument(source, 1, "DataLoader", "num_workers", "2")

    assert isinstance(found, Missing)
    assert why in found.reason


def outcome(word: str, source: str, verdict: Verdict = Verdict.WON) -> FixOutcome:
    fix = chosen(word)
    applied = {fix.fix.id: AppliedFix(1, {}, source)}
    return replace(WON, fixes=(fix,), applied=applied, verdict=verdict)


def test_a_diff_applies_to_the_source(tmp_path: Path) -> None:
    """Two fixes in one file, as `patch -p1` takes them."""
    source = tmp_path / "train.py"
    source.write_text("loader = DataLoader(data)\noptimizer = Adam(parameters(), lr=1)\n")
    won = [
        outcome("dataloader_workers=3", f"{source}:1"),
        outcome("fused_optimizer", f"{source}:2"),
        outcome("pin_memory", f"{source}:1", Verdict.LOST),
    ]

    diff = patch_of(won, tmp_path)

    assert isinstance(diff, str)
    subprocess.run(["git", "apply", "-"], input=diff, cwd=tmp_path, text=True, check=True)
    assert source.read_text() == (
        "loader = DataLoader(data, num_workers=3)\n"
        "optimizer = Adam(parameters(), lr=1, fused=True)\n"
    )


@pytest.mark.parametrize(
    ("outcomes", "why"),
    [
        ([], "no fix won"),
        ([outcome("threads", "")], "no argument of a call"),
        ([outcome("pin_memory", "")], "nobody saw in which line"),
        ([outcome("pin_memory", "/nowhere/train.py:3")], "cannot be read"),
    ],
)
def test_where_nothing_can_be_written_the_reason_is_given(outcomes, why, tmp_path) -> None:
    """Instead of an empty file."""
    found = patch_of(outcomes, tmp_path)

    assert isinstance(found, Missing)
    assert why in found.reason
