"""Write the captures of one process as Parquet files. Reads no recording."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Executions, Place, SpanKind
from tfprobe.profile.profile import Capture, Profile
from tfprobe.profile.tables import Table
from tfprobe.query.tables.catalogue import BY_NAME
from tfprobe.query.tables.database import (
    Array,
    literal,
    name,
    plain,
    registered,
    text_cells,
    writer,
)
from tfprobe.query.tables.run_tables import PROCESS_KEY, TableColumn, TableShape
from tfprobe.runs.layout import KINETO_SUFFIXES, TEMPORARY_PREFIX, XSPACE_SUFFIX

T = TypeVar("T", int, str)

SCHEMA = "tfprobe.tables/1"
# Besides the executions, whose file always exists.
SIDE_TABLES = ("allocations", "spans")
# The key of the file's description in its key-value metadata.
_KEY = "tfprobe"
_OF_CAPTURE = BY_NAME["captures"].columns[len(PROCESS_KEY) :]
_OF_PROGRAM = BY_NAME["programs"].columns[len(PROCESS_KEY) :]
# Readers load one row group at a time; 120,000 rows are 10 MB.
_ROWS_AT_ONCE = 122_880
# Numbers that stand for "not known", by column.
_UNKNOWN: Mapping[str, Mapping[str, int]] = {
    "executions": {"correlation": 0, "bytes": -1, "output_bytes": -1},
    "spans": {"identity": 0, "parent": 0, "correlation": 0, "bytes": 0},
    "allocations": dict.fromkeys(
        ("in_use_bytes", "free_bytes", "peak_bytes", "largest_free_bytes"), -1
    )
    | {"address": 0},
}
_NAMES: Mapping[tuple[str, str], Sequence[str]] = {
    ("executions", "place"): [place.name.lower() for place in Place],
    ("spans", "kind"): [kind.name.lower() for kind in SpanKind],
}


@dataclass(frozen=True, slots=True)
class CaptureFiles:
    """The description of a process's file: row counts, captures, and problems."""

    fingerprint: str
    host: str
    rank: int | None
    counts: Mapping[str, int]
    captures: tuple[tuple[Any, ...], ...]
    problems: tuple[tuple[str, str], ...]
    programs: tuple[tuple[Any, ...], ...] = ()


def write(
    profile: Profile,
    fingerprint: str,
    files: Mapping[str, Path],
    programs: tuple[tuple[Any, ...], ...] = (),
) -> CaptureFiles:
    """Write the tables of a process, each to its file; skip empty ones other than executions.

    `programs` are rows of that table, which the description has, as it has those of `captures`.

    Their directories must exist. Raises OSError if one cannot be written.
    """
    rows: Mapping[str, Table] = {
        "executions": _with_unknown_bytes(profile),
        "spans": profile.spans,
        "allocations": profile.allocations,
    }
    counts = {table: len(each) for table, each in rows.items()}
    contents = replace(_contents(profile, fingerprint, counts), programs=programs)
    # The executions last: if they exist, so do the others.
    for table in (*SIDE_TABLES, "executions"):
        if len(rows[table]) or table == "executions":
            _write_table(BY_NAME[table], rows[table], profile, contents, files[table])
    return contents


def _write_table(
    shape: TableShape, rows: Table, profile: Profile, contents: CaptureFiles, target: Path
) -> None:
    connection = writer()
    values = {column: getattr(rows, column) for column in rows.DTYPES}
    values |= _steps(rows, profile)
    strings = text_cells([text or None for text in rows.strings.values])
    places = np.arange(len(strings), dtype=np.int32)
    selected, joined = _query(shape, rows, profile)
    unfinished = target.with_name(f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}")
    try:
        with (
            registered(connection, "rows", values),
            registered(connection, "texts", {"place": places, "text": strings}),
        ):
            _copy(f"SELECT {selected} FROM rows AS r {joined}", unfinished, contents)
        unfinished.chmod(0o600)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _copy(query: str, path: Path, contents: CaptureFiles) -> None:
    import duckdb

    options = (
        "FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, "
        f"ROW_GROUP_SIZE {_ROWS_AT_ONCE}, KV_METADATA {{{_KEY}: {literal(_as_json(contents))}}}"
    )
    try:
        writer().execute(f"COPY ({query}) TO {literal(str(path))} ({options})")
    except (duckdb.IOException, UnicodeEncodeError) as exc:
        raise OSError(f"{path} cannot be written: {exc}") from exc


def _query(shape: TableShape, rows: Table, profile: Profile) -> tuple[str, str]:
    """Return what to select, and what to join with it."""
    selected: list[str] = []
    joined: list[str] = []
    (process,) = profile.processes
    constants = {
        "host": literal(plain(process.host)),
        "rank": "NULL" if process.rank is None else str(process.rank),
        **{column: f"r.{column}" for column in ("work", "step", "capture")},
    }
    for column in shape.columns:
        if column.name in ("run", "process"):
            continue  # a run may be moved, and the number of its processes may grow
        if column.name in constants:
            expression = constants[column.name]
        elif column.type == "VARCHAR" and (shape.name, column.name) not in _NAMES:
            expression = _text(column, rows, joined)
        else:
            expression = _number(shape, column, rows)
        selected.append(f"CAST({expression} AS {column.type}) AS {name(column.name)}")
    return ", ".join(selected), " ".join(joined)


def _text(column: TableColumn, rows: Table, joined: list[str]) -> str:
    """Return the text of a column of positions; one that is equal in all rows needs no join."""
    positions = getattr(rows, column.name)
    if len(positions) and (positions == positions[0]).all():
        return f"(SELECT text FROM texts WHERE place = {positions[0]})"
    table = name(f"{column.name} texts")
    joined.append(f"JOIN texts AS {table} ON {table}.place = r.{name(column.name)}")
    return f"{table}.text"


def _number(shape: TableShape, column: TableColumn, rows: Table) -> str:
    """Return a column of numbers; one that is equal in all rows is written once."""
    values = getattr(rows, column.name)
    same = len(values) and (values == values[0]).all()
    source = str(int(values[0])) if same else f"r.{name(column.name)}"
    names = _NAMES.get((shape.name, column.name))
    if names is not None:
        cases = " ".join(f"WHEN {at} THEN {literal(each)}" for at, each in enumerate(names))
        return f"CASE {source} {cases} END"
    unknown = _UNKNOWN[shape.name].get(column.name)
    return source if unknown is None else f"nullif({source}, {unknown})"


def _steps(rows: Table, profile: Profile) -> Mapping[str, Array]:
    """Return the step and loop of each row; the loop may be unknown."""
    captures = profile.captures
    lost = np.array([isinstance(capture.loop, Missing) for capture in captures], dtype=np.bool_)
    loops = [0 if isinstance(capture.loop, Missing) else capture.loop for capture in captures]
    loop = np.array(loops, dtype=np.int32)[rows.capture]
    return {
        "work": np.ma.masked_array(loop, mask=lost[rows.capture]) if lost.any() else loop,
        "step": np.array([capture.step for capture in captures], dtype=np.int64)[rows.capture],
    }


def _with_unknown_bytes(profile: Profile) -> Executions:
    """Return the executions, with -1 for bytes that the recording does not contain."""
    rows = profile.executions
    without_outputs = [
        capture.index
        for capture in profile.captures
        if capture.file.endswith((XSPACE_SUFFIX, *KINETO_SUFFIXES))
    ]
    if not without_outputs:
        return rows
    is_known = np.zeros(len(profile.captures), dtype=np.bool_)
    # PyTorch notes allocations only if the program wants that.
    is_known[rows.capture[(rows.bytes > 0) & (rows.place == Place.HOST)]] = True
    for capture in profile.captures:
        is_known[capture.index] &= not capture.file.endswith(XSPACE_SUFFIX)
    is_silent = np.isin(rows.capture, without_outputs)
    unknown = np.int64(-1)
    return replace(
        rows,
        bytes=np.where(is_silent & ~is_known[rows.capture], unknown, rows.bytes),
        output_bytes=np.where(is_silent, unknown, rows.output_bytes),
    )


def _contents(profile: Profile, fingerprint: str, counts: Mapping[str, int]) -> CaptureFiles:
    in_each = np.bincount(profile.executions.capture, minlength=len(profile.captures))
    captures = tuple(_capture(capture, int(in_each[capture.index])) for capture in profile.captures)
    problems = tuple((problem.where, problem.what) for problem in profile.problems)
    (process,) = profile.processes
    host = plain(process.host)
    return CaptureFiles(fingerprint, host, process.rank, counts, captures, problems)


def _capture(capture: Capture, executions: int) -> tuple[Any, ...]:
    """Return the row of the table `captures`, without the columns of its process."""
    values = (
        capture.loop,
        capture.step,
        capture.index,
        capture.file,
        capture.level,
        capture.start_ns,
        capture.duration_ns,
        capture.plain_ns,
        capture.fed_bytes,
        capture.result_bytes,
        executions,
    )
    return tuple(None if isinstance(value, Missing) else value for value in values)


def _as_json(contents: CaptureFiles) -> str:
    document = {
        "schema": SCHEMA,
        "fingerprint": contents.fingerprint,
        "host": contents.host,
        "rank": contents.rank,
        "counts": contents.counts,
        "captures": contents.captures,
        "problems": contents.problems,
        "programs": contents.programs,
    }
    return json.dumps(document, separators=(",", ":"))


def read_contents(key: bytes, value: bytes) -> CaptureFiles | None:
    """Return a file's description from a pair of its metadata; None if the file is not ours."""
    if key != _KEY.encode():
        return None
    try:
        document = json.loads(value)
        if document["schema"] != SCHEMA:
            return None
        return CaptureFiles(
            str(document["fingerprint"]),
            str(document["host"]),
            _cell(document["rank"], int),
            {table: int(document["counts"][table]) for table in ("executions", *SIDE_TABLES)},
            tuple(_row(values, _OF_CAPTURE) for values in document["captures"]),
            tuple((str(where), str(what)) for where, what in document["problems"]),
            tuple(_row(values, _OF_PROGRAM) for values in document["programs"]),
        )
    except (ValueError, KeyError, OverflowError, RecursionError, TypeError):
        return None


# Any, here and below: what another program may have written there.
def _row(values: Any, columns: Sequence[TableColumn]) -> tuple[Any, ...]:
    """Return a row of a table, without the columns of its process, as it was written.

    Raises ValueError if it is not one.
    """
    kinds = (str if column.type == "VARCHAR" else int for column in columns)
    return tuple(_cell(value, kind) for value, kind in zip(values, kinds, strict=True))


def _cell(value: Any, kind: type[T]) -> T | None:
    if value is not None and type(value) is not kind:
        raise ValueError(f"{value!r} is no {kind.__name__}")
    return value
