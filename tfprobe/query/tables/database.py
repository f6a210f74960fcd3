"""Open DuckDB: with one thread for writing, or restricted for untrusted queries. Knows no table."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from tfprobe.errors import Missing, UsageError
from tfprobe.query.tables.run_tables import TableShape

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


# Half the memory that a report of a thousand processes may take; beyond it DuckDB spills to disk.
_MEMORY = "1GB"


@cache
def writer() -> DuckDBPyConnection:
    """Return this process's connection for writing Parquet files: opening one takes 10 ms.

    It has one thread, so that rows keep their order and workers do not compete for cores.
    """
    import duckdb

    return _silent(duckdb.connect(config={**_ALONE, "threads": 1}))


def query_connection(scratch: Path, readable: Sequence[Path]) -> DuckDBPyConnection:
    """Return a connection for untrusted queries: it reads and writes only below these directories.

    Nothing can be installed or loaded, and no setting can be changed.
    """
    import duckdb

    connection = _silent(duckdb.connect(config={**_ALONE, "memory_limit": _MEMORY}))
    try:
        _set(connection, "temp_directory", literal(str(scratch)))
        _set(
            connection,
            "allowed_directories",
            _list([str(path) for path in (scratch, *readable) if can_name(path)]),
        )
        _set(connection, "enable_external_access", "false")
        _set(connection, "lock_configuration", "true")
    except (duckdb.Error, RuntimeError) as exc:
        connection.close()
        raise UsageError(f"DuckDB cannot be set up: {exc}.") from exc
    return connection


def _silent(connection: DuckDBPyConnection) -> DuckDBPyConnection:
    """Keep DuckDB from drawing a progress bar over our output, as it does on a terminal."""
    _set(connection, "enable_progress_bar", "false")
    return connection


def literal(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def files(paths: Iterable[Path]) -> str:
    """Return a list of files, which `can_name` accepts, as SQL."""
    return _list([str(path) for path in paths])


def can_name(path: Path) -> bool:
    """Return whether DuckDB accepts this path: it must be UTF-8 and must not be a glob pattern."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return _PATTERN.search(str(path)) is None


def name(text: str) -> str:
    """Return the name of a column or table as an SQL identifier."""
    return '"' + text.replace('"', '""') + '"'


class registered:  # noqa: N801 - used like a function, in a `with`
    """Register columns as an SQL table of this name in a `with` block; masked values are NULL."""

    def __init__(
        self, connection: DuckDBPyConnection, table: str, columns: Mapping[str, Array]
    ) -> None:
        """Register nothing yet."""
        self._connection, self._table, self._columns = connection, table, columns
        self._stored = f"{table} as stored"

    def __enter__(self) -> None:
        """Register the columns."""
        # Masks are separate columns: DuckDB before 2.0, which is the last for Python 3.10, reads
        # masked entries as values.
        stored = {each: np.ma.getdata(column) for each, column in self._columns.items()}
        masks = {each: np.ma.getmask(column) for each, column in self._columns.items()}
        lost = {f"{each} lost": mask for each, mask in masks.items() if mask is not np.ma.nomask}
        self._connection.register(self._stored, stored | lost)
        shown = ", ".join(_shown(each, is_masked=f"{each} lost" in lost) for each in stored)
        self._connection.execute(
            f"CREATE TEMP VIEW {name(self._table)} AS SELECT {shown} FROM {name(self._stored)}"
        )

    def __exit__(self, *_: object) -> None:
        """Unregister the columns."""
        self._connection.execute(f"DROP VIEW {name(self._table)}")
        self._connection.unregister(self._stored)


def _shown(column: str, *, is_masked: bool) -> str:
    if not is_masked:
        return name(column)
    lost = name(f"{column} lost")
    return f"CASE WHEN {lost} THEN NULL ELSE {name(column)} END AS {name(column)}"


def _list(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(literal, texts))}]"


def _set(connection: DuckDBPyConnection, setting: str, value: str) -> None:
    connection.execute(f"SET {setting} = {value}")


# The characters that make a path a glob pattern in DuckDB.
_PATTERN = re.compile(r"[*?\[]")
# No extension is downloaded, and no Python variable of ours is taken for a table.
_ALONE: Mapping[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}


# Any: an array of whatever a column holds; text columns hold objects.
Array = npt.NDArray[Any]
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def columns(shape: TableShape, rows: Sequence[Sequence[Any]]) -> Mapping[str, Array]:
    """Return rows as columns. Any: a value is what its column holds, None or Missing."""
    by_column = zip(*rows, strict=True) if rows else ((),) * len(shape.columns)
    return {
        column.name: _MAKERS[column.type](values)
        for column, values in zip(shape.columns, by_column, strict=True)
    }


def plain(text: str) -> str:
    """Return text that can be encoded as UTF-8: undecodable bytes in names are escaped."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def text_cells(values: Sequence[str | None]) -> Array:
    """Return texts as objects."""
    return _objects([None if value is None else plain(value) for value in values])


def _is_unknown(value: object) -> bool:
    return value is None or isinstance(value, Missing)


def _whole(values: Sequence[Any]) -> Array:
    # A damaged line may hold an integer of any size, which no clock or counter produces.
    unknown = [_is_unknown(each) or not _SMALLEST <= each <= _LARGEST for each in values]
    known = [0 if lost else value for value, lost in zip(values, unknown, strict=True)]
    return np.ma.masked_array(np.array(known, dtype=np.int64), mask=unknown)


def _real(values: Sequence[Any]) -> Array:
    unknown = [_is_unknown(each) for each in values]
    known = [0.0 if lost else value for value, lost in zip(values, unknown, strict=True)]
    return np.ma.masked_array(np.array(known, dtype=np.float64), mask=unknown)


def _truth(values: Sequence[Any]) -> Array:
    unknown = [_is_unknown(each) for each in values]
    known = [not lost and bool(value) for value, lost in zip(values, unknown, strict=True)]
    return np.ma.masked_array(np.array(known, dtype=np.bool_), mask=unknown)


def _text(values: Sequence[Any]) -> Array:
    return text_cells([None if _is_unknown(value) else str(value) for value in values])


def _lists(values: Sequence[Any]) -> Array:
    return _objects(
        [None if _is_unknown(value) else [plain(one) for one in value] for value in values]
    )


def _objects(values: Sequence[Any]) -> Array:
    # np.array would turn lists of equal length into a second dimension.
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


_MAKERS = {
    "BIGINT": _whole,
    "BOOLEAN": _truth,
    "DOUBLE": _real,
    "VARCHAR": _text,
    "VARCHAR[]": _lists,
}


T = TypeVar("T")

# The interval between two interrupt requests.
_AGAIN_S = 0.05
# How long a user waits after Ctrl-C: DuckDB does not check for interrupts while it parses and
# plans, which can take minutes for a malicious query.
_PATIENCE_S = 2.0


class StillWorking(KeyboardInterrupt):
    """DuckDB was interrupted but continues. Only the end of this process can stop it."""


def interruptibly(connection: DuckDBPyConnection, work: Callable[[], T]) -> T:
    """Return the result of work that may take long; interrupting this thread also stops the work.

    The work runs in its own thread: DuckDB does not check for signals while it works, and Python
    runs signal handlers only in the main thread, which waits here.

    Raises StillWorking if the work cannot be stopped.
    """
    working: Future[T] = Future()
    try:
        _start(work, working)
        return working.result()
    except BaseException as exc:
        # Only work that has not started can be cancelled: a signal may come while the thread
        # starts.
        if not working.cancel() and not _stopped(connection, working):
            raise StillWorking from exc
        raise


def close(connection: DuckDBPyConnection) -> None:
    """Close a connection and stop its work, such as a query whose rows were not all fetched.

    Raises StillWorking if that cannot be stopped.
    """
    # Closing would wait for it forever.
    working: Future[None] = Future()
    _start(connection.close, working)
    if not _stopped(connection, working):
        raise StillWorking
    working.result()


def _start(work: Callable[[], T], working: Future[T]) -> None:
    def run() -> None:
        if not working.set_running_or_notify_cancel():
            return
        try:
            working.set_result(work())
        except BaseException as exc:
            working.set_exception(exc)

    threading.Thread(target=run, name="tfprobe-query", daemon=True).start()


def _stopped(connection: DuckDBPyConnection, working: Future[T]) -> bool:
    """Interrupt repeatedly: work that has not begun yet forgets earlier interrupts."""
    for _ in range(round(_PATIENCE_S / _AGAIN_S)):
        if wait([working], timeout=_AGAIN_S).done:
            return True
        _ask_to_stop(connection)
    return False


def _ask_to_stop(connection: DuckDBPyConnection) -> None:
    import duckdb

    try:
        connection.interrupt()
    except duckdb.Error:
        pass  # already closed, which is all that was wanted
