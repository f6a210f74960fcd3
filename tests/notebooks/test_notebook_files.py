"""Notebooks that a program executes are named where their process and their cells are."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.notebooks.front_ends import read, started, the_run, write_notebook
from tests.tf.laboratory import tfprobe_json

CELLS = (
    "import jax\nimport jax.numpy as jnp",
    "@jax.jit\ndef double(x):\n    return jnp.tanh(x @ x)",
    "value = jnp.eye(64)\nfor _ in range(50):\n    value = double(value)\nfloat(value[0, 0])",
)


def executed(python: str, folder: Path, *, records: bool, papermill: bool = False) -> Path:
    """Execute train.ipynb; return the executed notebook."""
    write_notebook(folder / "train.ipynb", CELLS)
    if papermill:
        command = ["-m", "papermill", "--no-progress-bar", "train.ipynb", "done.ipynb"]
    else:
        command = ["-m", "nbconvert", "--to", "notebook", "--execute", "train.ipynb"]
        command += ["--output", "done.ipynb"]
    started(folder, python, *command, records=records)
    return folder / "done.ipynb"


@pytest.mark.parametrize("papermill", [False, True], ids=["nbconvert", "papermill"])
def test_a_notebook_names_its_process_and_its_cells(python, tmp_path, papermill) -> None:
    """By the notebook that the command executes, not by the one that it writes."""
    executed(python, tmp_path, records=True, papermill=papermill)

    run = the_run(tmp_path)
    assert "train.ipynb cell [2]:3:double" in read(run, "code")
    (process,) = tfprobe_json("report", str(run))["processes"]
    assert process["program"] == "train.ipynb"


def test_a_recorded_notebook_has_the_same_outputs(python, tmp_path) -> None:
    """To the last one."""
    outputs = {}
    for records in (False, True):
        folder = tmp_path / str(records)
        folder.mkdir()
        cells = json.loads(executed(python, folder, records=records).read_text())["cells"]
        outputs[records] = [(cell["outputs"], cell["execution_count"]) for cell in cells]

    assert outputs[True] == outputs[False]
    assert "text/plain" in outputs[True][2][0][0]["data"]


def test_a_notebook_that_is_not_recorded_says_what_to_do(python, tmp_path) -> None:
    """tfprobe is installed there, but nothing records; a run that is named can be read."""
    checkout = Path(__file__).parents[2]
    paths = [str(checkout), *(entry for entry in sys.path if "site-packages" in entry)]
    load = f"import sys; sys.path += {paths!r}; sys.executable = {sys.executable!r}"
    cells = (load, "%load_ext tfprobe", "%tfprobe report", "%tfprobe report no-such-run")
    write_notebook(tmp_path / "free.ipynb", cells)

    command = ["-m", "nbconvert", "--to", "notebook", "--execute", "free.ipynb"]
    started(tmp_path, python, *command, "--output", "done.ipynb", records=False)

    executed_cells = json.loads((tmp_path / "done.ipynb").read_text())["cells"]
    said = ["".join(out["text"]) for cell in executed_cells[2:] for out in cell["outputs"]]
    assert said[0].startswith("tfprobe: This notebook is not recorded. Start its server with")
    assert "'no-such-run' is neither" in said[1]
