"""Habits of the house that no linter knows: who prints, and who reads the environment."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.architecture.source import HOOKS, PACKAGE, modules, tree

# Who may read the environment. The doctor's probe, the agent and the extension of notebooks live in
# another process.
ENVIRONMENT_READERS = {
    "launch/environ.py",
    "launch/doctor/probe.py",
    "notebook.py",
    "sitecustomize.py",
    "tfprobe_agent/config.py",
}
PRINTERS = ("cli", "report", "live/top")


def _files() -> list[tuple[str, Path]]:
    return [
        (str(path.relative_to(root)), path) for root in (PACKAGE, HOOKS) for path in modules(root)
    ]


def _calls_print(path: Path) -> bool:
    calls = (node.func for node in ast.walk(tree(path)) if isinstance(node, ast.Call))
    return any(isinstance(function, ast.Name) and function.id == "print" for function in calls)


def _reads_environment(path: Path) -> bool:
    attributes = (node for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute))
    names = {"environ", "environb", "getenv", "getenvb"}
    return any(
        node.attr in names and isinstance(node.value, ast.Name) and node.value.id == "os"
        for node in attributes
    )


def test_only_report_top_and_cli_print() -> None:
    """Below them values are returned, not shown."""
    printers = {name for name, path in _files() if _calls_print(path)}

    assert {name for name in printers if not name.startswith(PRINTERS)} == set()


def test_the_environment_has_one_reader_in_each_program() -> None:
    """Everything else gets its settings as arguments."""
    readers = {name for name, path in _files() if _reads_environment(path)}

    assert readers - ENVIRONMENT_READERS == set()
