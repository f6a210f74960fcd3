"""A test that is never run finds nothing: where CI=true, skips that need not be fail the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.matrix.__main__ import Result, chosen, never_run
from tests.matrix.cells import CELLS
from tests.process.launching import ROOT


def _run(folder: Path, reason: str, *, ci: str) -> subprocess.CompletedProcess[str]:
    folder.joinpath("test_it.py").write_text(
        f"import pytest\ndef test_here(): pass\ndef test_there(): pytest.skip({reason!r})\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", os.devnull]
    return subprocess.run(
        [*command, "--rootdir", folder, folder],
        env={**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_skip_fails_a_run_of_ci(tmp_path: Path) -> None:
    """And is named, with its reason."""
    ended = _run(tmp_path, "no time today", ci="true")

    assert ended.returncode == pytest.ExitCode.TESTS_FAILED
    assert "test_it.py::test_there: no time today" in ended.stdout


@pytest.mark.parametrize(
    ("reason", "ci"), [("no time today", ""), ("no Python 2.7 is installed", "true")]
)
def test_a_skip_that_the_machine_explains_does_not(tmp_path: Path, reason, ci) -> None:
    """Neither does any skip on a developer's machine."""
    ended = _run(tmp_path, reason, ci=ci)

    assert ended.returncode == pytest.ExitCode.OK, ended.stdout


def test_a_test_that_all_cells_skip_is_named() -> None:
    """Each is there for some TensorFlow."""
    old = Result(CELLS[0], passed={"a"}, skipped={"b": "too new", "c": "too new"})
    new = Result(CELLS[1], passed={"b"}, skipped={"a": "too old", "c": "too old"})

    assert never_run([old, new]) == {"c": "too old"}


def test_a_cell_that_was_not_run_may_be_the_one() -> None:
    """A machine without that Python says so elsewhere."""
    ran = Result(CELLS[0], skipped={"a": "too new"})

    assert never_run([ran, Result(CELLS[1], unavailable="no Python")]) == {}


def test_where_ci_is_true_versions_between_are_left_out() -> None:
    """Each has an older and a newer one that is asked; a person gets all of them."""
    names = [cell.name for cell in chosen([], strict=True)]

    assert chosen([], strict=False) == list(CELLS)
    assert {cell.name for cell in CELLS if cell.required} <= set(names)
    assert chosen(["tf2.4-py3.8"], strict=True) == [CELLS[2]]
    for cell in CELLS:
        kind = cell.tests
        around = [each for each in CELLS if each.tests == kind]
        at = around.index(cell)
        assert not cell.is_between or 0 < at < len(around) - 1
