"""Tables as files: the same rows, read without us."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest

from tests.support.asked_tables import asked, opened, sampled_process, write_recorded
from tests.support.rundir import write_run
from tfprobe.cli.main import main
from tfprobe.query.tables.catalogue import SHAPES
from tfprobe.query.tables.loader import LARGE, export
from tfprobe.runs import safe_files


def _rows(place: Path) -> list[tuple[object, ...]]:
    return duckdb.sql(f"select * from '{place}' order by all").fetchall()


def test_files_have_the_rows_of_the_tables(tmp_path: Path) -> None:
    """Whoever reads the files reads what SQL says."""
    run = write_recorded(tmp_path / "run")

    with opened(run) as tables:
        export(tables, tmp_path / "made")

    for shape in SHAPES:
        files = "/*.parquet" if shape.name in LARGE else ".parquet"
        _, rows = asked(f"select * from {shape.name} order by all", run)
        assert _rows(tmp_path / "made" / f"{shape.name}{files}") == rows


def test_large_tables_are_a_file_a_process(tmp_path: Path) -> None:
    """The name of a file leads nowhere, whatever a host is called."""
    processes = [sampled_process(rank=0), sampled_process(rank=1, host="a b'\n")]
    run = write_run(tmp_path / "run", processes)

    with opened(run) as tables:
        export(tables, tmp_path / "made")

    names = sorted(path.name for path in (tmp_path / "made" / "executions").iterdir())
    assert names == [
        "0000-a_b__-4711-1795205058000.parquet",
        "0001-node7-4711-1795205058000.parquet",
    ]


def test_a_run_of_nothing_has_files_all_the_same(tmp_path: Path) -> None:
    """What reads the files need not look which there are."""
    run = write_run(tmp_path / "run")

    with opened(run) as tables:
        export(tables, tmp_path / "made")

    assert _rows(tmp_path / "made" / "executions" / "*.parquet") == []
    assert len(_rows(tmp_path / "made" / "runs.parquet")) == 1


def test_files_of_an_export_before_are_not_counted_again(tmp_path: Path) -> None:
    """A directory has the rows of the last export, and what somebody else has put there."""
    executions = tmp_path / "made" / "executions"
    for name, count in (("none", 0), ("both", 2), ("one", 1)):
        processes = [sampled_process(pid=4711 + each) for each in range(count)]
        with opened(write_run(tmp_path / name / "run", processes)) as tables:
            export(tables, tmp_path / "made")
        rows = _rows(executions / "*.parquet")
        assert len(rows) == 6 * count

    others = [executions / name for name in ("notes.txt", "2024-01-02.parquet", "x.parquet")]
    for other in others:
        other.write_text("mine")
    with opened(write_run(tmp_path / "nothing" / "run")) as tables:
        export(tables, tmp_path / "made")

    assert sorted(executions.iterdir()) == sorted([*others, executions / "none.parquet"])


def test_two_exports_at_once_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In two containers they have one process number, and names of their own all the same."""
    run = write_recorded(tmp_path / "run")
    made = []

    really = os.replace

    def replace(unfinished: Path, path: Path) -> None:
        made.append(Path(unfinished).name)
        really(unfinished, path)

    monkeypatch.setattr(safe_files.os, "replace", replace)

    for _ in range(2):
        with opened(run) as tables:
            export(tables, tmp_path / "made")

    assert len(set(made)) == len(made) >= 2 * len(SHAPES)


def test_the_command_names_the_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without -f it is in the report of the run, with --rank of that rank alone."""
    processes = [sampled_process(rank=rank, pid=100 + rank) for rank in (0, 1)]
    run = write_run(tmp_path / "run", processes)

    status = main(["export", str(run), "--to", "parquet", "--rank", "1"])

    place = run / "report" / "tables"
    assert (status, capsys.readouterr().out.splitlines()[0]) == (0, str(place))
    (rows,) = duckdb.sql(f"select distinct process, rank from '{place}/steps/*.parquet'").fetchall()
    assert rows == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--loop", "x"), 2, "--loop and --step cannot be combined with --to parquet"),
        (("--rank", "7"), 1, "no process of rank 7"),
        (("-f", "/dev/null/x"), 2, "cannot be written"),
    ],
)
def test_what_cannot_be_is_said(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    status: int,
    said: str,
) -> None:
    """One paragraph, and the status of its kind."""
    run = write_recorded(tmp_path / "run")

    ended = main(["export", str(run), "--to", "parquet", *arguments])

    told = capsys.readouterr().err
    assert (ended, said in told, told.count("\n")) == (status, True, 1)
