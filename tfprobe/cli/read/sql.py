"""`tfprobe sql`: query runs in SQL."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfprobe.cli import common
from tfprobe.cli.common import Workers, workers_options
from tfprobe.cli.tables import opened, warn
from tfprobe.errors import UsageError
from tfprobe.launch import environ
from tfprobe.printable import printable
from tfprobe.runs import safe_files

if TYPE_CHECKING:
    from tfprobe.query.tables.loader import TableLoader
    from tfprobe.query.tables.query import QueryResult

_STDIN = "-"
_EXAMPLE = '"select op_type, sum(duration_ns) from executions group by all"'


@dataclass(frozen=True, slots=True)
class _Form:
    """How the rows are to leave."""

    as_json: bool
    as_csv: bool
    parquet: str | None


@click.command("sql")
@click.argument("arguments", nargs=-1, metavar="[RUN] QUERY")
@click.option("--tables", "lists_tables", is_flag=True, help="List all tables and their columns.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header line.")
@click.option("--parquet", metavar="FILE", help="Write a Parquet file instead.")
@workers_options
@common.output_option
@common.json_option
def command(
    arguments: tuple[str, ...],
    output: str | None,
    lists_tables: bool,
    as_json: bool,
    as_csv: bool,
    parquet: str | None,
    workers: int | None,
    dask: str | None,
) -> int:
    """Query runs in SQL.

    RUN is a directory, a run id, or `latest`, the default; or a directory of runs, all of which
    are then in the tables. QUERY is in DuckDB's SQL; `-` reads it from stdin.

    \b
    tfprobe sql "select op_type, sum(duration_ns) from executions group by all"
    tfprobe sql tfprobe-runs "select run, state, steps from runs"

    Only what the query needs is read. Decoded captures are cached as Parquet files in the run's
    derived/ directory.
    """
    form = _Form(as_json, as_csv, parquet)
    if sum((as_json, as_csv, parquet is not None)) > 1:
        raise UsageError("Only one of --json, --csv and --parquet can be used.")
    if lists_tables:
        return _list_tables(arguments, form)
    run, query = _run_and_query(arguments)
    with opened(common.chosen_runs(run, output), Workers(workers, dask)) as tables:
        return _write(tables, query, parquet) if parquet else _show(tables, query, form)


def _run_and_query(arguments: tuple[str, ...]) -> tuple[str, str]:
    if not 1 <= len(arguments) <= 2:
        given = f"{len(arguments)} arguments" if arguments else "nothing"
        raise UsageError(
            f"Expected a query, or a run and a query, but got {given}.",
            hint=f"Quote the query, as in `tfprobe sql {_EXAMPLE}`.",
        )
    *runs, query = arguments
    return runs[0] if runs else common.default_run(), _from_stdin() if query == _STDIN else query


def _from_stdin() -> str:
    try:
        return sys.stdin.read()
    except (OSError, UnicodeDecodeError, AttributeError) as exc:
        raise UsageError(f"The query cannot be read from stdin: {exc}.") from exc


def _show(tables: TableLoader, query: str, form: _Form) -> int:
    from tfprobe.query.tables.query import ask

    with common.progress("Reading recordings") as watch:
        answer = ask(tables, query, watch)
    _show_pieces(answer, form)
    warn(tables)
    return 0


def _show_pieces(answer: QueryResult, form: _Form) -> None:
    show = common.show if form.as_json or form.as_csv else common.show_page
    for piece in _pieces(answer, form):
        show(piece)


def _pieces(answer: QueryResult, form: _Form) -> Iterable[str]:
    from tfprobe.export import rows
    from tfprobe.report.format.query_rows import render_rows

    if form.as_json:
        return rows.as_json(answer.columns, answer.batches)
    if form.as_csv:
        return rows.as_csv(answer.columns, answer.batches)
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    width = common.page_width() if is_terminal else common.FILE_WIDTH
    return render_rows(answer.columns, answer.batches, width=width, colour=common.page_colour())


def _write(tables: TableLoader, query: str, target: str) -> int:
    """Write the whole answer to a file, or no file."""
    from tfprobe.query.tables.query import write

    made = Path(tables.scratch) / "answer.parquet"
    with common.progress("Reading recordings") as watch:
        write(tables, query, str(made), watch)
    try:
        _move(made, environ.absolute(Path(target)).resolve())
    except (OSError, ValueError) as exc:  # ValueError: a path that no file can have
        raise UsageError(f"{target} cannot be written: {exc}.") from exc
    common.show(f"{printable(target)}\n")
    warn(tables)
    return 0


def _move(made: Path, path: Path) -> None:
    """Put a file in its place at once, which may be in another file system."""
    with safe_files.replacing(path) as file, made.open("rb") as source:
        shutil.copyfileobj(source, file)


def _list_tables(arguments: tuple[str, ...], form: _Form) -> int:
    from tfprobe.query.tables.catalogue import SHAPES, VIEWS
    from tfprobe.query.tables.query import QueryResult

    if len(arguments) > 1 or form.parquet is not None:
        raise UsageError("--tables cannot be combined with a query or with --parquet.")
    columns = (("table", "VARCHAR"), ("column", "VARCHAR"), ("type", "VARCHAR"), ("is", "VARCHAR"))
    rows = [
        (shape.name, column.name, column.type, column.description)
        for shape in (*SHAPES, *VIEWS)
        for column in shape.columns
    ]
    _show_pieces(QueryResult(columns, iter([rows])), form)
    return 0
