"""Open DuckDB as we need it: one thread to write, or to be asked by a stranger. Knows no table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tfprobe.errors import UsageError
from tfprobe.query.tables.cells import Array

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


def asked(scratch: Path, readable: Sequence[Path]) -> DuckDBPyConnection:
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
        self._held = f"{table} as held"

    def __enter__(self) -> None:
        """Show the columns."""
        # Masks stand beside their columns: DuckDB before 2.0, which is the last for Python 3.10,
        # takes what is under a mask for a value.
        held = {each: np.ma.getdata(column) for each, column in self._columns.items()}
        masks = {each: np.ma.getmask(column) for each, column in self._columns.items()}
        lost = {f"{each} lost": mask for each, mask in masks.items() if mask is not np.ma.nomask}
        self._connection.register(self._held, held | lost)
        shown = ", ".join(_shown(each, is_masked=f"{each} lost" in lost) for each in held)
        self._connection.execute(
            f"CREATE TEMP VIEW {name(self._table)} AS SELECT {shown} FROM {name(self._held)}"
        )

    def __exit__(self, *_: object) -> None:
        """Let go of the columns."""
        self._connection.execute(f"DROP VIEW {name(self._table)}")
        self._connection.unregister(self._held)


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
