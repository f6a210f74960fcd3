"""`%tfprobe` in a shell of IPython, which is made up here; tests/notebooks has real kernels."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import tfprobe
from tfprobe import notebook


class Shell:
    """What an IPython offers to extensions."""

    def __init__(self) -> None:
        self.magics = {}
        self.published = []
        self.display_pub = self

    def register_magic_function(self, function, kind: str, name: str) -> None:
        assert kind == "line"
        self.magics[name] = function

    def publish(self, data) -> None:
        self.published.append(data)


@pytest.fixture
def magic():
    """`%tfprobe` of a kernel that is not recorded."""
    shell = Shell()
    tfprobe.load_ipython_extension(shell)
    return shell.magics["tfprobe"]


def test_a_notebook_that_is_not_recorded_says_what_to_do(magic, capsys, monkeypatch):
    """In one paragraph, and not about some other run in the same directory."""
    monkeypatch.delenv("TFPROBE_RUN", raising=False)

    magic("report")

    assert capsys.readouterr().err.startswith("tfprobe: This notebook is not recorded.")


def test_arguments_are_split_as_a_shell_does(magic, capsys):
    """A query with spaces is one argument."""
    magic('report "no such run"')

    assert "'no such run' is neither a run" in capsys.readouterr().err


def test_modules_of_the_notebooks_directory_are_not_imported(magic, capsys, tmp_path, monkeypatch):
    """A file of the user may be called like one that tfprobe imports."""
    (tmp_path / "click.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)

    magic("--version")

    assert tfprobe.__version__ in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run -- python x.py", "top", "trace", "ui", "tfprof"])
def test_commands_that_a_cell_cannot_run_say_why(magic, capsys, command):
    """And how the command reads in a terminal."""
    magic(command)

    assert f"Use a terminal: tfprobe {command}" in capsys.readouterr().err


def test_the_extension_is_loaded_by_kernels_of_python_3_8():
    """Their environment need not be that of tfprobe, so it imports the standard library alone."""
    source = Path(notebook.__file__).read_text()

    tree = ast.parse(source, feature_version=(3, 8))

    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module.partition(".")[0] for node in imports if isinstance(node, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names
