"""Start front ends of Jupyter with and without tfprobe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.tf.laboratory import environment_of_a_job

TIMEOUT_S = 300


def started(folder: Path, *command: str, records: bool = True) -> str:
    """Run a command in a folder, recorded or not; return its stdout, and fail if it fails."""
    prefix = [sys.executable, "-m", "tfprobe", "run", "-q", "--every", "7", "--"] if records else []
    places = {"JUPYTER_CONFIG_DIR": str(folder), "IPYTHONDIR": str(folder / "ipython")}
    variables = {"JAX_PLATFORMS": "cpu", "JUPYTER_PLATFORM_DIRS": "1", **places}
    done = subprocess.run(
        [*prefix, *command],
        cwd=folder,
        env=environment_of_a_job(variables),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(run: Path, *arguments: str) -> str:
    """Return the text of a reading command, on a page that is wide enough for all names."""
    command = [sys.executable, "-m", "tfprobe", *arguments, str(run)]
    env = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(
        command, capture_output=True, check=True, text=True, timeout=TIMEOUT_S, env=env
    ).stdout


def the_run(folder: Path) -> Path:
    """Return the only run recorded in a folder."""
    (run,) = (folder / "tfprobe-runs").iterdir()
    return run


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    """Write a notebook of cells that were not executed."""
    document: dict[str, Any] = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        "cells": [
            {
                "cell_type": "code",
                "id": f"cell{at}",
                "metadata": {},
                "source": code,
                "outputs": [],
                "execution_count": None,
            }
            for at, code in enumerate(cells)
        ],
    }
    path.write_text(json.dumps(document))
