"""`tfprobe sql` as people use it: its forms, its statuses, pipes that break, Ctrl-C."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
from pathlib import Path

import duckdb
import pytest

from tests.process.launching import PATIENCE_S, Launcher, environment
from tests.support.asked_tables import write_recorded

OPS = "select op_type, sum(duration_ns) as ns from executions group by 1 order by 2 desc"


@pytest.fixture
def run(launcher: Launcher) -> Path:
    """A run in the directory of runs."""
    launcher.output.mkdir()
    return write_recorded(launcher.output / "one")


@pytest.fixture
def scratch(tmp_path: Path) -> dict[str, str]:
    """An environment with a directory for temporary files."""
    (tmp_path / "scratch").mkdir()
    return {"TMPDIR": str(tmp_path / "scratch")}


def test_rows_are_a_table(launcher: Launcher, run: Path) -> None:
    """Columns with their names, numbers to the right, and how many rows there are."""
    ended = launcher.tfprobe("sql", run, OPS)

    assert (ended.status, ended.stderr) == (0, b"")
    assert ended.lines() == [
        "op_type     ns",
        "MatMul   60000",
        "Const    10000",
        "y         4000",
        "3 rows",
    ]


def test_rows_are_a_document(launcher: Launcher, run: Path) -> None:
    """--json is one document of schema tfprobe.sql/1."""
    ended = launcher.tfprobe("sql", run, "--json", OPS)

    assert json.loads(ended.stdout) == {
        "schema": "tfprobe.sql/1",
        "columns": [{"name": "op_type", "type": "VARCHAR"}, {"name": "ns", "type": "HUGEINT"}],
        "rows": [["MatMul", 60_000], ["Const", 10_000], ["y", 4_000]],
    }


def test_rows_are_csv(launcher: Launcher, run: Path) -> None:
    """--csv has names, then rows."""
    ended = launcher.tfprobe("sql", run, "--csv", "select 'a\nb' as x, null as y, [1, 2] as z")

    assert list(csv.reader(io.StringIO(ended.stdout.decode()))) == [
        ["x", "y", "z"],
        ["a\nb", "", "[1, 2]"],
    ]


def test_rows_are_a_parquet_file(launcher: Launcher, run: Path) -> None:
    """--parquet writes a file that is there as a whole, and nothing beside it."""
    target = launcher.work / "ops.parquet"

    ended = launcher.tfprobe("sql", run, "--parquet", target, OPS)

    assert (ended.status, ended.lines()) == (0, [str(target)])
    assert duckdb.sql(f"from '{target}'").fetchall()[0] == ("MatMul", 60_000)
    assert list(launcher.work.iterdir()) == [target]


def test_a_query_comes_from_stdin(launcher: Launcher, run: Path) -> None:
    """`-` reads the query, so that no shell touches its quotes."""
    ended = subprocess.run(
        [launcher.program, "sql", run, "-", "--csv"],
        input=b"select 'it''s' as \"a b\"\n;\n",
        capture_output=True,
        env=environment({}),
        timeout=PATIENCE_S,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (0, b"a b\nit's\n")


def test_a_directory_of_runs_is_all_of_them(launcher: Launcher, run: Path) -> None:
    """Without a run it is the latest, of a directory all."""
    write_recorded(launcher.output / "two")
    count = "select count(*) from runs"

    both = launcher.tfprobe("sql", launcher.output, "--csv", count)
    latest = launcher.tfprobe("sql", "-o", launcher.output, "--csv", count)

    assert (both.lines()[1], latest.lines()[1]) == ("2", "1")


def test_tables_are_listed(launcher: Launcher) -> None:
    """--tables needs no run."""
    ended = launcher.tfprobe("sql", "--tables")

    assert ended.status == 0
    assert ["executions", "duration_ns", "BIGINT"] in [line.split()[:3] for line in ended.lines()]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("one", "select nope from works"), 2, "nope"),
        (("one", "copy works to '/tmp/x'"), 2, "COPY is no query"),
        (("one", "select", "1"), 2, "Quote the query"),
        ((), 2, "but got nothing"),
        (("one", "--json", "--csv", "select 1"), 2, "Only one of --json, --csv"),
        (("elsewhere", "select 1"), 3, "neither a run directory nor a run"),
        (("one", "--parquet", "/dev/null/x", "select 1"), 2, "cannot be written"),
    ],
)
def test_what_cannot_be_is_one_paragraph(
    launcher: Launcher, run: Path, arguments: tuple[str, ...], status: int, said: str
) -> None:
    """A mistake has its status and its sentence, and leaves no traceback."""
    ended = launcher.tfprobe("sql", "-o", launcher.output, *arguments)

    told = ended.stderr.decode()
    assert (ended.status, ended.stdout, told.count("\n")) == (status, b"", 1)
    assert said in told


def test_a_directory_without_runs_has_no_answer(launcher: Launcher) -> None:
    """Status 1 and what to do."""
    launcher.output.mkdir()

    ended = launcher.tfprobe("sql", "-o", launcher.output, "select 1")

    assert (ended.status, b"There is no run in" in ended.stderr) == (1, True)


def test_a_reader_that_has_enough_is_no_error(
    launcher: Launcher, run: Path, scratch: dict[str, str]
) -> None:
    """`tfprobe sql ... | head -1` says nothing more, and leaves nothing."""
    command = [launcher.program, "sql", run, "--csv", "select range as a from range(100000000000)"]
    asked = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(scratch)
    )
    assert asked.stdout is not None
    assert asked.stderr is not None

    assert asked.stdout.readline() == b"a\n"
    asked.stdout.close()

    assert (asked.wait(PATIENCE_S), asked.stderr.read()) == (1, b"")
    asked.stderr.close()
    assert os.listdir(scratch["TMPDIR"]) == []


def ended_by(
    number: signal.Signals, launcher: Launcher, run: Path, scratch: dict[str, str]
) -> tuple[int, bytes]:
    """Send a signal to a query that takes long; return the status and what stderr said."""
    query = "select range from range(100000000000) where range < 2048 or hash(range) = 1"
    asked = subprocess.Popen(
        [launcher.program, "sql", run, "--csv", query],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(scratch),
    )
    assert asked.stdout is not None
    assert asked.stdout.readline() == b"range\n"
    asked.send_signal(number)
    try:
        _, told = asked.communicate(timeout=PATIENCE_S)
    finally:
        asked.kill()
    return asked.returncode, told


def test_ctrl_c_ends_a_query(launcher: Launcher, run: Path, scratch: dict[str, str]) -> None:
    """A question that takes too long is taken back: status 130, no traceback, nothing left."""
    status, told = ended_by(signal.SIGINT, launcher, run, scratch)

    assert (status, told.strip()) == (130, b"")
    assert os.listdir(scratch["TMPDIR"]) == []


def test_a_query_that_is_terminated_leaves_nothing(
    launcher: Launcher, run: Path, scratch: dict[str, str]
) -> None:
    """SIGTERM ends it as any program, and its temporary files are gone."""
    ended = ended_by(signal.SIGTERM, launcher, run, scratch)

    assert ended == (-signal.SIGTERM, b"")
    assert os.listdir(scratch["TMPDIR"]) == []


def test_what_could_not_be_read_is_said(launcher: Launcher, run: Path) -> None:
    """The rest is answered, and stderr names the first that is missing."""
    (capture, _) = sorted(run.glob("*/*/captures/*.pb"))
    capture.write_bytes(b"\xff" * 99)

    ended = launcher.tfprobe("sql", run, "--csv", "select count(*) from executions")

    assert (ended.status, ended.lines()[1]) == (0, "3")
    assert b"1 part of the recordings could not be used" in ended.stderr


def test_no_temporary_directory_is_said(launcher: Launcher, run: Path) -> None:
    """Where nothing can be written at all, that is the message."""
    ended = launcher.tfprobe("sql", run, "select 1", env={"TMPDIR": "/proc/nowhere"})

    assert ended.status in (0, 2)
    assert b"Traceback" not in ended.stderr
