"""Write the rows of an answer as one JSON document or as CSV, a batch at a time."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

SCHEMA = "tfprobe.sql/1"

# Any: values of cells, of whatever type a query returns.
Batches = Iterable[Sequence[tuple[Any, ...]]]
Columns = Sequence[tuple[str, str]]


def as_json(columns: Columns, batches: Batches) -> Iterator[str]:
    """Yield one JSON document: names and types of the columns, then one row per line."""
    schema = [{"name": name, "type": kind} for name, kind in columns]
    yield f'{{"schema": {json.dumps(SCHEMA)},\n"columns": {json.dumps(schema)},\n"rows": ['
    before = "\n"
    for batch in batches:
        lines = [json.dumps([json_value(each) for each in row], allow_nan=False) for row in batch]
        yield before + ",\n".join(lines)
        before = ",\n"
    yield "\n]}\n" if before != "\n" else "]}\n"


def as_csv(columns: Columns, batches: Batches) -> Iterator[str]:
    """Yield CSV with a header line; NULL is an empty field, a list is JSON."""
    yield _csv_lines([[name for name, _ in columns]])
    for batch in batches:
        yield _csv_lines([[_csv_value(each) for each in row] for row in batch])


def json_value(value: Any) -> Any:
    """Return a value for JSON; values without a JSON type, such as dates and NaN, become text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {_name(key): json_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    return value.hex() if isinstance(value, bytes) else str(value)


def _name(key: Any) -> str:
    return key if isinstance(key, str) else json.dumps(json_value(key))


def _csv_lines(rows: Iterable[Sequence[str]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def _csv_value(value: Any) -> str:
    if value is None:
        return ""
    known = json_value(value)
    return known if isinstance(known, str) else json.dumps(known, ensure_ascii=False)
