"""Open DuckDB as we need it: one thread to write, or to be asked by a stranger. Knows no table."""

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


# Half of what a report of a thousand processes may take; more than that goes to disk.
_MEMORY = "1GB"


@cache
def writer() -> DuckDBPyConnection:
    """Return this process's connection for writing Parquet files: opening one takes 10 ms.

    One thread, so that rows stay in their order, and workers do not take each other's cores.
    """
    import duckdb

    return _silent(duckdb.connect(config={**_ALONE, "threads": 1}))


def query_connection(scratch: Path, readable: Sequence[Path]) -> DuckDBPyConnection:
    """Return a connection that anybody may ask: it reads and writes below these directories alone.

    Nothing can be installed or loaded, and no setting be changed.
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
    """Keep DuckDB from drawing a progress bar over what we print, as it does on a terminal."""
    _set(connection, "enable_progress_bar", "false")
    return connection


def literal(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def files(paths: Iterable[Path]) -> str:
    """Return a list of files that can be named as SQL writes it."""
    return _list([str(path) for path in paths])


def can_name(path: Path) -> bool:
    """Say whether DuckDB can be told of this path: it takes UTF-8 alone, and some for patterns."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return _PATTERN.search(str(path)) is None


def name(text: str) -> str:
    """Return a name of a column or table as SQL writes it."""
    return '"' + text.replace('"', '""') + '"'


class registered:  # noqa: N801 - used like a function, in a `with`
    """Let SQL see columns as a table of this name for a while; what is masked is NULL there."""

    def __init__(
        self, connection: DuckDBPyConnection, table: str, columns: Mapping[str, Array]
    ) -> None:
        """Show nothing yet."""
        self._connection, self._table, self._columns = connection, table, columns
        self._stored = f"{table} as stored"

    def __enter__(self) -> None:
        """Show the columns."""
        # Masks stand beside their columns: DuckDB before 2.0, which is the last for Python 3.10,
        # takes what is under a mask for a value.
        stored = {each: np.ma.getdata(column) for each, column in self._columns.items()}
        masks = {each: np.ma.getmask(column) for each, column in self._columns.items()}
        lost = {f"{each} lost": mask for each, mask in masks.items() if mask is not np.ma.nomask}
        self._connection.register(self._stored, stored | lost)
        shown = ", ".join(_shown(each, is_masked=f"{each} lost" in lost) for each in stored)
        self._connection.execute(
            f"CREATE TEMP VIEW {name(self._table)} AS SELECT {shown} FROM {name(self._stored)}"
        )

    def __exit__(self, *_: object) -> None:
        """Let go of the columns."""
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


# What makes a pattern of a path, to DuckDB.
_PATTERN = re.compile(r"[*?\[]")
# No extension comes from anywhere, and no variable of ours is taken for a table.
_ALONE: Mapping[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}


# Any: an array of whatever a column holds; those of text hold objects.
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
    """Return text that UTF-8 can hold: what names bytes that were none is told as an escape."""
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
    # A damaged line may hold a number of any length, which no clock or counter has.
    unknown = [_is_unknown(each) or not _SMALLEST <= each <= _LARGEST for each in values]
    known = [0 if lost else value for value, lost in zip(values, unknown, strict=True)]
    return np.ma.masked_array(np.array(known, dtype=np.int64), mask=unknown)


def _real(values: Sequence[Any]) -> Array:
    unknown = [_is_unknown(each) for each in values]
    known = [0.0 if lost else value for value, lost in zip(values, unknown, strict=True)]
    return np.ma.masked_array(np.array(known, dtype=np.float64), mask=unknown)


def _truth(values: Sequence[Any]) -> Array:
    return np.array(values, dtype=np.bool_)


def _text(values: Sequence[Any]) -> Array:
    return text_cells([None if _is_unknown(value) else str(value) for value in values])


def _lists(values: Sequence[Any]) -> Array:
    return _objects(
        [None if _is_unknown(value) else [plain(one) for one in value] for value in values]
    )


def _objects(values: Sequence[Any]) -> Array:
    # np.array would take lists of one length for a second dimension.
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

# From one request to stop to the next.
_AGAIN_S = 0.05
# So long somebody who has pressed Ctrl-C is let wait: DuckDB does not look for requests while it
# parses and plans, which takes minutes where somebody wants it to.
_PATIENCE_S = 2.0


class StillWorking(KeyboardInterrupt):
    """DuckDB was asked to stop and goes on. Nothing ends it but the end of this process."""


def interruptibly(connection: DuckDBPyConnection, work: Callable[[], T]) -> T:
    """Return what work gives that may take long; what ends this thread's waiting ends the work.

    In a thread of its own: while DuckDB works it does not look whether a signal has come, and
    Python's handlers run in the main thread alone, which waits for it here.

    Raises StillWorking where the work cannot be ended.
    """
    working: Future[T] = Future()
    try:
        _start(work, working)
        return working.result()
    except BaseException as exc:
        # Cancelled is what has not begun: a signal may come while the thread starts.
        if not working.cancel() and not _stopped(connection, working):
            raise StillWorking from exc
        raise


def close(connection: DuckDBPyConnection) -> None:
    """Close a connection, and end what it still works on: of a query whose rows were not all taken.

    Raises StillWorking where that cannot be ended.
    """
    # Closing waits for it, and would wait for ever.
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
    """Ask for a stop, again and again: work may not have begun, and forgets what came before."""
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
        pass  # closed by now, which is all that was wanted
