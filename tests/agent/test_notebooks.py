"""Cells of a notebook are numbered, and the time between them is noted. The IPython is made up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import Laboratory, load

# What the agent uses of IPython; tests/notebooks has real kernels.
SHELL = """
import types
class InteractiveShell:
    _instance = None
    def __init__(self):
        self.compile = types.SimpleNamespace(_filename_map={})
        self.events, self.callbacks = self, {}
    def register(self, event, function):
        self.callbacks.setdefault(event, []).append(function)
    def run_cell(self, number, file):
        for callback in self.callbacks.get("pre_run_cell", ()): callback(None)
        self.compile._filename_map[file] = number
        session.run("loss")
        for callback in self.callbacks.get("post_run_cell", ()): callback(None)
module = types.SimpleNamespace(InteractiveShell=InteractiveShell)
sys.modules["IPython.core.interactiveshell"] = module
sys.modules["ipykernel"] = types.ModuleType("ipykernel")
shell = InteractiveShell._instance = InteractiveShell()
from tfprobe_agent import cells
"""
CELLS = "shell.run_cell(1, '/k/1.py'); shell.run_cell(2, '/k/2.py'); shell.run_cell(3, '/k/1.py')"


def _numbers(laboratory: Laboratory) -> list[tuple[str, int, str | None]]:
    return [
        (line["file"], line["cell"], line["notebook"]) for line in laboratory.lines("cells.jsonl")
    ]


def _between(laboratory: Laboratory) -> list[dict[str, Any]]:
    lines = laboratory.lines("activities.jsonl")
    return [line for line in lines if line["activity"] == "between_cells"]


def test_each_execution_of_a_cell_is_numbered(laboratory: Laboratory) -> None:
    """By the file that IPython compiled it as; a cell executed again has a new number."""
    laboratory.arm()

    laboratory.finish(
        f"{SHELL}\ncells.follow(); cells.follow()\n{CELLS}",
        env={"JPY_SESSION_NAME": "/home/me/train.ipynb"},
    )

    numbers = [("/k/1.py", 1), ("/k/2.py", 2), ("/k/1.py", 3)]
    assert _numbers(laboratory) == [(file, cell, "train.ipynb") for file, cell in numbers]
    assert laboratory.errors() == []


def test_the_time_between_two_cells_is_noted(laboratory: Laboratory) -> None:
    """From the end of one to the beginning of the next: it has no line of the job."""
    laboratory.arm()

    laboratory.finish(f"{SHELL}\ncells.follow()\n{CELLS}")

    between = _between(laboratory)
    assert [line["count"] for line in between] == [1, 2]
    assert [line["name"] for line in between] == ["no cell runs"] * 2
    assert all("file" not in line for line in between)


@pytest.mark.parametrize(
    "shell",
    ["shell.events = None", "shell.compile._filename_map = []", "del shell.compile"],
)
def test_an_unknown_ipython_costs_the_numbers_alone(laboratory: Laboratory, shell: str) -> None:
    """The cells run, and their steps are counted."""
    laboratory.arm()

    said = laboratory.finish(f"{SHELL}\n{shell}\ncells.follow()\nsession.run('loss'); print('ran')")

    assert said == ["ran"]
    assert sum(laboratory.counts().values()) == 1


def test_a_forked_child_runs_no_cells(laboratory: Laboratory) -> None:
    """It inherits the callbacks, and notes nothing of its parent's notebook."""
    laboratory.arm()

    laboratory.finish(
        f"{SHELL}\ncells.follow()\n{CELLS}\n"
        "if os.fork() == 0:\n    shell.run_cell(9, '/k/9.py'); os._exit(0)\nos.wait()"
    )

    parent, child = laboratory.folders()
    assert not (child / "cells.jsonl").exists()
    assert (parent / "cells.jsonl").exists()


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("jupyter-nbconvert --execute train.ipynb --output done.ipynb", "train.ipynb"),
        ("python papermill train.ipynb done.ipynb", "train.ipynb"),
        ("jupyter-nbconvert --execute a.ipynb b.ipynb", None),
        ("jupyter-lab", None),
    ],
)
def test_the_command_of_the_front_end_names_the_notebook(
    monkeypatch: pytest.MonkeyPatch, command: str, name: str | None
) -> None:
    """The one that it reads; where it reads several, none is named."""
    notebooks = load("notebooks")
    monkeypatch.setitem(notebooks.sys.modules, "ipykernel", os)
    content = "\0".join(command.split()).encode() + b"\0"
    monkeypatch.setattr(notebooks, "read_file", lambda _path: content)

    assert notebooks.notebook("") == name
    assert notebooks.notebook("/srv/other.ipynb") == "other.ipynb"


def test_without_tfprobe_in_reach_load_ext_says_what_to_install(tmp_path: Path) -> None:
    """As on a node where the launcher's environment is not mounted."""
    notebooks = load("notebooks")

    with pytest.raises(ImportError, match="%pip install tfprobe"):
        notebooks.load_ipython_extension(None)
