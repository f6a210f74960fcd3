"""A query reads recordings and nothing else; what it cannot is said in one paragraph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.asked_tables import asked, opened, write_recorded
from tests.support.rundir import UNIX_NS
from tfprobe.errors import UsageError
from tfprobe.profile.reader.run_reader import load
from tfprobe.query.tables.query import ask
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of one process."""
    return write_recorded(tmp_path / "run")


FORBIDDEN = (
    "select * from read_csv('/etc/passwd')",
    "select * from '/etc/passwd'",
    "select * from read_text('/etc/hostname')",
    "select * from glob('/etc/*')",
    "select * from read_parquet('http://127.0.0.1:9/x.parquet')",
    "copy (select 1) to '/tmp/tfprobe-never'",
    "attach '/tmp/tfprobe-never.db'",
    "install httpfs",
    "load httpfs",
    "set enable_external_access = true",
    "reset lock_configuration",
    "pragma enable_profiling",
    "create table mine (a int)",
    "drop view executions",
    "insert into works select * from works",
    "delete from works",
    "call pragma_version()",
    "explain analyze copy (select 1) to '/tmp/tfprobe-never'",
    "select 1; select 2",
    "begin",
    "export database '/tmp/tfprobe-never'",
    "checkpoint",
    "use memory",
    "select getenv('HOME')",
    "select * from tables",  # a variable of the code that asks
)


DEEP = (
    f"select {'not ' * 600}true",
    f"select {'abs(' * 600}1{')' * 600}",
    f"select {'(' * 5_000}1{')' * 5_000}",
    f"{'select * from (' * 600}select 1{')' * 600}",
)


@pytest.mark.parametrize("query", DEEP)
def test_what_no_person_nests_is_refused(query: str, run: Path) -> None:
    """Neither DuckDB nor Python goes down into it without end."""
    with opened(run) as tables, pytest.raises(UsageError) as refused:
        list(ask(tables, query).batches)

    assert "\n" not in str(refused.value)


def test_moments_are_those_of_python(run: Path) -> None:
    """What SQL makes of the nanoseconds of a run is a time of the day, in any of its types."""
    columns, rows = asked("select to_timestamp(started_ns // 1000000000) as at from runs", run)

    assert columns == [("at", "TIMESTAMP WITH TIME ZONE")]
    assert [row[0].timestamp() for row in rows] == [UNIX_NS // 10**9]


@pytest.mark.parametrize("query", FORBIDDEN)
def test_nothing_but_tables_can_be_reached(query: str, run: Path) -> None:
    """Neither files nor the network, neither settings nor what somebody would change."""
    with opened(run) as tables, pytest.raises(UsageError) as refused:
        list(ask(tables, query).batches)

    assert "\n" not in str(refused.value)
    assert not list(Path("/tmp").glob("tfprobe-never*"))


def test_settings_cannot_be_changed_by_a_function(run: Path) -> None:
    """What the database was opened with stays, whatever is asked before."""
    query = "select current_setting('enable_external_access'), current_setting('memory_limit')"

    assert asked(query, run)[1] == [(False, "953.6 MiB")]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select nope from works", 'column "nope" not found'),
        ("select * from exections", 'Did you mean "executions"'),
        ("select 1,\n2 fro m x", "(line 2, at `m x`)"),
        ("select (", "The query cannot be answered: Parser Error"),
        ("select 'a", "unterminated"),
        ("", "Expected one query, got none"),
        ("  -- nothing\n", "Expected one query, got none"),
        ("select 1; select 2; select 3", "Expected one query, got 3 statements"),
        ("select 'a'::int", "Could not convert"),
        ("select '\udcff'", "UTF-8"),
        ("select * from works where " + "(" * 300, "The query cannot be answered"),
    ],
)
def test_what_is_no_query_is_told_with_its_place(query: str, said: str, run: Path) -> None:
    """One paragraph, with where it went wrong and what there is."""
    with opened(run) as tables, pytest.raises(UsageError) as refused:
        list(ask(tables, query).batches)

    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "query",
    [
        "from executions",
        'select * from "Executions"',
        "select * from main.executions",
        "select * from memory.main.executions",
        "select * from query_table('executions')",
        "select * from query('from executions')",
        "select e.* from (select * from executions) e",
        "select * from executions where exists (from works)",
        "with a as (from executions) from a",
        "with executions as (from main.executions) from executions",
        "select * from executions;",
        "select * from executions -- all",
    ],
)
def test_however_a_table_is_named_it_is_read(query: str, run: Path) -> None:
    """No way to name a table gives an empty one."""
    assert len(asked(query, run)[1]) == 6


def test_a_join_reads_all_of_its_tables(run: Path) -> None:
    """Tables join by their keys."""
    query = (
        "select count(*) from executions join captures using (run, process, capture) "
        "join works on works.process = executions.process"
    )

    assert asked(query, run)[1] == [(6,)]


def test_ten_thousand_works_are_rows(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many works are as exact as one."""
    profile = load(RunFolder(run), this_machine())
    (loop,) = profile.loops
    loops = tuple(replace(loop, index=at, name=f"w{at}") for at in range(10_000))
    monkeypatch.setattr(
        "tfprobe.query.tables.loader.load_shard", lambda *_, **__: replace(profile, loops=loops)
    )

    _, rows = asked("select count(*), count(distinct name), sum(duration_sum_ns) from works", run)

    assert rows == [(10_000, 10_000, 10_000 * 20_000_000)]


def test_a_large_result_comes_in_pieces(run: Path) -> None:
    """The first rows are there before the last are made."""
    with opened(run) as tables:
        batches = ask(tables, "select * from range(1000000000000)").batches

        assert next(batches)[:2] == [(0,), (1,)]
        assert next(batches)[0] == (2_048,)
