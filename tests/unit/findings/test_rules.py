"""Every rule has a topic, a place in RULES, and a twin test."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from pathlib import Path

from tfprobe.findings import rules
from tfprobe.findings.rules import RULES
from tfprobe.findings.thresholds import Thresholds

FOLDER = Path(rules.__file__).parent
TESTS = Path(__file__).parent / "rules"


def _files() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


def test_every_rule_of_a_topic_is_in_rules() -> None:
    """In the order of their names; a rule is a public function that is given the limits."""
    found = [name for file in _files() for name in _rules_of(file)]

    assert [rule.name for rule in RULES] == sorted(found)


def _rules_of(topic: str) -> list[str]:
    nodes = ast.parse((FOLDER / f"{topic}.py").read_text(encoding="utf-8")).body
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    return [
        node.name
        for node in functions
        if not node.name.startswith("_") and "limits" in {arg.arg for arg in node.args.args}
    ]


def test_every_rule_checks_with_the_function_of_its_name() -> None:
    """None was put under another's name."""
    wrong = [rule.name for rule in RULES if rule.name != _function(rule.check).__name__]

    assert wrong == []


def _function(check):
    """Return a rule's function, through what applies it to loops or processes."""
    return inspect.getclosurevars(check).nonlocals.get("check", check)


def test_every_rule_has_its_twin() -> None:
    """A profile that fires it and one just below, in a file of its name."""
    twins = {rule.name: _tests(TESTS / f"test_{rule.name}.py") for rule in RULES}

    assert [name for name, count in twins.items() if count < 2] == []


def _tests(path: Path) -> int:
    if not path.exists():
        return 0
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    return sum(
        isinstance(node, ast.FunctionDef) and node.name.startswith("test_") for node in nodes
    )


def test_rules_read_results_of_the_analysis_and_no_tables() -> None:
    """Tables and profiles are for the analysis alone."""
    allowed = ("tfprobe.findings", "tfprobe.analysis", "tfprobe.errors")
    modules = {
        node.module
        for name in _files()
        for node in ast.walk(ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tfprobe")
    }

    assert {each for each in modules if not each.startswith(allowed)} == set()
    assert {each for each in modules if each == "tfprobe.findings.collect"} == set()


def test_every_threshold_is_used() -> None:
    """And says its unit and its reason."""
    folder = FOLDER.parent
    text = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))

    assert [f.name for f in fields(Thresholds) if text.count(f".{f.name}") == 0] == []
    assert all(f.metadata["unit"] and f.metadata["why"] for f in fields(Thresholds))
