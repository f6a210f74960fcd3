"""Cells of notebooks have their numbers in place of the files that IPython compiles them as."""

from __future__ import annotations

import json

import pytest

from tfprobe.runs.process_folder.cells import CellNames
from tfprobe.runs.process_folder.jsonl import Tail

CELL = "/tmp/ipykernel_30021/2965734838.py"


def _number(folder, cell: int, notebook: str | None = "train.ipynb") -> None:
    line = {"file": CELL, "cell": cell, "notebook": notebook}
    with (folder / "cells.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def test_a_cell_is_named_by_its_notebook_and_its_latest_number(tmp_path):
    """A cell that is executed again without a change is the same file."""
    _number(tmp_path, 3)
    _number(tmp_path, 7)

    assert CellNames(tmp_path).shown(CELL) == "train.ipynb cell [7]"


def test_a_cell_of_an_unknown_notebook_has_its_number(tmp_path):
    """As in front ends that do not say which notebook they show."""
    _number(tmp_path, 3, notebook=None)

    assert CellNames(tmp_path).shown(CELL) == "cell [3]"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        (CELL, "cell …4838"),
        ("<ipython-input-12-0f2a>", "cell [12]"),
        ("/home/me/train.py", "/home/me/train.py"),
        ("/home/ipykernel_launcher.py", "/home/ipykernel_launcher.py"),
    ],
)
def test_what_nobody_numbered_has_a_short_name(tmp_path, file, name):
    """Numbers that are in the name are known anyway; other files keep theirs."""
    assert CellNames(tmp_path).shown(file) == name


def test_damaged_lines_number_nothing(tmp_path):
    """Half a line, one of other types, or none of the agent's."""
    lines = ["{", "[]", '{"file": 3, "cell": 1, "notebook": null}', '{"file": "x"}', "\0"]
    (tmp_path / "cells.jsonl").write_text("\n".join(lines))

    assert CellNames(tmp_path).shown(CELL) == "cell …4838"


def test_lines_of_all_files_name_cells(tmp_path):
    """Only where a whole text is the file of one; the name is escaped as JSON has it."""
    _number(tmp_path, 2, notebook='a "b" ü.ipynb')
    line = {"file": CELL, "line": 4, "name": f"see {CELL}"}
    (tmp_path / "activities.jsonl").write_text(json.dumps(line) + "\n")

    (read,) = Tail(tmp_path / "activities.jsonl").read().lines

    assert json.loads(read) == {**line, "file": 'a "b" ü.ipynb cell [2]'}
