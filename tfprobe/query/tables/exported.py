"""Write the tables of runs as Parquet files that anything reads."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from tfprobe.query.shards import Shard
from tfprobe.query.tables.catalogue import BY_NAME, SHAPES
from tfprobe.query.tables.database import literal
from tfprobe.query.tables.facts import Place
from tfprobe.query.tables.filled import Tables
from tfprobe.runs import safe_files
from tfprobe.runs.layout import children

# Tables with many rows of each process: a file a process. Of the others there is one file.
LARGE = ("allocations", "calls", "executions", "spans", "steps")
# Version 1 of the format, which every reader has.
_OPTIONS = "FORMAT parquet, PARQUET_VERSION v1, COMPRESSION zstd"
_CHUNK_BYTES = 1 << 20
_NO_PROCESS = "none.parquet"
_ODD = re.compile(r"[^\w.-]", re.ASCII)
# What this may have written before: `_NO_PROCESS`, or by NUMBER-HOST-PID-START of a process.
_OURS = re.compile(r"(\d{4,}-.+-\d+-\d{9,}|none)\.parquet", re.DOTALL)


def export(tables: Tables, target: Path, watch: Callable[[int, int], None] | None = None) -> None:
    """Write all tables below a directory; each file is there as a whole or not at all.

    No link in it is followed.

    What an export before has left of large tables is removed: who reads `executions/*.parquet`
    would count it, too.

    Raises OSError when something cannot be written.
    """
    target.mkdir(parents=True, exist_ok=True)
    _remove_others(tables, target)
    small = [shape.name for shape in SHAPES if shape.name not in LARGE]
    tables.read(small, watch)
    for table in small:
        _write(tables, table, target, f"{table}.parquet")
    for done, (shard, place) in enumerate(tables.shards.items(), 1):
        _export_process(tables, shard, place, target)
        if watch is not None:
            watch(done, len(tables.shards))
    if not tables.shards:
        tables.read(LARGE)
        for table in LARGE:
            _write(tables, table, target / table, _NO_PROCESS)


def _remove_others(tables: Tables, target: Path) -> None:
    """Remove files of large tables that have names of ours and are not to be written now."""
    new = {_file_name(shard, place) for shard, place in tables.shards.items()} or {_NO_PROCESS}
    for directory in (target / table for table in LARGE):
        for path in children(directory) if safe_files.is_directory(target, directory) else ():
            if _OURS.fullmatch(path.name) and path.name not in new and not os.path.isdir(path):
                safe_files.unlink(target, path)


def _export_process(tables: Tables, shard: Shard, place: Place, target: Path) -> None:
    alone = tables.only(shard)
    try:
        alone.read(LARGE)
        for table in LARGE:
            _write(alone, table, target / table, _file_name(shard, place))
    finally:
        alone.close()


def _file_name(shard: Shard, place: Place) -> str:
    """Return a name that is another for each process, and leads nowhere."""
    return _ODD.sub("_", f"{place.process:04}-{shard.host}-{shard.folder}") + ".parquet"


def _write(tables: Tables, table: str, directory: Path, name: str) -> None:
    columns = ", ".join(column.name for column in BY_NAME[table].columns)
    made = tables.scratch / "table.parquet"
    query = f"SELECT {columns} FROM {table}"
    tables.connection.execute(f"COPY ({query}) TO {literal(str(made))} ({_OPTIONS})")
    root = directory.parent if directory.name == table else directory
    with (
        safe_files.directory(root, directory, make=True, private=False) as place,
        safe_files.replacing(place / name) as file,
        made.open("rb") as source,
    ):
        shutil.copyfileobj(source, file, _CHUNK_BYTES)
    made.unlink()
