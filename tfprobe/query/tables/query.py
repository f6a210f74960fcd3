"""Run one untrusted query about runs, and return its rows as they arrive."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tfprobe.errors import NoAnswer, UsageError
from tfprobe.query.tables.catalogue import BY_NAME, HISTORY, OF_HISTORY
from tfprobe.query.tables.database import interruptibly
from tfprobe.query.tables.loader import UNREAD, TableLoader, Watch

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

T = TypeVar("T")

# The number of rows fetched at once: DuckDB's own vector size.
_ROWS_AT_ONCE = 2_048
_HINT = "`tfprobe sql --tables` lists tables and their columns."
_POSITION = re.compile(r"\n\s*LINE (?P<line>\d+): (?P<text>.*)\n(?P<before> *)\^", re.DOTALL)
# DuckDB's message if a signal arrived while it worked.
_INTERRUPTED = "Query interrupted"


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The columns of a result with their types, and its rows in batches, valid until tables close.

    Any: a value is what DuckDB makes of a cell.
    """

    columns: tuple[tuple[str, str], ...]
    batches: Iterator[list[tuple[Any, ...]]]


def ask(tables: TableLoader, query: str, watch: Watch | None = None) -> QueryResult:
    """Read what a query uses, and begin to execute it.

    `watch(done, all)` gets the number of processes read.

    Raises UsageError if it is not a query, or uses what does not exist or is not allowed.
    """
    with _translated_errors():
        _check(tables.connection, query)
        tables.read(_touched(tables.connection, query), watch)
        return _begin(tables, query)


def write(tables: TableLoader, query: str, path: str, watch: Watch | None = None) -> None:
    """Write the result to a Parquet file, which must be in the tables' scratch directory."""

    def made() -> None:
        tables.connection.sql(query).write_parquet(path, compression="zstd")

    with _translated_errors():
        _check(tables.connection, query)
        tables.read(_touched(tables.connection, query), watch)
        _tried(tables, made)


def _touched(connection: DuckDBPyConnection, query: str) -> frozenset[str]:
    """Return the tables that a query names.

    Tables that the query defines itself do not count. Uses that cannot be seen here are handled
    when the query fails because the table has not been read.
    """
    statement = "SELECT json_serialize_sql(?::VARCHAR)"
    ((text,),) = interruptibly(
        connection, lambda: connection.execute(statement, [query]).fetchall()
    )
    try:
        parsed = json.loads(text)
    except RecursionError as exc:
        hint = "Write parts of it as WITH, one after the other."
        raise UsageError("The query is nested too deeply to be read.", hint=hint) from exc
    named, made = set(_named(parsed)), set(_made(parsed))
    if HISTORY.name in named - made:
        named |= set(OF_HISTORY)
    return frozenset(named - made).intersection(BY_NAME)


# Any, here and below: a JSON document.
def _named(parsed: Any) -> Iterator[str]:
    """Yield every table name in a parsed query."""
    for each in _objects(parsed):
        if isinstance(each.get("table_name"), str):
            yield each["table_name"].lower()


def _made(parsed: Any) -> Iterator[str]:
    """Yield the names that a query defines using WITH."""
    for each in _objects(parsed):
        if isinstance(each.get("cte_map"), dict):
            yield from (str(entry.get("key")).lower() for entry in each["cte_map"].get("map", ()))


def _objects(parsed: Any) -> Iterator[dict[str, Any]]:
    waiting = [parsed]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            # DESCRIBE needs only the columns of a table, which need no reading.
            if each.get("type") == "SHOW_REF" and each.get("show_type") != "SUMMARY":
                continue
            yield each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def _begin(tables: TableLoader, query: str) -> QueryResult:
    """Execute a query, and fetch its first rows."""

    def begun() -> QueryResult:
        result = tables.connection.execute(query)
        first = result.fetchmany(_ROWS_AT_ONCE)
        columns = tuple((column[0], str(column[1])) for column in result.description or ())
        return QueryResult(columns, _batches(tables.connection, result, first))

    return _tried(tables, begun)


def _tried(tables: TableLoader, attempt: Callable[[], T]) -> T:
    """Return the result of an attempt; read missing tables or rewrite damaged files first."""
    import duckdb

    may_be_damaged = True
    while True:
        try:
            return interruptibly(tables.connection, attempt)
        except duckdb.Error as exc:
            if _read_unread(tables, exc):
                continue
            # Errors in the query are raised at once; anything else may come from a damaged file.
            may_be_damaged = may_be_damaged and not isinstance(exc, _askers_own())
            if not may_be_damaged or not tables.read_damaged_again():
                raise
            may_be_damaged = False


def _askers_own() -> tuple[type[Exception], ...]:
    import duckdb

    return (
        duckdb.BinderException,
        duckdb.CatalogException,
        duckdb.ConversionException,
        duckdb.InterruptException,
        duckdb.OutOfMemoryException,
        duckdb.OutOfRangeException,
        duckdb.ParserException,
        duckdb.PermissionException,
    )


def _read_unread(tables: TableLoader, exc: Exception) -> bool:
    """Read the table that a query turned out to use; return whether there was one."""
    _, found, table = str(exc).rpartition(UNREAD)
    if not found or table.strip() not in BY_NAME:
        return False
    tables.read([table.strip()])
    return True


def _batches(
    connection: DuckDBPyConnection, result: DuckDBPyConnection, first: list[tuple[Any, ...]]
) -> Iterator[list[tuple[Any, ...]]]:
    rows = first
    while rows:
        yield rows
        with _translated_errors():
            rows = interruptibly(connection, lambda: result.fetchmany(_ROWS_AT_ONCE))


def _check(connection: DuckDBPyConnection, query: str) -> None:
    """Raise UsageError for anything but one query."""
    import duckdb

    if not _is_utf8(query):
        raise UsageError("The query holds what is no UTF-8.")
    statements = interruptibly(connection, lambda: connection.extract_statements(query))
    if len(statements) != 1:
        count = f"{len(statements)} statements" if statements else "none"
        raise UsageError(f"Expected one query, got {count}.", hint=_HINT)
    (statement,) = statements
    if statement.type != duckdb.StatementType.SELECT:
        kind = statement.type.name
        hint = "Ask with SELECT, FROM, WITH, DESCRIBE or SUMMARIZE."
        raise UsageError(f"Recordings are only read, and {kind} is no query.", hint=hint)
    # Binds the query, so that errors are raised before anything is read.
    interruptibly(connection, lambda: connection.sql(query))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Turn DuckDB's errors into one paragraph, and an interrupt into KeyboardInterrupt."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as exc:
        raise NoAnswer(
            "The query needs more memory than the 1 GB it may take, or more disk than there is.",
            hint="Ask for fewer rows or groups at once.",
        ) from exc
    except duckdb.InterruptException as exc:
        raise KeyboardInterrupt from exc
    except duckdb.Error as exc:
        raise UsageError(_paragraph(str(exc)), hint=_HINT) from exc
    except RuntimeError as exc:
        if _INTERRUPTED in str(exc):
            raise KeyboardInterrupt from exc
        raise


def _paragraph(text: str) -> str:
    """Return DuckDB's message as one paragraph, with the position as numbers."""
    where = ""
    position = _POSITION.search(text)
    if position is not None:
        at = len(position["before"]) - len(f"LINE {position['line']}: ")
        near = position["text"][max(at, 0) :].split("\n")[0][:40].strip()
        where = (
            f" (line {position['line']}, at `{near}`)" if near else f" (line {position['line']})"
        )
        text = text[: position.start()]
    message = " ".join(text.split()).rstrip(".")
    return f"The query cannot be answered: {message}{where}."
