"""The agent lives in a stranger's interpreter: old Pythons, standard library, nothing else."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path
from token import NAME

import pytest

from tests.architecture.source import HOOKS, dotted, imported_names, modules
from tests.support.interpreters import need_interpreter

AGENT_FILES = modules(HOOKS)
FIXES = HOOKS / "tfprobe_agent" / "trial" / "fixes"
OWN = {"tfprobe_agent"}
# Words that a reader would have to learn from us; each has one of the field's.
COINED = {"told", "asked", "beside", "dearest", "held", "heard", "crew", "door", "hearing"}
# In Python 2.7 only; gone from the standard library that knows its own names.
FORMER = {"imp"}


@pytest.fixture(params=AGENT_FILES, ids=lambda path: str(path.relative_to(HOOKS)))
def agent_file(request: pytest.FixtureRequest) -> Path:
    """Each file of the agent."""
    path: Path = request.param
    return path


def test_parses_as_python_36(agent_file: Path) -> None:
    """No spelling newer than 3.6."""
    ast.parse(agent_file.read_text(encoding="utf-8"), feature_version=(3, 6))


def test_imports_only_the_standard_library_when_imported(agent_file: Path) -> None:
    """What runs at import time needs nothing; TensorFlow is met only inside functions."""
    module = ast.parse(agent_file.read_text(encoding="utf-8"))
    package = dotted(agent_file, HOOKS)

    roots = {
        name.split(".")[0] for node in _run_at_import(module) for name in _names(node, package)
    }

    assert roots - set(sys.stdlib_module_names) - OWN - FORMER == set()


def test_no_generator_is_left_early(agent_file: Path) -> None:
    """Python closes it then, and loses an exception that a signal handler raises meanwhile."""
    nodes = ast.walk(ast.parse(agent_file.read_text(encoding="utf-8")))

    left_early = [
        node.lineno
        for node in nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("any", "all", "next")
        and any(_is_lazy(argument) for argument in node.args)
    ]
    assert left_early == []


def _is_lazy(argument: ast.expr) -> bool:
    """Return whether an argument is a generator, also behind `filter` or `map`."""
    if isinstance(argument, ast.Call):
        return any(map(_is_lazy, argument.args))
    return isinstance(argument, ast.GeneratorExp)


def test_no_identifier_has_a_coined_word(agent_file: Path) -> None:
    """Its words are split at underscores and capitals."""
    source = io.StringIO(agent_file.read_text(encoding="utf-8"))
    tokens = [token for token in tokenize.generate_tokens(source.readline) if token.type == NAME]

    coined = {
        token.string
        for token in tokens
        if not COINED.isdisjoint(map(str.lower, re.findall("[A-Z]?[a-z]+|[A-Z]+", token.string)))
    }

    assert coined == set()


def test_no_folder_has_more_than_fifteen_modules() -> None:
    """What is more has named folders of its own."""
    modules_of = Counter(path.parent for path in AGENT_FILES if path.name != "__init__.py")

    assert max(modules_of.values()) <= 15


def test_every_fix_of_trials_is_listed() -> None:
    """A module of a fix has MODULES and `patch`; those that fixes share have not both."""
    names = {path: _defined(path) for path in AGENT_FILES if FIXES in path.parents}

    fixes = {
        ".".join(path.relative_to(FIXES).with_suffix("").parts)
        for path, defined in names.items()
        if {"MODULES", "patch"} <= defined
    }
    assert {path for paths in _listed_fixes().values() for path in paths.split()} == fixes


def _defined(path: Path) -> set[str]:
    """The functions and constants of a module."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    functions = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    assigned = [node.targets[0] for node in body if isinstance(node, ast.Assign)]
    return functions | {target.id for target in assigned if isinstance(target, ast.Name)}


def _listed_fixes() -> dict[str, str]:
    body = ast.parse((FIXES / "__init__.py").read_text(encoding="utf-8")).body
    (value,) = [node.value for node in body if isinstance(node, ast.Assign)]
    listed: dict[str, str] = ast.literal_eval(value)
    return listed


@pytest.mark.parametrize("version", ["3.6", "3.7"])
def test_compiles_on_old_pythons(version: str) -> None:
    """The real parser of the oldest interpreters takes every file."""
    python = need_interpreter(version)

    _compile(python, AGENT_FILES)


def test_the_entry_compiles_on_python_27() -> None:
    """An interpreter that is never recorded still loads sitecustomize.py."""
    python = need_interpreter("2.7")

    _compile(python, [HOOKS / "sitecustomize.py"])


def _compile(python: Path, files: list[Path]) -> None:
    text = (
        "import io, sys\n"
        "for name in sys.argv[1:]:\n"
        "    compile(io.open(name, 'rb').read(), name, 'exec', 0, True)\n"
    )
    ended = subprocess.run(
        [str(python), "-c", text, *map(str, files)], capture_output=True, check=False, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def _run_at_import(module: ast.Module) -> list[ast.AST]:
    """The imports of a module outside its functions, those in `try` and `if` included."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = [module]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.append(node)
        waiting += ast.iter_child_nodes(node)
    return found


def _names(node: ast.AST, package: str) -> list[str]:
    return list(imported_names(node, package))
