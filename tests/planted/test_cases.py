"""The table of planted programs is well formed; nothing is recorded here."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.matrix.cells import CELLS
from tests.planted.cases import CASES, MARK, PROGRAMS, Case, Place, planted_place
from tests.planted.recording import Measured, Told, Twin
from tests.planted.table import Row, table

# What programs share.
SHARED = {"data", "graphs", "jax_models", "models", "stopwatch", "torch_models"}
FILES = sorted(path for path in PROGRAMS.glob("*.py") if path.stem not in SHARED)
MEASURED = Measured(wall_s=10.0, steps_s=7.0, cause_s=4.0, units=100, unit_s=0.07)
MENDED = Measured(wall_s=10.0, steps_s=7.0, cause_s=None, units=200, unit_s=0.035)


def test_every_program_is_in_the_table() -> None:
    """And every case has its program."""
    assert {path.stem for path in FILES} == {case.program for case in CASES}


def test_there_are_forty_programs() -> None:
    """As few say too little about rules that were written with them in sight."""
    assert len(FILES) >= 40


def test_no_case_is_there_twice() -> None:
    """Its name picks it."""
    assert set(Counter(case.name for case in CASES).values()) == {1}


def test_every_case_runs_in_a_cell_of_the_matrix() -> None:
    """Which makes its environment."""
    assert {case.cell for case in CASES} <= {cell.name for cell in CELLS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_program_marks_one_line_and_has_a_mended_twin(path) -> None:
    """The mark is where a finding should lead to; the same file runs without its cause."""
    text = path.read_text()

    assert planted_place(path).file == path.name
    assert "options.mended" in text
    assert "watch.finish(" in text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_program_needs_no_tfprobe(path) -> None:
    """It is an unchanged job, in the syntax of Python 3.7."""
    parsed = ast.parse(path.read_text(), feature_version=(3, 7))
    named = {
        name
        for node in ast.walk(parsed)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (getattr(node, "module", None) or "", *(each.name for each in node.names))
    }

    assert not {name for name in named if "tfprobe" in name or name.startswith("tests")}


def test_a_mark_on_the_head_of_a_function_covers_its_body(tmp_path) -> None:
    """A finding may point at any of its lines."""
    program = tmp_path / "program.py"
    program.write_text(f"def hook():  {MARK}\n    wait()\n    wait()\n\n\nhook()\n")

    assert planted_place(program) == Place("program.py", 1, 3)
    assert planted_place(program).holds("/somewhere/program.py:3")
    assert not planted_place(program).holds("/somewhere/program.py:6")
    assert not planted_place(program).holds("/somewhere/other.py:3")


def test_two_marks_are_refused(tmp_path) -> None:
    """A program has one cause."""
    program = tmp_path / "program.py"
    program.write_text(f"one()  {MARK}\ntwo()  {MARK}\n")

    with pytest.raises(ValueError, match="2 lines"):
        planted_place(program)


def test_the_first_finding_is_judged() -> None:
    """A right one behind a wrong one is no help to who reads the first line."""
    right = Told("input_bound", "critical", 0.6 * MEASURED.steps_s, "")
    wrong = Told("tiny_ops", "critical", 0.6, "")

    assert _row(right, wrong).is_right
    assert not _row(wrong, right).is_right
    assert not _row(Told("input_bound", "info", 0.6, "")).is_right


def test_a_bound_holds_from_the_gain_to_twice_it() -> None:
    """Mending won half here."""
    highs_s = (0.4 * MEASURED.steps_s, 0.5 * MEASURED.steps_s, 2 * MEASURED.steps_s)

    verdicts = [_row(Told("input_bound", "warning", high_s, "")).bound_holds for high_s in highs_s]

    assert verdicts == [False, True, True]


def test_a_twin_is_accused_by_a_warning_only() -> None:
    """A note at info costs nobody's time."""
    note, warning = (Told("tiny_ops", severity, 0.1, "") for severity in ("info", "warning"))

    assert _row(mended=(note,)).accused is None
    assert _row(mended=(note, warning)).accused == warning


def test_the_table_has_a_line_for_each_case_and_the_totals() -> None:
    """Also for a case that could not be run, with why."""
    case = _row().case
    told = table(
        [
            _row(Told("input_bound", "critical", 0.6 * MEASURED.steps_s, "")),
            Row(case, trouble="no Python"),
        ]
    )

    assert "| input_bound (critical) | yes | - | 60 % | 50 % | yes | nothing |" in told
    assert "not run: no Python" in told
    assert "| first finding is the planted cause | 1 | 1 | 100 % | 95 % |" in told


def _row(*findings: Told, mended: tuple[Told, ...] = ()) -> Row:
    case = Case("program", "tf2.21-py3.11", "slow input", ("input_bound",), line=False)
    return Row(case, Twin(MEASURED, findings), Twin(MENDED, mended))
